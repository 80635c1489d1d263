"""The kernels for bfloat16 against the slow loop in float64, on graphs whose blocks of four rows have every shape."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from jigsawmil.graph import SpatialGraph, knn_graph
from jigsawmil.graph_kernels import ABSENT
from jigsawmil.nn import sparse, sparse16
from jigsawmil.nn.loop import attention_by_loop
from jigsawmil.nn.tiles import split_order
from jigsawmil.nn.verify import Case, check_backend, from_dense, make_case, star

LIMIT = 0.01  # of an error, relative to the largest value: bfloat16 has 8 bits


def lattice(side: int, k: int) -> SpatialGraph:
    place = torch.arange(side)
    return knn_graph(torch.cartesian_prod(place, place) * 512.0, k=k)


@pytest.fixture(params=sorted({"float32", sparse16.share().dtype.name}))
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The type of factors: what every processor can take, and what this one takes."""
    monkeypatch.setattr(sparse16, "share", lambda: np.empty(0, request.param))
    return request.param


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


def test_sums_and_gradients_are_those_of_the_loop(cases: list[Case], kind: str) -> None:
    assert all(sparse16.fits(case.y) for case in cases)
    found = check_backend(sparse.CPU, torch.device("cpu"), cases)
    assert {finding.precision for finding in found} == {torch.float32, torch.bfloat16}
    assert [str(finding) for finding in found if finding.error > LIMIT] == []


def test_blocks_hold_every_edge_and_nothing_else(cases: list[Case]) -> None:
    for case in cases:
        graph, blocks = case.graph, case.graph.blocks
        seen = []
        for block, (begin, end) in enumerate(pairwise(blocks.start)):
            matrix = blocks.log_weight[4 * begin : 4 * end].reshape(4, -1)
            columns, size = blocks.columns[begin:end], blocks.size[block]
            assert (end - begin) % 16 == size % 4 == 0
            assert end - begin <= blocks.most
            assert (matrix[:, size:] == ABSENT).all()
            seen += sorted(set(columns.tolist()))
            for j in range(4 * block, min(len(graph), 4 * block + 4)):
                there = matrix[j % 4] != ABSENT
                neighbours, weight = graph.row(j)
                assert columns[there].tolist() == neighbours.tolist()
                assert np.exp(matrix[j % 4][there]) == pytest.approx(weight.numpy(), rel=1e-6)
        assert len(seen) == len(blocks.places)
        for j, (begin, end) in enumerate(pairwise(blocks.column_ptr)):
            assert (blocks.columns[blocks.places[begin:end]] == j).all()
            assert end - begin == seen.count(j)


def test_training_follows_the_gradients_of_the_loop(cases: list[Case], kind: str) -> None:
    """Through autograd, with parameters in float32 as under autocast."""
    case = cases[0]
    y = case.y.bfloat16().requires_grad_()
    receive, send = (x.float().requires_grad_() for x in (case.receive, case.send))
    out, _ = sparse.neighbour_attention(y, receive, send, case.graph)
    found = torch.autograd.grad(out, (y, receive, send), case.g.bfloat16())
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32, torch.float32]
    for one, right in zip(found, case.expected["gradients"], strict=True):
        assert (one.double() - right).abs().max() <= LIMIT * right.abs().max()


def test_same_bits_on_one_and_two_threads(kind: str) -> None:
    graph, draw = lattice(20, 50), torch.Generator().manual_seed(0)
    y, g = (torch.randn(400, 1, 256, generator=draw).bfloat16() for _ in range(2))
    u, v = (torch.randn(1, 256, generator=draw) / 16 for _ in range(2))

    def run(threads: int) -> list[torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            made = sparse16.attention(y, u, v, graph, 0.2)
            dy, ds, dt = sparse16.attention_backward(g, y, u, v, *made, graph, 0.2)
            return [*made, dy, ds, dt, sparse16.halves_backward(y, ds, dt), sparse16.neighbour_sum(y[:, 0], graph)]
        finally:
            torch.set_num_threads(before)

    assert all(torch.equal(a, b) for a, b in zip(run(1), run(2), strict=True))


def test_sums_are_rounded_once_or_so_are_their_factors(cases: list[Case], kind: str) -> None:
    """A bfloat16 is within 2^-8 of what it was rounded from; a processor that multiplies it rounds alpha, too."""
    case = cases[0]
    exact, alpha = attention_by_loop(case.y, case.receive, case.send, case.graph, 0.2)
    out, found, *_ = sparse16.attention(case.y.bfloat16(), case.receive, case.send, case.graph, 0.2)
    dense = torch.zeros(2, len(case.graph), len(case.graph), dtype=torch.float64)
    dense[:, case.graph.rows, case.graph.indices.long()] = alpha
    sizes = torch.einsum("hjl,lhd->jhd", dense, case.y.abs())
    factors = 2**-8 if kind == "uint16" else 1e-5
    assert ((out.double() - exact).abs() <= 1.01 * (2**-8 * exact.abs() + factors * sizes)).all()
    torch.testing.assert_close(found.double(), alpha, rtol=1e-5, atol=1e-7)


def test_the_processor_decides() -> None:
    assert sparse16.share_type("+avx512f,+avx512bf16,-amx-bf16", 20) is np.uint16
    for features, llvm in (("+avx512f,-avx512bf16", 20), ("+avx512bf16", 15), ("", 20)):
        assert sparse16.share_type(features, llvm) is np.float32


def test_split_order_puts_even_numbers_before_odd_ones() -> None:
    assert split_order(64)[:18].tolist() == [*range(0, 32, 2), 1, 3]
    assert sorted(split_order(128).tolist()) == list(range(128))
