"""The program in this process, a small cohort on disk, and one run, one model that many tests look at."""

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pandas as pd
import pytest

from jigsawmil.cli import main
from jigsawmil.synthetic.phantom import make_phantom, write_phantom


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Program = Callable[..., Ran]


@pytest.fixture(scope="session")
def jigsawmil() -> Program:
    def run(*arguments: object, columns: int = 100, pictures: bool = False) -> Ran:
        """What typing `jigsawmil ARGUMENTS` gives; pictures take half of the time of so small a run."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(sys, "argv", ["jigsawmil", *map(str, arguments)]))
            stack.enter_context(mock.patch.dict("os.environ", COLUMNS=str(columns)))
            if not pictures:
                for name in ("write_pictures", "write_attention_figure"):
                    stack.enter_context(mock.patch(f"jigsawmil.report.finish.{name}", return_value=[]))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            try:
                main()
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return Ran(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with labels.csv (normal, tumour) and features: 18 slides of 15 patients, ids from 0001 on.

    Not to be changed.
    """
    knobs = {"slides": 18, "dim": 16, "patches": 30, "two_slides": 0.25, "noise": 0.3, "slide_effect": 0.0}
    return write_phantom(make_phantom("composition", seed=1, **knobs), tmp_path_factory.mktemp("cli") / "cohort")


@pytest.fixture(scope="session")
def given(cohort: Path) -> list[object]:
    """The options that name the cohort."""
    return ["--labels", cohort / "labels.csv", "--features", cohort / "features"]


@pytest.fixture(scope="session")
def quick() -> list[object]:
    """Settings small enough that a job takes a tenth of a second."""
    small = [f"--set={pair}" for pair in ("hidden=16", "attention_dim=8", "grid=3")]
    return ["--epochs", "2", "--patience", "0", "--lr", "0.001", "--k", "6", *small]


@pytest.fixture
def own(cohort: Path, tmp_path: Path) -> Path:
    """A copy of the cohort that a test may spoil."""
    return Path(shutil.copytree(cohort, tmp_path / "own"))


@pytest.fixture(scope="session")
def compare(jigsawmil: Program, quick: list[object]) -> Program:
    """`compare` of one method on two folds, where the arguments do not say otherwise."""

    def run(*arguments: object, **how: bool) -> Ran:
        return jigsawmil("compare", "--methods", "abmil", "--folds", "2", *quick, *arguments, **how)

    return run


@pytest.fixture(scope="session")
def finished(compare: Program, given: list[object], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """The folder of a run of two methods on three folds with attention kept, and what it printed. Not to be changed."""
    out = tmp_path_factory.mktemp("cli") / "run"
    two = ["--methods", "abmil,graph-abmil+jigsaw", "--folds", "3"]
    ran = compare(*given, *two, "--attention", "--out", out, pictures=True)
    assert ran.code == 0, ran.err
    return out, ran


@pytest.fixture(scope="session")
def model(
    jigsawmil: Program, given: list[object], quick: list[object], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A model of the cohort. Not to be changed."""
    out = tmp_path_factory.mktemp("cli") / "model"
    ran = jigsawmil("train", "--method", "graph-abmil+jigsaw", *given, *quick, "--out", out)
    assert ran.code == 0, ran.err
    return out


def read(path: Path) -> pd.DataFrame:
    """A table with its ids as they stand."""
    text = dict.fromkeys(("slide_id", "patient_id", "label", "name"), str)
    return pd.read_csv(path, dtype=text, keep_default_na=False)


@pytest.fixture(scope="session")
def table() -> Callable[[Path], pd.DataFrame]:
    return read
