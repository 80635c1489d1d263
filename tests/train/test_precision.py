"""`auto`: bfloat16 where the device computes in it natively, and the same answers on a machine that does not."""

from pathlib import Path

import pytest
import torch

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.train import devices
from jigsawmil.train.apply import apply_model
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.config import AUTO, PRECISIONS
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_model

CPU = torch.device("cpu")


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the CPU has bfloat16: the last item."""
    said = [True]
    monkeypatch.setattr(devices, "_native_bfloat16", lambda device: said[-1])
    return said


def test_auto_is_what_the_device_has(native: list[bool]) -> None:
    assert devices.pick_precision(AUTO, CPU) == "bfloat16"
    native.append(False)
    assert devices.pick_precision(AUTO, CPU) == "float32"
    for name in PRECISIONS[:-1]:
        assert devices.pick_precision(name, CPU) == name


def test_a_device_says_what_it_has() -> None:
    flags = Path("/proc/cpuinfo")
    if not flags.exists():
        pytest.skip("only Linux lists the flags of the CPU")
    has = {"avx512_bf16", "amx_bf16"} & set(flags.read_text().split())
    assert devices._native_bfloat16(CPU) == bool(has)
    assert not devices._native_bfloat16(torch.device("mps"))


def test_a_model_answers_as_where_it_was_trained(cohort: Cohort, tmp_path: Path, native: list[bool]) -> None:
    own = {"method": "abmil", "hidden": 8, "attention_dim": 4, "epochs": 2, "patience": 0}
    settings = {name: Settings(**own, precision=name) for name in (AUTO, "bfloat16", "float32")}
    for name, one in settings.items():
        train_model(cohort, tmp_path / name, one)
    native.append(False)
    train_model(cohort, tmp_path / "elsewhere", settings[AUTO])
    found = {}
    for name in (*settings, "elsewhere"):
        model, card = load_model(tmp_path / name)
        found[name] = [float(seen.scores[0]) for seen in apply_model(model, card, [cohort.bag(i) for i in range(4)])]
    assert found[AUTO] == found["bfloat16"] != found["float32"] == found["elsewhere"]
