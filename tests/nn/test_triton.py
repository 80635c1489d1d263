"""The kernels for GPUs, on a machine without one: interpreted on the CPU, and compiled for real ones."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from jigsawmil.graph import knn_graph
from jigsawmil.nn.verify import LIMITS, PARTS

triton = pytest.importorskip("triton", reason="triton is not installed: pip install '.[dev]'")

# In a process of its own: Triton reads TRITON_INTERPRET where kernels are defined, and then cannot compile them.
INTERPRETED = """
import json
import torch
from jigsawmil import Bag, Batch, GraphConfig, build_model
from jigsawmil.graph import SpatialGraph, knn_graph
from jigsawmil.nn import sparse, triton_sums
from jigsawmil.nn.backends import triton_backend
from jigsawmil.nn.verify import check_backend, make_case, star, usual_cases

def repeated(graph, times):
    "Each edge many times, with different weights."
    copies = torch.arange(times, dtype=torch.int32)
    weight = (graph.weight[:, None] * (1 + copies) / times).flatten()
    reverse = (graph.reverse[:, None] * times + copies).flatten()
    return SpatialGraph(graph.indptr * times, graph.indices.repeat_interleave(times), weight, reverse)

draw = torch.Generator().manual_seed(1)
cases = [case for case in usual_cases() if len(case.graph) < 20]
four = knn_graph(torch.rand(4, 2, generator=draw), k=3)
cases.append(make_case("columns that repeat", repeated(four, 20), 1, 5, draw))
cases.append(make_case("rows of more than one block", star(5), 1, 1024, draw))
for case in cases[-2:]:
    assert case.graph.indptr.diff().max() > triton_sums._blocks(case.y.shape[2])["E"], case.name
findings = check_backend(triton_backend(), torch.device("cpu"), cases)

bag = Bag(slide_id="a", features=torch.randn(6, 3, generator=draw), coords=torch.rand(6, 2, generator=draw).double())
model = build_model("graph-abmil+jigsaw", 3, hidden=4)
batch = Batch.of(bag, GraphConfig(k=2))
steps = []
for backend in (sparse.CPU, triton_backend()):
    sparse.CPU = backend
    for precision in (torch.float32, torch.bfloat16):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision != torch.float32):
            output = model(batch)
        (output.logits.float().sum() + output.jigsaw_logits.float().square().sum()).backward()
        steps.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).tolist())
print(json.dumps({"cases": len(cases), "steps": steps, "findings": [
    [f.part, str(f.precision), f.error, f.case, f.right] for f in findings]}))
"""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    there = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=there, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_interpreted_kernels_equal_the_slow_loop(interpreted: dict[str, Any]) -> None:
    """Sums, attention and gradients; empty rows, self-loops alone, one patch, several blocks, repeated columns."""
    findings = interpreted["findings"]
    assert [finding[:2] for finding in findings] == [[part, str(kind)] for kind in LIMITS for part in PARTS]
    assert all(right for *_, right in findings), findings
    assert interpreted["cases"] == 7


def test_a_model_learns_the_same_from_interpreted_kernels(interpreted: dict[str, Any]) -> None:
    """The gradients of all weights, in float32 and under autocast."""
    single, half, ours, ours_half = (torch.tensor(step) for step in interpreted["steps"])
    torch.testing.assert_close(ours, single, rtol=1e-4, atol=1e-5)
    scale = single.abs().max()
    assert (ours_half - half).abs().max() < 0.05 * scale
    assert not torch.equal(ours_half, ours)  # it was another precision


@pytest.fixture(scope="module")
def launches() -> list[tuple[Any, tuple[Any, ...], dict[str, int]]]:
    """What a step launches at the usual width: kernel, arguments, sizes; in float32, then in bfloat16."""
    from jigsawmil.nn import triton_sums as sums

    seen: list[tuple[Any, tuple[Any, ...], dict[str, int]]] = []
    graph = knn_graph(torch.rand(9, 2, generator=torch.Generator().manual_seed(0)), k=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "launch", lambda kernel, grid, *args, **sizes: seen.append((kernel, args, sizes)))
        for kind in LIMITS:
            y, v = torch.zeros(9, 1, 256, dtype=kind), torch.zeros(1, 256)
            sums.neighbour_sum(y[:, 0], graph)
            out, alpha, s, t = sums.attention(y, v, v, graph, 0.2)
            sums.attention_backward(y, y, v, v, out, alpha, s, t, graph, 0.2)
    return seen


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.usefixtures("own_cache")
def test_kernels_compile_for_nvidia_gpus(launches: Any, capability: int) -> None:
    """Every kernel, as it is launched, to machine code of this GPU, which adds up in float32 and without atomics."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from jigsawmil.nn.triton_sums import OPTIONS

    names = set()
    for kernel, args, sizes in launches:
        kinds = dict(zip(kernel.arg_names, map(kind_of, args), strict=False)) | dict.fromkeys(sizes, "constexpr")
        pointers = {(i,): [["tt.divisibility", 16]] for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)}
        source = ASTSource(kernel, kinds, constexprs=sizes, attrs=pointers)
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=OPTIONS)
        assert compiled.asm["cubin"][:4] == b"\x7fELF"
        code = compiled.asm["ptx"]
        assert f".target sm_{capability}" in code
        assert not any(word in code for word in ("atom.", "red.global", ".f64", "fma.rn.bf16"))
        names.add(kernel.__name__)
    assert len(names) == 6


def kind_of(value: Any) -> str:
    """Of an argument, in Triton's words."""
    if isinstance(value, torch.Tensor):
        return {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32"}[value.dtype]
    return "i32" if isinstance(value, int) else "fp32"
