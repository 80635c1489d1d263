"""A slide of 40 patches with its graph."""

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch


@pytest.fixture(scope="session")
def batch() -> Batch:
    g = torch.Generator().manual_seed(0)
    coords = torch.rand(40, 2, generator=g, dtype=torch.float64) * 10_000
    bag = Bag(slide_id="a", features=torch.randn(40, 6, generator=g), coords=coords)
    return Batch.of(bag, GraphConfig(k=5))


def dense(batch: Batch) -> torch.Tensor:
    """The graph's weights as a matrix."""
    graph = batch.graph
    matrix = torch.zeros(len(graph), len(graph), dtype=torch.float64)
    for j in range(len(graph)):
        neighbours, weight = graph.row(j)
        matrix[j, neighbours.long()] = weight.double()
    return matrix
