"""The kernels for bfloat16 against the slow loop in float64, on graphs whose blocks of four rows have every shape."""

import pytest
import torch

from jigsawmil.graph import SpatialGraph, knn_graph
from jigsawmil.nn import sparse, sparse16
from jigsawmil.nn.tiles import split_order
from jigsawmil.nn.verify import Case, check_backend, from_dense, make_case, star

LIMIT = 0.01  # of an error, relative to the largest value: bfloat16 has 8 bits


def lattice(side: int, k: int) -> SpatialGraph:
    place = torch.arange(side)
    return knn_graph(torch.cartesian_prod(place, place) * 512.0, k=k)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    draw = torch.Generator().manual_seed(0)
    return [
        make_case("a last block of one row, two heads", lattice(5, 12), 2, 64, draw),
        make_case("one patch", knn_graph(torch.zeros(1, 2)), 1, 64, draw),
        make_case("a row of 24 neighbours", star(24), 1, 256, draw),
        make_case("rows without any edge", from_dense(torch.diag(torch.tensor([1.0, 0, 0, 1, 0, 1, 0]))), 1, 64, draw),
        make_case("one direction", knn_graph(torch.rand(6, 2, generator=draw), k=2).with_second_copy, 1, 128, draw),
    ]


def test_sums_and_gradients_are_those_of_the_loop(cases: list[Case]) -> None:
    assert all(sparse16.fits(case.y) for case in cases)
    found = check_backend(sparse.CPU, torch.device("cpu"), cases)
    assert {finding.precision for finding in found} == {torch.float32, torch.bfloat16}
    assert [str(finding) for finding in found if finding.error > LIMIT] == []


def test_every_edge_has_its_slot_in_its_block(cases: list[Case]) -> None:
    for case in cases:
        graph, blocks = case.graph, case.graph.blocks
        for j in range(len(graph)):
            slots = blocks.slot[graph.indptr[j] : graph.indptr[j + 1]]
            begin, end = blocks.start[j // 4], blocks.start[j // 4 + 1]
            assert (slots % 4 == j % 4).all()
            assert blocks.columns[begin + slots // 4].tolist() == graph.row(j)[0].tolist()
            assert (end - begin) % 4 == 0
            assert end - begin <= blocks.most


def test_training_follows_the_gradients_of_the_loop(cases: list[Case]) -> None:
    """Through autograd, with parameters in float32 as under autocast."""
    case = cases[0]
    y = case.y.bfloat16().requires_grad_()
    receive, send = (x.float().requires_grad_() for x in (case.receive, case.send))
    out, _ = sparse.neighbour_attention(y, receive, send, case.graph)
    found = torch.autograd.grad(out, (y, receive, send), case.g.bfloat16())
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32, torch.float32]
    for one, right in zip(found, case.expected["gradients"], strict=True):
        assert (one.double() - right).abs().max() <= LIMIT * right.abs().max()


def test_same_bits_on_one_and_two_threads() -> None:
    graph, draw = lattice(20, 50), torch.Generator().manual_seed(0)
    y, g = (torch.randn(400, 1, 256, generator=draw).bfloat16() for _ in range(2))
    u, v = (torch.randn(1, 256, generator=draw) / 16 for _ in range(2))

    def run(threads: int) -> list[torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            made = sparse16.attention(y, u, v, graph, 0.2)
            return [*made, *sparse16.attention_backward(g, y, u, v, *made, graph, 0.2)]
        finally:
            torch.set_num_threads(before)

    assert all(torch.equal(a, b) for a, b in zip(run(1), run(2), strict=True))


def test_split_order_puts_even_numbers_before_odd_ones() -> None:
    assert split_order(64)[:18].tolist() == [*range(0, 32, 2), 1, 3]
    assert sorted(split_order(128).tolist()) == list(range(128))
