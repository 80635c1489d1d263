"""Parts that the package does not know go the whole way: compare, train, predict, heatmap and report."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from jigsawmil.maps.patch_maps import NO_EVIDENCE
from jigsawmil.nn import CONVS, JIGSAWS, POOLINGS, Conv, Jigsaw, Pooling
from jigsawmil.train import POLICIES, Policy


class Nearby(Conv):
    """h_j = W x_j."""

    phrase = "a convolution made for a test"

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(in_dim, out_dim)

    def forward(self, x: Tensor, graph) -> Tensor:
        return self.project(x)


class Top(Pooling):
    """z = the state of the first patch: a weighted sum with one weight."""

    phrase = "a pooling made for a test"

    def forward(self, h: Tensor, bags) -> tuple[Tensor, Tensor]:
        first = [start for start, _ in bags]
        return h[first], torch.zeros(len(h)).index_fill(0, torch.tensor(first), 1.0)


class Largest(Top):
    """z = max_j h_j, which is no sum over patches."""

    def forward(self, h: Tensor, bags) -> tuple[Tensor, Tensor]:
        return torch.stack([h[a:b].max(0).values for a, b in bags]), super().forward(h, bags)[1]

    def contributions(self, hidden: Tensor, attention: Tensor, weight: Tensor) -> None:
        return None


class Small(Jigsaw):
    """Hidden states should be small."""

    phrase = "a jigsaw task made for a test"

    def __init__(self, hidden: int, grid: int, share: float) -> None:
        super().__init__()

    def forward(self, encode, batch, hidden: Tensor, logits, generator) -> Tensor:
        return torch.stack([hidden[a:b].square().mean() for a, b in batch.slides])


class Tenth(Policy):
    def rule(self, mil: float, jigsaw: float) -> float:
        return 0.1

    def describe(self) -> str:
        return "a lambda rule made for a test"


@pytest.fixture
def parts() -> Iterator[None]:
    """What is registered here leaves with the test."""
    new = [(CONVS, "nearby", Nearby), (POOLINGS, "top", Top), (POOLINGS, "largest", Largest)]
    new += [(JIGSAWS, "small", Small), (POLICIES, "tenth", Tenth)]
    for table, name, part in new:
        table.register(name)(part)
    yield
    for table, name, _ in new:
        del table._parts[name]


CHOSEN = ["--conv", "nearby", "--jigsaw", "small", "--lambda", "tenth"]


@pytest.mark.usefixtures("parts")
def test_new_parts_can_be_compared_and_reported(jigsawmil, compare, given, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ran = compare("--methods", "abmil,graph-top+jigsaw", *CHOSEN, *given, "--out", run, pictures=True)
    assert ran.code == 0, ran.err
    assert set(pd.read_csv(run / "summary.csv")["variant"]) == {"abmil", "graph-top+jigsaw"}
    trace = pd.concat(map(pd.read_csv, run.glob("jobs/*/graph-top+jigsaw/*/trace.csv")))
    assert set(trace["lambda_"]) == {0.1}
    ran = jigsawmil("report", run)
    assert ran.code == 0, ran.err
    page = (run / "report.html").read_text()
    for kind in ("convolution", "pooling", "jigsaw task", "lambda rule"):
        assert f"a {kind} made for a test" in page.replace("A pooling", "a pooling")


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(("pooling", "explained"), [("top", True), ("largest", False)])
def test_a_model_of_new_parts_predicts_and_is_drawn(
    pooling: str, explained: bool, jigsawmil, given, quick, cohort: Path, tmp_path: Path
) -> None:
    model, maps = tmp_path / "model", tmp_path / "maps"
    ran = jigsawmil("train", *given, *quick, *CHOSEN, "--method", f"graph-{pooling}+jigsaw", "--out", model)
    assert ran.code == 0, ran.err
    file = sorted((cohort / "features").iterdir())[0]
    ran = jigsawmil("predict", model, file, "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    ran = jigsawmil("heatmap", model, file, "--evidence", "--out", tmp_path / "map.png")
    assert ran.code == 0, ran.err
    assert (tmp_path / "map.png").stat().st_size > 1000
    assert (NO_EVIDENCE in ran.out) != explained
    ran = jigsawmil("export", model, file, "--format", "csv", "--out", maps)
    assert ran.code == 0, ran.err
    [table] = map(pd.read_csv, maps.glob("*.csv"))
    assert table["attention"].sum() == pytest.approx(1)
    assert ("evidence" in table) == explained
    assert (NO_EVIDENCE in ran.out) != explained


@pytest.mark.usefixtures("parts")
def test_an_unknown_name_is_refused_with_those_that_are_registered(jigsawmil, given, tmp_path: Path) -> None:
    ran = jigsawmil("train", "--method", "graph-abmil+jigsaw", *given, "--conv", "nearbi", "--out", tmp_path / "model")
    assert "Did you mean 'nearby'?" in ran.err
    for name in ("graph-tpo", "graph-attention", "mean"):
        ran = jigsawmil("train", *given, "--method", name, "--out", tmp_path / "model")
        assert f"--method: found '{name}', expected one of abmil" in ran.err
