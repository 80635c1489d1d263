"""Convolutions against their dense equations."""

import torch

from jigsawmil.nn.batch import Batch
from jigsawmil.nn.convs.gat import GAT
from jigsawmil.nn.convs.gcn import GCN
from jigsawmil.nn.convs.gin import GIN
from jigsawmil.nn.convs.sage import SAGE

from .conftest import dense


def test_convolutions_equal_their_dense_equations(batch: Batch) -> None:
    x, w, graph = batch.features.double(), dense(batch), batch.graph
    torch.manual_seed(0)
    gat, gcn, sage, gin = (conv(6, 4).double() for conv in (GAT, GCN, SAGE, GIN))

    y = gat.project(x)
    e = torch.nn.functional.leaky_relu((y @ gat.receive[0])[:, None] + (y @ gat.send[0])[None], 0.2)
    alpha = w * e.exp()
    torch.testing.assert_close(gat(x, graph), alpha / alpha.sum(1, keepdim=True) @ y)

    d = w.sum(1).rsqrt()
    torch.testing.assert_close(gcn(x, graph), (d[:, None] * w * d) @ gcn.project(x) + gcn.bias)

    torch.testing.assert_close(sage(x, graph), sage.own(x) + w / w.sum(1, keepdim=True) @ sage.project(x))

    with torch.no_grad():
        gin.eps.fill_(0.3)
    others = w - torch.eye(len(w), dtype=w.dtype)
    inner = torch.relu((1.3 * x + others @ x) @ gin.project.weight.T + gin.bias)
    torch.testing.assert_close(gin(x, graph), gin.out(inner))
