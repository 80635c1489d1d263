"""Is every kernel right on the devices of this machine, how fast is it, and which one will be used?"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch

from ..errors import summarize_error
from ..graph import SpatialGraph, knn_graph
from ..nn.backends import TORCH, Backend, triton_backend
from ..nn.sparse import CPU
from ..nn.verdict import keep_faults
from ..nn.verify import LIMITS, PARTS, SLOPE, check_backend

SIDE, NEIGHBOURS, WIDTH, RUNS = 57, 50, 256, 3  # of the slide that is timed: 57 x 57 patches


@dataclass(frozen=True)
class Kernel:
    """A backend on a device in one precision. errors: of each part, empty if it failed, and then `fault` says why."""

    device: str
    backend: Backend
    precision: str
    errors: dict[str, float]
    fault: str
    milliseconds: float
    used: bool

    @property
    def right(self) -> bool:
        return not self.fault


def examine_kernels() -> list[Kernel]:
    """Of the CPU and of every GPU. The verdict on a GPU's kernels is kept for later runs."""
    kernels = list(_of(torch.device("cpu"), [CPU, TORCH]))
    for index in range(torch.cuda.device_count()):
        device, triton = torch.device("cuda", index), triton_backend()
        here = list(_of(device, [triton, TORCH] if triton else [TORCH]))
        if triton:
            keep_faults(device, [one.fault for one in here if one.fault and one.backend.name == triton.name])
        kernels += here
    return kernels


def _of(device: torch.device, backends: list[Backend]) -> Iterator[Kernel]:
    """On the CPU the first is used; on a GPU the first that is right in all precisions, and torch's if none is."""
    taken = False
    for backend in backends:
        precisions = [kind for kind in LIMITS if backend.half or kind == torch.float32]  # others are widened to it
        found = [_examined(device, backend, kind) for kind in precisions]
        fits = device.type == "cpu" or backend is backends[-1] or not any(fault for _, fault, _ in found)
        used, taken = fits and not taken, taken or fits
        for kind, (errors, fault, ms) in zip(precisions, found, strict=True):
            yield Kernel(str(device), backend, str(kind).removeprefix("torch."), errors, fault, ms, used)


def _examined(device: torch.device, backend: Backend, kind: torch.dtype) -> tuple[dict[str, float], str, float]:
    """Errors, what is wrong, and milliseconds of attention and its gradients on one slide."""
    try:
        findings = [one for one in check_backend(backend, device) if one.precision == kind]
        wrong = "; ".join(str(one) for one in findings if not one.right)
        return {one.part: one.error for one in findings}, wrong, milliseconds(backend, device, kind)
    except Exception as error:  # of a compiler, a driver or the device
        return dict.fromkeys(PARTS, float("nan")), summarize_error(error), float("nan")


def milliseconds(backend: Backend, device: torch.device, kind: torch.dtype) -> float:
    """Median of a few runs."""
    graph = timed_slide().to(device)
    draw = torch.Generator().manual_seed(0)
    y, g = (torch.randn(len(graph), 1, WIDTH, generator=draw).to(device, kind) for _ in range(2))
    receive, send = (torch.randn(1, WIDTH, generator=draw).to(device, kind) / 16 for _ in range(2))
    times = []
    for _ in range(RUNS + 1):
        start = _now(device)
        out, alpha, *scores = backend.attention(y, receive, send, graph, SLOPE)
        backend.attention_backward(g, y, receive, send, out, alpha, *scores, graph, SLOPE)
        times.append(_now(device) - start)
    return 1000 * statistics.median(times[1:])  # the first run compiles


@lru_cache
def timed_slide() -> SpatialGraph:
    """A square of tissue."""
    place = torch.arange(SIDE * SIDE)
    return knn_graph(torch.stack([place % SIDE, place // SIDE], dim=1).double(), k=NEIGHBOURS)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
