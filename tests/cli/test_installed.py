"""A method of an installed package, in a study of outcomes in two processes: nothing is patched."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jigsawmil as package
from jigsawmil import METHODS
from jigsawmil.nn import factories
from jigsawmil.study.executors import run_local
from jigsawmil.study.plan import plan
from jigsawmil.study.study_file import read_study

from ..fixtures.outcomes import COLUMNS
from .test_foreign import MODULE

SETTINGS = {"epochs": 1, "patience": 0, "k": 4, "hidden": 16, "attention_dim": 8, "lr": 1e-3}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A package as pip leaves it: a module, and a .dist-info folder that names its method."""
    site = tmp_path / "site"
    about = site / "their_models-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "their_models.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-models\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[jigsawmil.methods]\ntheirs = their_models:Attention\n")
    factories.entry_point_paths.cache_clear()
    yield site
    factories.entry_point_paths.cache_clear()
    METHODS._imported.clear()
    sys.modules.pop("their_models", None)


@pytest.fixture
def file(tmp_path: Path, outcome_options: Callable[[str], dict[str, Any]]) -> Path:
    """A study of a cohort per task."""
    tables = {"defaults": SETTINGS, "variants.abmil": {}, "variants.theirs": {}}
    tables |= {f"cohorts.{task}": outcome_options(task) for task in COLUMNS}
    lines = ["folds = 2"]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_text(value)}" for key, value in table.items())]
    (tmp_path / "study.toml").write_text("\n".join(lines))
    return tmp_path / "study.toml"


def _text(value: object) -> str:
    return repr(str(value)) if isinstance(value, str | Path) else str(value)


def test_a_study_of_every_task_in_two_processes_gives_what_one_gives(
    file: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    source = Path(package.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(source)])}
    command = [sys.executable, "-m", "jigsawmil", "study", file, "--jobs", "2", "--quiet", "--out", two]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    table = pd.read_csv(two / "predictions.csv")
    assert set(zip(table["cohort"], table["variant"], strict=True)) == set(product(COLUMNS, ["abmil", "theirs"]))

    monkeypatch.syspath_prepend(site)
    jobs = plan(read_study(file), one)[0]
    assert len(jobs) == 3 * 2 * 2  # tasks x variants x folds
    run_local(jobs, 1, lambda event: None)
    for job in jobs:
        for name in ("predictions.csv", "model.safetensors"):
            assert (job.folder / name).read_bytes() == (two / job.folder.relative_to(one) / name).read_bytes()
