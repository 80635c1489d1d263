"""Each feature file is read once, and each model runs once per slide, whatever a verb writes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.bags import formats
from jigsawmil.train import infer


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the features of each slide were read."""
    counts: Counter[str] = Counter()
    load = formats.load

    def counting(source: Any, *rest: Any) -> Any:
        counts[source.path.stem] += 1
        return load(source, *rest)

    monkeypatch.setattr(formats, "load", counting)
    return counts


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, ...]]:
    """How often a model ran on each bag."""
    counts: Counter[tuple[str, ...]] = Counter()
    run = infer._run

    def counting(model: Any, name: str, batch: Any, *rest: Any) -> Any:
        counts[batch.slide_ids] += 1
        return run(model, name, batch, *rest)

    monkeypatch.setattr(infer, "_run", counting)
    return counts


def test_predict_with_maps_and_attention(jigsawmil, model: Path, cohort: Path, tmp_path: Path, reads, runs) -> None:
    files = [cohort / "features" / f"{name}.h5" for name in ("0001", "0002")]
    written = ["--out", tmp_path / "p.csv", "--heatmap", tmp_path / "maps", "--attention", tmp_path / "attention"]
    ran = jigsawmil("predict", model, *files, *written)
    assert ran.code == 0, ran.err
    assert {path.stem for path in (tmp_path / "maps").iterdir()} == {"0001", "0002"}
    assert {path.stem for path in (tmp_path / "attention").iterdir()} == {"0001", "0002"}
    assert reads == {"0001": 1, "0002": 1}
    assert runs == {("0001",): 1, ("0002",): 1}


def test_export_of_a_run(jigsawmil, finished: tuple[Path, object], tmp_path: Path, reads, runs) -> None:
    ran = jigsawmil("export", finished[0], "--format", "csv", "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert reads == {f"{i:04}": 1 for i in range(1, 19)}
    assert set(runs.values()) == {1}


def test_compare_that_keeps_attention(jigsawmil, given: list[object], tmp_path: Path, reads) -> None:
    small = ["--set", "hidden=8", "--set", "attention_dim=4", "--k", 4, "--epochs", 1]
    methods = ["--methods", "abmil,graph-abmil", "--folds", 2]
    ran = jigsawmil("compare", *given, *methods, *small, "--attention", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert len(list((tmp_path / "run" / "jobs").rglob("attention.safetensors"))) == 4
    assert reads == {f"{i:04}": 1 for i in range(1, 19)}
