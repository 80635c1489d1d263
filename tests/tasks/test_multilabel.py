"""Several targets at once: masked losses against those of single targets, labels, folds, and every verb."""

from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.labels import read_labels
from jigsawmil.errors import ConfigError, LabelError
from jigsawmil.report.page import report_page
from jigsawmil.study.run import open_run
from jigsawmil.study.slide_maps import maps_of
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.tasks import get_task
from jigsawmil.tasks.heads import BinaryHead, MulticlassHead, MultilabelHead
from jigsawmil.train.weights import stack
from jigsawmil.viewer.data import Key, Library

CLASSES = ("er=neg", "er=pos", "grade=1", "grade=2", "grade=3")
TASK = get_task("multilabel(2,3)")
LABELS = torch.tensor([[0, 2], [1, -1], [-1, 0], [1, 1]])


def test_each_target_learns_as_if_alone_from_the_slides_that_have_it() -> None:
    head, z = MultilabelHead(4, (2, 3)), torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    logits = head(z)
    er, grade = BinaryHead(4, 1), MulticlassHead(4, 3)
    log_odds = logits[:, 1:2] - logits[:, :1]
    own = torch.zeros(4, 2)
    own[[0, 1, 3], 0] = er.loss(log_odds, LABELS[:, 0].clamp_min(0))[[0, 1, 3]]
    own[[0, 2, 3], 1] = grade.loss(logits[:, 2:], LABELS[:, 1].clamp_min(0))[[0, 2, 3]]
    torch.testing.assert_close(head.loss(logits, LABELS), own.mean(dim=1))
    p = head.probabilities(logits)
    torch.testing.assert_close(p[:, :2], er.probabilities(log_odds))
    torch.testing.assert_close(p[:, 2:], grade.probabilities(logits[:, 2:]))
    scores = logits.detach().double().numpy()
    np.testing.assert_allclose(TASK.probabilities(scores, 5), p.detach(), rtol=1e-5)
    for target in TASK.split(CLASSES):
        alone = target.task.probabilities(target.scores(scores), len(target.classes))
        np.testing.assert_allclose(alone, target.probabilities(p.detach().numpy()), rtol=1e-5)


def test_classes_are_weighted_within_their_target() -> None:
    head, logits = MultilabelHead(1, (2, 3)), torch.zeros(4, 5)
    plain = head.loss(logits, LABELS)
    assert head.weigh_classes(LABELS, 5) is None
    rarity = {"er": torch.tensor([3 / 2, 3 / 4]), "grade": torch.tensor([1.0, 1.0, 1.0])}
    expected = (rarity["er"][LABELS[0, 0]] * np.log(2) + rarity["grade"][LABELS[0, 1]] * np.log(3)) / 2
    assert float(head.loss(logits, LABELS)[0]) == pytest.approx(float(expected))
    torch.testing.assert_close(head.held_out(logits, LABELS), plain)  # what training stops by is not weighted


def test_labels_are_read_column_by_column(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("slide_id,er,grade\na,pos,1.0\nb,neg,NA\nc,,3.0\nd,,\n")
    table = read_labels(tmp_path / "labels.csv", task="multilabel", label_columns="er, grade")
    assert list(table.rows["label"]) == ["er=pos; grade=1", "er=neg; grade=", "er=; grade=3", ""]
    found = get_task("multilabel").targets(list(table.rows["label"][:3]))
    assert found.classes == ("er=neg", "er=pos", "grade=1", "grade=3")
    assert found.values.tolist() == [[1, 0], [0, -1], [-1, 1]]
    assert TASK.of(found.classes).name == "multilabel(2,2)"
    assert [get_task("multilabel").label(row, found.classes) for row in found.values] == list(table.rows["label"][:3])
    with pytest.raises(LabelError, match=r"label_columns: found nothing, expected different columns.*'er', 'grade'"):
        read_labels(tmp_path / "labels.csv", task="multilabel")
    with pytest.raises(LabelError, match="no column 'her2'"):
        read_labels(tmp_path / "labels.csv", task="multilabel", label_columns="er,her2")
    with pytest.raises(ConfigError, match=r"label_columns .* applies to the task multilabel"):
        read_labels(tmp_path / "labels.csv", label_columns="er,grade")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"er": "pos", "g": "1"}, {"er": "pos", "g": "2"}] * 2, "er: All slides are 'pos'"),
        ([{"er": "pos", "g": None}, {"er": "neg", "g": None}] * 2, "g: no slide has a label"),
        ([{"er": "pos", "g/h": "1"}] * 4, "target 'g/h' .* expected a name without any of"),
        (["pos", "neg"] * 2, "expected a mapping from targets to classes"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused_by_their_target(labels: list[Any], message: str) -> None:
    bags = [Bag(slide_id=name, features=torch.ones(2, 3), coords=torch.rand(2, 2)) for name in "abcd"]
    with pytest.raises(LabelError, match=message):
        Cohort.from_bags(bags, labels, list("abcd"), task="multilabel")


def test_the_rarest_classes_are_spread_over_folds() -> None:
    rng = np.random.default_rng(0)
    values = np.stack([rng.random(200) < 0.5, rng.integers(0, 3, 200)], axis=1).astype(np.int64)
    values[:180, 1] = values[:180, 1] % 2  # class 2 of the second target is rare
    values[5:9, 0] = -1
    strata = TASK.strata(values)
    assert set(strata[values[:, 1] == 2]) == {4}
    assert min(np.bincount(strata)[np.unique(strata)]) >= min(10, (values[:, 1] == 2).sum())
    assert "a class of target 2" in TASK.check_enough(values, np.arange(200), 50)
    assert not TASK.check_enough(values, np.arange(200), 3)
    assert "fewer than two classes of er" in TASK.check_fold(values[values[:, 0] == 1], values, CLASSES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`planted` is known from the slides, `chance` from nothing; a tenth of each is missing."""
    knobs: dict[str, Any] = {"slides": 30, "patches": 40, "dim": 16, "noise": 0.3, "effect": 20, "seed": 3}
    made = make_phantom("composition", task="multilabel", **knobs)
    assert {slide.outcome["planted"] for slide in made} == {"yes", "no", ""}
    same = all(
        o == "" or (o == "yes") == (s.label == "tumour") for s in made if (o := s.outcome["planted"]) is not None
    )
    assert same  # at so large an effect
    return write_phantom(made, tmp_path_factory.mktemp("multilabel") / "cohort")


@pytest.fixture(scope="module")
def given(folder: Path) -> list[object]:
    where = ["--labels", folder / "labels.csv", "--features", folder / "features"]
    return [*where, "--task", "multilabel", "--label-columns", "planted,chance"]


SMALL = ("--set", "hidden=16", "--set", "attention_dim=4", "--lr", "0.01", "--device", "cpu", "-q")


@pytest.fixture(scope="module")
def run(jigsawmil: Callable[..., Any], given: list[object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ensembles of two."""
    out = tmp_path_factory.mktemp("multilabel") / "run"
    own = ["--methods", "abmil,abmil+jigsaw", "--members", "2", "--epochs", "8", "--patience", "0", "--folds", "2"]
    ran = jigsawmil("compare", *given, *own, *SMALL, "--out", out)
    assert ran.code == 0, ran.err
    return out


def test_every_target_has_figures_of_its_own(run: Path, folder: Path) -> None:
    found, table = open_run(run), pd.read_csv(folder / "labels.csv")
    summary = found.summary.set_index(["variant", "target"])
    assert list(summary.index) == [(v, t) for t in ("planted", "chance") for v in ("abmil", "abmil+jigsaw")]
    assert (summary["auc_oof"].xs("planted", level=1) > 0.8).all()
    for _, row in summary.xs("chance", level=1).iterrows():
        assert row["boot_low"] < 0.6  # no wonder: nothing tells it
    for target in ("planted", "chance"):
        assert (summary["slides"].xs(target, level=1) == table[target].notna().sum()).all()  # others are masked
        rows = found.predictions[found.predictions["target"] == target].set_index("slide_id")
        truth = table.assign(slide_id=[f"{i:04d}" for i in table["slide_id"]]).set_index("slide_id")[target]
        assert (rows["label"] == truth[rows.index]).all()
        assert rows["logit_std"].gt(0).all()
        assert set(rows["prediction"]) <= set(truth.dropna())
    assert set(found.comparisons["target"]) == {"planted", "chance"}
    page = unescape(report_page(found))
    assert "In none of 2 targets" in page
    assert "Loss: the mean over the targets of their cross-entropies" in page
    assert "Task: two classes; yes is the positive one." in page
    assert "chance: " in page


def test_maps_of_a_run_are_of_one_target(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"target: found none, expected one of planted, chance\. Name it: --target"):
        maps_of(run, "0001", variant="abmil")
    maps = maps_of(run, "0001", variant="abmil", target="planted").maps
    assert (maps.task, maps.classes) == ("binary", ("no", "yes"))
    assert maps.evidence is not None
    log_odds = float(maps.evidence.sum() + maps.bias[0])
    assert log_odds == pytest.approx(float(np.log(maps.probabilities[1] / maps.probabilities[0])), abs=1e-5)
    rows = open_run(run).for_target("planted").predictions
    said = rows[(rows["slide_id"] == "0001") & (rows["variant"] == "abmil")].iloc[0]
    assert maps.probabilities[1] == pytest.approx(said["probability"], abs=1e-6)
    library = Library(open_run(run).for_target("chance"))
    shown = library.table("cohort", "abmil", 0)
    assert set(shown["right"]) <= {True, False}
    assert library.maps(Key("cohort", "0002", "abmil", 0)).classes == ("all", "none", "some")


def test_members_are_weighted_by_the_labels_that_are_known() -> None:
    """One kind knows every label, the other guesses; a target that is missing has no say."""
    rng = np.random.default_rng(0)
    truth = np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40)], axis=1)
    knows = np.hstack([4.0 * np.eye(2)[truth[:, 0]], 4.0 * np.eye(3)[truth[:, 1]]])
    truth[::4, 1] = -1
    guesses = rng.normal(size=(40, 5))
    weights = stack(np.stack([knows, guesses]), truth, TASK, 5)
    assert weights[0] > 0.6
    other = knows.copy()
    other[::4, 2:] = 100.0 * rng.normal(size=(10, 3))  # of labels that nobody knows
    np.testing.assert_allclose(stack(np.stack([other, guesses]), truth, TASK, 5), weights, atol=1e-6)


def test_a_model_is_trained_predicts_and_is_validated(
    jigsawmil: Callable[..., Any], given: list[object], folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    own = ["--method", "abmil", "--members", "3", "--epochs", "2", "--class-weights"]
    ran = jigsawmil("train", *given, *own, *SMALL, "--out", model)
    assert ran.code == 0, ran.err
    ran = jigsawmil("predict", model, folder / "features" / "0001.h5", "--out", tmp_path / "p.csv", "-q")
    assert ran.code == 0, ran.err
    row = pd.read_csv(tmp_path / "p.csv").iloc[0]
    assert row["probability_planted=no"] + row["probability_planted=yes"] == pytest.approx(1)
    assert row["prediction_planted"] == ("yes" if row["probability_planted=yes"] > 0.5 else "no")
    ran = jigsawmil("predict", model, folder / "features" / "0001.h5", "--heatmap", tmp_path / "maps", "-q")
    assert "Name it: --target" in ran.err
    where = ["--labels", folder / "labels.csv", "--features", folder / "features", "--label-columns", "planted"]
    ran = jigsawmil(
        "validate", model, *where, "--allow-overlap", "--device", "cpu", "--out", tmp_path / "v", columns=160
    )
    assert ran.code == 0, ran.err
    assert "in training" in ran.out
    assert list(pd.read_csv(tmp_path / "v" / "summary.csv")["target"]) == ["planted"]  # of chance there are no labels
