"""The fast kernels against a slow loop in float64, forward and backward, on graphs of every shape."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from jigsawmil.graph import SpatialGraph, knn_graph
from jigsawmil.nn import csr, sparse, sparse16
from jigsawmil.nn.backends import TORCH
from jigsawmil.nn.loop import attention_by_loop, sum_by_loop


def lattice(side: int) -> torch.Tensor:
    x, y = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1) * 512.0


def star(leaves: int) -> SpatialGraph:
    """A hub joined to every leaf, no leaf to another: rows of very different length."""
    n = leaves + 1
    dense = torch.eye(n, dtype=torch.bool)
    dense[0], dense[:, 0] = True, True
    row, column = dense.nonzero().T
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), dense.sum(1).cumsum(0)])
    position = torch.full((n, n), -1)
    position[row, column] = torch.arange(len(row))
    distance = (row - column).abs()
    weight = torch.exp(-((distance / n) ** 2).float())
    return SpatialGraph(indptr.int(), column.int(), weight, position[column, row].int())


GRAPHS = {
    "random": knn_graph(torch.rand(24, 2, generator=torch.Generator().manual_seed(0)), k=6),
    "lattice": knn_graph(lattice(5), k=8),
    "one node": knn_graph(torch.zeros(1, 2)),
    "star": star(9),
}


def inputs(graph: SpatialGraph, heads: int = 2, d: int = 5, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    n = len(graph)
    shapes = [(n, heads, d), (heads, d), (heads, d)]
    return [torch.randn(*shape, generator=g, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("name", GRAPHS)
def test_attention_equals_the_slow_loop(name: str) -> None:
    graph = GRAPHS[name]
    y, u, v = inputs(graph)
    out, alpha = sparse.neighbour_attention(y, u, v, graph)
    for fast, slow in zip((out, alpha), attention_by_loop(y, u, v, graph), strict=True):
        torch.testing.assert_close(fast, slow)
    rows = torch.stack([alpha[:, graph.indptr[j] : graph.indptr[j + 1]].sum(1) for j in range(len(graph))])
    torch.testing.assert_close(rows, torch.ones_like(rows))


@pytest.mark.parametrize("name", GRAPHS)
def test_attention_gradients(name: str) -> None:
    graph = GRAPHS[name]
    y, u, v = inputs(graph, d=3)
    assert torch.autograd.gradcheck(lambda *a: sparse.neighbour_attention(*a, graph)[0], (y, u, v))
    seed = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(2))
    fast = torch.autograd.grad(sparse.neighbour_attention(y, u, v, graph)[0], (y, u, v), seed)
    slow = torch.autograd.grad(attention_by_loop(y, u, v, graph)[0], (y, u, v), seed)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", GRAPHS)
def test_torch_implementation_equals_the_kernels(name: str) -> None:
    """The path that other devices take, run on the CPU."""
    graph = GRAPHS[name]
    y, u, v = (x.detach() for x in inputs(graph))
    g = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(2))
    ours, theirs = sparse.attention_cpu(y, u, v, graph, 0.2), csr.attention(y, u, v, graph, 0.2)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    saved = (y, u, v, *ours, graph, 0.2)
    pairs = zip(sparse.attention_backward_cpu(g, *saved), csr.attention_backward(g, *saved), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", GRAPHS)
def test_neighbour_sum(name: str) -> None:
    graph = GRAPHS[name]
    x = torch.randn(len(graph), 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    torch.testing.assert_close(sparse.neighbour_sum(x, graph), sum_by_loop(x, graph))
    torch.testing.assert_close(csr.neighbour_sum(x.detach(), graph), sum_by_loop(x.detach(), graph))
    assert torch.autograd.gradcheck(lambda x: sparse.neighbour_sum(x, graph), (x,))


def test_single_precision_agrees_with_double() -> None:
    graph = GRAPHS["lattice"]
    y, u, v = inputs(graph, heads=1, d=64)
    u, v = u / 8, v / 8  # scores of order 1, as a trained layer has
    out, _ = sparse.neighbour_attention(y, u, v, graph)
    single, _ = sparse.neighbour_attention(y.float(), u.float(), v.float(), graph)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), out, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("d", [5, 64])
def test_autocast_adds_up_in_single_precision(monkeypatch: pytest.MonkeyPatch, d: int) -> None:
    """What is rounded to bfloat16, if anything, is the sum. A processor that multiplies bfloat16 rounds alpha, too: see
    `test_sparse16.py`, which also bounds that."""
    monkeypatch.setattr(sparse16, "share", lambda: np.empty(0, np.float32))
    graph = GRAPHS["lattice"]
    y, u, v = (x.detach().bfloat16() for x in inputs(graph, d=d))
    expected, _ = sparse.neighbour_attention(y.float(), u.float(), v.float(), graph)
    for backend in (sparse.CPU, TORCH):  # the second is what other devices take
        monkeypatch.setattr(sparse, "CPU", backend)
        with torch.autocast("cpu", torch.bfloat16):
            out, _ = sparse.neighbour_attention(y, u, v, graph)
        assert out.dtype == (torch.bfloat16 if backend.half else torch.float32)
        rounded = expected.to(out.dtype).float()
        torch.testing.assert_close(out.float(), rounded, rtol=2**-7, atol=1e-6)  # the neighbouring number at most
        if backend.half:
            assert (out == rounded).float().mean() > 0.98


def test_large_scores_do_not_overflow() -> None:
    graph = GRAPHS["lattice"]
    y, u, v = (x.detach().float() for x in inputs(graph))
    out, _ = sparse.neighbour_attention(y, u, v * 1e4, graph)
    assert out.isfinite().all()
    assert out.abs().max() <= y.abs().max() * (1 + 1e-5)  # a convex combination


def test_same_bits_on_one_and_two_threads() -> None:
    graph = knn_graph(lattice(20), k=50)
    y, u, v = inputs(graph, heads=1, d=256, dtype=torch.float32)

    def run(threads: int) -> list[torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            out, _ = sparse.neighbour_attention(y, u, v, graph)
            return [out.detach(), *torch.autograd.grad(out.square().sum(), (y, u, v))]
        finally:
            torch.set_num_threads(before)

    for a, b in zip(run(1), run(2), strict=True):
        assert torch.equal(a, b)


def test_equals_pyg_gatconv_where_the_definitions_meet() -> None:
    """Unit weights, no bias: our kernel under PyG's own parameters."""
    geometric = pytest.importorskip("torch_geometric.nn")
    graph = GRAPHS["random"]
    plain = SpatialGraph(graph.indptr, graph.indices, torch.ones_like(graph.weight), graph.reverse)
    heads, d = 3, 4
    torch.manual_seed(0)  # PyG draws its parameters from the global generator
    conv = geometric.GATConv(7, d, heads=heads, bias=False, add_self_loops=False).double()
    x = torch.randn(len(graph), 7, dtype=torch.float64)
    edge_index = torch.stack([plain.indices.long(), plain.rows])  # from l to j
    y = conv.lin(x).view(-1, heads, d)
    ours, _ = sparse.neighbour_attention(y, conv.att_dst[0], conv.att_src[0], plain)
    torch.testing.assert_close(ours.flatten(1), conv(x, edge_index))


def test_weights_enter_before_the_softmax() -> None:
    """Two neighbours of equal score share attention as their weights do: e^-1 against 1."""
    graph = knn_graph(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), k=1)
    y = torch.tensor([[[1.0]], [[0.0]]])
    zero = torch.zeros(1, 1)
    out, _ = sparse.neighbour_attention(y, zero, zero, graph)
    assert out[0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-1)))


def test_the_number_of_threads_stays_the_users() -> None:
    """Numba's OpenMP layer sets torch's threads when it starts: in a fresh process, one stays one."""
    program = (
        "import torch; torch.set_num_threads(1); from jigsawmil import Batch, Bag, build_model;"
        "bag = Bag(slide_id='a', features=torch.rand(9, 4), coords=torch.rand(9, 2).double());"
        "build_model('graph-abmil', 4, hidden=8)(Batch.of(bag)).logits.sum().backward();"
        "raise SystemExit(torch.get_num_threads() != 1)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
