"""What doctor and the first use of a GPU rely on: wrong kernels are found, and the verdict is kept and heeded."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jigsawmil.nn import backends, csr, sparse, verdict
from jigsawmil.nn.backends import TORCH, Backend, device_backend
from jigsawmil.nn.verify import check_backend, usual_cases

HERE = torch.device("cpu")  # stands in for a GPU


def wrong(backend: Backend, device: torch.device = HERE) -> set[str]:
    return {finding.part for finding in check_backend(backend, device) if not finding.right}


@pytest.mark.parametrize("backend", [sparse.CPU, TORCH])
def test_the_backends_of_this_machine_are_right(backend: Backend) -> None:
    assert not wrong(backend)


def test_a_first_use_in_the_midst_of_a_prediction() -> None:
    usual_cases.cache_clear()
    with torch.inference_mode():
        assert not wrong(TORCH)


def without_weights(x: torch.Tensor, graph: Any) -> torch.Tensor:
    return csr.neighbour_sum(x, replace(graph, weight=torch.ones_like(graph.weight)))


def without_own_score(*args: Any) -> Any:
    dy, ds, dt = csr.attention_backward(*args)
    return dy - ds[:, :, None] * args[2], ds, dt


def out_of_place(y: torch.Tensor, *args: Any) -> Any:
    out, *others = csr.attention(y, *args)
    return out.roll(1, 0), *others


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        ({"sum": without_weights}, {"sum"}),
        ({"sum": lambda x, graph: csr.neighbour_sum(x, graph) * torch.nan}, {"sum"}),
        ({"sum": lambda x, graph: csr.neighbour_sum(x, graph).half().float()}, {"sum"}),
        ({"attention": lambda *args: csr.attention(*args[:4], 0.1)}, {"attention", "gradients"}),
        ({"attention": out_of_place}, {"attention", "gradients"}),
        ({"attention_backward": lambda *args: csr.attention_backward(*args[:9], 0.1)}, {"gradients"}),
        ({"attention_backward": without_own_score}, {"gradients"}),
    ],
)
def test_a_fault_is_found_where_it_is(fault: dict[str, Any], parts: set[str]) -> None:
    assert wrong(TORCH._replace(**fault)) == parts


@pytest.fixture
def trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, list[str], int]]:
    """The backend that a process takes if a GPU's kernels are `backend`: its name, warnings, how often it looked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def choose(backend: Backend, **known: str) -> tuple[str, list[str], int]:
        looked: list[Backend] = []

        def look(one: Backend, device: torch.device) -> list[str]:
            looked.append(one)
            return find(one, device)

        find = verdict.find_faults
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            patch.setattr(verdict, "triton_backend", lambda: backend._replace(name="triton"))
            patch.setattr(verdict, "identity", lambda device: {"device": "Fake 9000", "torch": "2.6", **known})
            patch.setattr(verdict, "find_faults", look)
            return verdict.trusted_backend(HERE).name, [str(one.message) for one in said], len(looked)

    return choose


def crash(*args: Any) -> Any:
    raise RuntimeError("CUDA error: an illegal memory access\nmore")


def test_right_kernels_are_looked_at_once(trust: Callable[..., Any], tmp_path: Path) -> None:
    assert trust(TORCH) == ("triton", [], 1)
    assert trust(TORCH) == ("triton", [], 0)
    assert trust(TORCH, torch="2.7") == ("triton", [], 1)  # another version is another matter
    for file in tmp_path.rglob("gpu-*.json"):
        file.write_text("{")
    assert trust(TORCH) == ("triton", [], 1)


@pytest.mark.parametrize(
    ("fault", "words"), [({"sum": without_weights}, "sum in float32: error"), ({"sum": crash}, "illegal memory access")]
)
def test_wrong_kernels_are_not_used(trust: Callable[..., Any], fault: dict[str, Any], words: str) -> None:
    for looked in (1, 0):  # and a later process heeds it
        name, said, times = trust(TORCH._replace(**fault))
        assert (name, times) == ("torch", looked)
        assert len(said) == 1
        assert "Fake 9000" in said[0]
        assert words in said[0]


def test_who_sums_on_which_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_trusted", lambda device: f"trusted on {device}")
    y = SimpleNamespace(device=torch.device("cuda:1"), dtype=torch.bfloat16)
    assert device_backend(y) == "trusted on cuda:1"
    assert device_backend(SimpleNamespace(device=torch.device("mps"), dtype=torch.float32)) is TORCH
    assert device_backend(SimpleNamespace(device=y.device, dtype=torch.float64)) is TORCH  # for which it has none


def test_a_full_gpu_is_no_fault(trust: Callable[..., Any], tmp_path: Path) -> None:
    def full(*args: Any) -> Any:
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        trust(TORCH._replace(sum=full))
    assert not list(tmp_path.rglob("gpu-*.json"))


def test_without_a_place_to_keep_it_every_process_looks(trust: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "jigsawmil").write_text("a file where the folder would be")
    assert trust(TORCH) == trust(TORCH) == ("triton", [], 1)
