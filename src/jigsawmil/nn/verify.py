"""Does a backend give the right sums and gradients on this device? Held to the loop in float64, on small odd graphs.

`jigsawmil doctor` asks it of every backend, `verdict.py` of a GPU's kernels before their first use, and the tests of
the same kernels under Triton's interpreter.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import SpatialGraph, knn_graph
from .backends import Backend
from .loop import attention_by_loop, sum_by_loop

SLOPE = 0.2
# Largest error, relative to the largest value of the part. Gradients of bfloat16 are differences of sums that were
# rounded to it; a term that is missing or an edge that is taken for another gives errors near 1.
LIMITS = {torch.float32: 1e-4, torch.bfloat16: 0.05}
PARTS = ("sum", "attention", "gradients")


class Finding(NamedTuple):
    """The worst error of one part in one precision, and the case that shows it."""

    part: str
    precision: torch.dtype
    error: float
    case: str

    @property
    def right(self) -> bool:
        return self.error <= LIMITS[self.precision]  # NaN is not

    def __str__(self) -> str:
        name = str(self.precision).removeprefix("torch.")
        return (
            f"{self.part} in {name}: error {self.error:.1e} on {self.case}, expected at most {LIMITS[self.precision]:g}"
        )


class Case(NamedTuple):
    """y, g: (patch, head, d), receive, send: (head, d), in float64 but exact in bfloat16; and what is right."""

    name: str
    graph: SpatialGraph
    y: Tensor
    receive: Tensor
    send: Tensor
    g: Tensor
    expected: dict[str, list[Tensor]]


def check_backend(backend: Backend, device: torch.device, on: Sequence[Case] | None = None) -> list[Finding]:
    """Every part in float32 and bfloat16. on: other cases than `usual_cases`."""
    found: list[Finding] = []
    for precision in LIMITS:
        worst = {part: Finding(part, precision, 0.0, "") for part in PARTS}
        for case in usual_cases() if on is None else on:
            for part, error in _errors(backend, device, precision, case):
                if not error <= worst[part].error:
                    worst[part] = Finding(part, precision, error, case.name)
        found += worst.values()
    return found


def _errors(backend: Backend, device: torch.device, precision: torch.dtype, case: Case) -> Iterator[tuple[str, float]]:
    graph = case.graph.to(device)
    y, receive, send, g = (
        backend.widened(x.to(device, precision)).contiguous() for x in (case.y, case.receive, case.send, case.g)
    )
    sums = [
        backend.sum(x, turned)
        for x, turned in ((y[:, 0].contiguous(), graph), (g[:, 0].contiguous(), graph.transposed))
    ]
    out, alpha, *scores = backend.attention(y, receive, send, graph, SLOPE)
    dy, ds, dt = backend.attention_backward(g, y, receive, send, out, alpha, *scores, graph, SLOPE)
    # The products with y are torch's own; made here, whatever the user's torch may round them to on a GPU
    dots = torch.einsum("kph,phd->khd", torch.stack([ds, dt]).double().cpu(), case.y)
    given = {"sum": sums, "attention": [out, alpha], "gradients": [dy, *dots]}
    for part, right in case.expected.items():
        scale = max(float(other.abs().max()) for other in right if other.numel())
        for one, other in zip(given[part], right, strict=True):
            if other.numel():  # a graph may have no edge
                yield part, float((one.double().cpu() - other).abs().max()) / scale


@lru_cache
@torch.inference_mode(False)  # a GPU may be used first in the midst of a prediction, which keeps no gradients
@torch.enable_grad()
def usual_cases() -> tuple[Case, ...]:
    """Graphs of every shape that the kernels may meet, with widths that fill their blocks and that do not."""
    draw = torch.Generator().manual_seed(0)
    scattered = knn_graph(torch.rand(8, 2, generator=draw), k=3)
    return (
        make_case("scattered patches, two heads", scattered, 2, 20, draw),
        make_case("one patch", knn_graph(torch.zeros(1, 2)), 1, 3, draw),
        make_case("a row of 24 neighbours", star(24), 1, 256, draw),
        make_case("no neighbours but itself", from_dense(torch.eye(3)), 1, 5, draw),
        make_case("rows without any edge", from_dense(torch.diag(torch.tensor([1.0, 0, 0, 1, 0]))), 1, 64, draw),
        make_case(
            "weights of 0 in one direction",
            knn_graph(torch.rand(4, 2, generator=draw), k=2).with_second_copy,
            1,
            64,
            draw,
        ),
    )


def make_case(name: str, graph: SpatialGraph, heads: int, d: int, draw: torch.Generator) -> Case:
    n = len(graph)
    y, receive, send, g = (
        torch.randn(*shape, generator=draw).bfloat16().double()
        for shape in ((n, heads, d), (heads, d), (heads, d), (n, heads, d))
    )
    receive, send = (x * 2.0 ** -round(math.log2(d) / 2) for x in (receive, send))  # scores of order 1
    leaves = [x.clone().requires_grad_() for x in (y, receive, send)]
    out, alpha = attention_by_loop(leaves[0], leaves[1], leaves[2], graph, SLOPE)
    gradients = list(torch.autograd.grad(out, leaves, g))
    sums = [sum_by_loop(y[:, 0], graph), sum_by_loop(g[:, 0], graph.transposed)]
    expected = {"sum": sums, "attention": [out.detach(), alpha.detach()], "gradients": gradients}
    return Case(name, graph, y, receive, send, g, expected)


def from_dense(weights: Tensor) -> SpatialGraph:
    """The graph of a symmetric matrix of weights; 0 is no edge."""
    n, (row, column) = len(weights), weights.nonzero().T
    position = torch.zeros((n, n), dtype=torch.int32)
    position[row, column] = torch.arange(len(row), dtype=torch.int32)
    indptr = torch.cat([torch.zeros(1), (weights > 0).sum(dim=1).cumsum(0)]).int()
    return SpatialGraph(indptr, column.int(), weights[row, column], position[column, row])


def star(leaves: int) -> SpatialGraph:
    """A hub joined to every leaf, no leaf to another: rows of very different length."""
    n = leaves + 1
    joined = torch.eye(n, dtype=torch.bool)
    joined[0], joined[:, 0] = True, True
    place = torch.arange(n)
    return from_dense(torch.exp(-(((place[:, None] - place) / n) ** 2)) * joined)
