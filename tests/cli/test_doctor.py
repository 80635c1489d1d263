"""`jigsawmil doctor`: what it says of this machine, and what it does about a kernel that is wrong."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from jigsawmil.cli.options import MethodOptions
from jigsawmil.doctor import kernels, machine, software
from jigsawmil.doctor.examination import verdict
from jigsawmil.nn.backends import TORCH
from jigsawmil.nn.sparse import CPU


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SAMPLE", 2**20)
    monkeypatch.setattr(kernels, "SIDE", 12)
    kernels.timed_slide.cache_clear()


def test_a_healthy_machine(jigsawmil: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-to-be-shown")
    narrow, ran = (jigsawmil("doctor", tmp_path, columns=columns) for columns in (80, 200))
    assert max(map(len, narrow.out.splitlines())) <= 80
    assert (ran.code, ran.err) == (0, "")
    wanted = [
        torch.__version__,
        "MB per second",
        "OpenSlide",
        "Ray",
        "browser",
        "uni2-h",
        "A token of the hub was found",
    ]
    assert [said for said in wanted if said not in ran.out] == []
    assert "not-to-be-shown" not in ran.out
    assert f"--device auto is {'cuda:0' if torch.cuda.is_available() else 'cpu'}, with" in ran.out
    named = set(re.findall(r"--(\w+)", ran.out))
    assert named == {"device", "precision"}
    assert named <= {field.name for field in fields(MethodOptions)}  # compare and train take them
    assert "NO" not in ran.out
    assert list(tmp_path.iterdir()) == []  # what was written to measure the disk is gone


def test_a_wrong_kernel_is_named(jigsawmil: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(*args: Any) -> Any:
        dy, ds, dt = CPU.attention_backward(*args)
        return 2 * dy, ds, dt

    monkeypatch.setattr(kernels, "CPU", CPU._replace(attention_backward=doubled))
    ran = jigsawmil("doctor", tmp_path)
    assert ran.code == 1
    assert "Wrong: Numba kernels on cpu: gradients in float32: error" in ran.out
    assert "NO" in ran.out
    assert "Numba kernels, which are wrong here" in ran.out


def test_what_a_gpu_is_judged_to_do_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is not there."""
    kept: list[list[str]] = []
    wrong: set[str] = set()
    triton = TORCH._replace(name="triton", words="Triton kernels", half=True)

    def examined(device: torch.device, backend: Any, kind: torch.dtype) -> tuple[dict[str, float], str, float]:
        return {}, "out of order" if f"{backend.name} {kind}" in wrong else "", 1.0

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **asked: True)
    monkeypatch.setattr(kernels, "_examined", examined)
    monkeypatch.setattr(kernels, "keep_faults", lambda device, faults: kept.append(faults))
    monkeypatch.setattr(kernels, "triton_backend", lambda: triton)
    for fault, used, said in (
        ("", ["triton", "triton"], "cuda:0, with Triton kernels; --precision auto selects bfloat16 on this device"),
        ("triton torch.bfloat16", ["torch"], "cuda:0, with torch's CSR operations;"),
        ("torch torch.float32", ["torch"], "cuda:0, with torch's CSR operations, which are wrong here"),
    ):
        wrong.add(fault)
        found = kernels.examine_kernels()
        assert [one.backend.name for one in found if one.used and one.device == "cuda:0"] == used
        assert said in verdict(found)
    assert kept == [[], ["out of order"], ["out of order"]]


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    (fact,) = machine.disk_facts(tmp_path / "nowhere")
    assert fact.found.startswith("not measured")
    assert "No such file" in fact.note


def test_what_stands_between_encoders_and_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "find_spec", lambda name: None)
    rows = {name: others for name, *others in software.encoder_rows()}
    assert rows["uni"] == ["timm is missing", "-", "on request"]
    assert rows["efficientnet-lite0"] == ["efficientnet_lite_pytorch is missing", "come with the library", "open"]
    notes = " ".join(software.encoder_notes())
    assert "Without timm: pip install 'jigsawmil[encoders]'" in notes
    assert "No token" in notes
