"""A new task is one file: registered, it is trained, judged, drawn and reported like those of the package."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from jigsawmil import Bag, SlideClassifier
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.tasks import TASKS, BinaryTask, register_task
from jigsawmil.tasks.heads import BinaryHead, Head
from jigsawmil.train.checkpoint import load_model


class FocalHead(BinaryHead):
    """Lin et al. 2017 with gamma = 2: cases that are right already count less."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        plain = super().loss(logits, labels)
        return (1 - torch.exp(-plain)) ** 2 * plain


class FocalTask(BinaryTask):
    name = "focal"
    headers = {"youden": "Youden's\nJ"}  # noqa: RUF012

    def head(self, width: int, classes: int) -> Head:
        return FocalHead(width, 1)

    def figures(self, y, p) -> dict[str, float]:
        called = self.decision(p)
        sensitivity, false_alarms = called[y == 1].mean(), called[y == 0].mean()
        return super().figures(y, p) | {"youden": float(sensitivity - false_alarms)}

    def describe(self, classes) -> str:
        return f"{classes[-1]} or not, by the focal loss"


@pytest.fixture
def focal() -> Iterator[None]:
    register_task(FocalTask())
    yield
    del TASKS["focal"]


def test_a_new_task_runs_through_every_verb(
    focal: None, jigsawmil, given: list[object], quick: list[object], tmp_path: Path
) -> None:
    run, slide = tmp_path / "run", "0004"
    two = ["--methods", "abmil,graph-abmil", "--folds", "2", "--task", "focal", "--shuffle-control"]
    ran = jigsawmil("compare", *given, *two, *quick, "--out", run, columns=200, pictures=True)
    assert ran.code == 0, ran.err
    assert "Youden's" in ran.out
    summary = pd.read_csv(run / "summary.csv")
    assert summary["youden"].between(-1, 1).all()
    assert (summary["positive"] == "tumour").all()
    assert json.loads((run / "study.json").read_text())["cohorts"]["cohort"]["task"] == "focal"

    assert jigsawmil("report", run).code == 0
    page = (run / "report.html").read_text()
    assert "Task: tumour or not, by the focal loss." in page
    assert "Youden&#x27;s J" in page or "Youden's J" in page
    assert jigsawmil("heatmap", run, slide, "--out", tmp_path / "map.png").code == 0
    ran = jigsawmil("export", run, slide, "--out", tmp_path / "maps")
    assert ran.code == 0, ran.err

    model = tmp_path / "model"
    assert (
        jigsawmil("train", "--method", "graph-abmil+jigsaw", *given, *quick, "--task", "focal", "--out", model).code
        == 0
    )
    assert isinstance(load_model(model)[0].head, FocalHead)
    ran = jigsawmil("predict", model, given[3], "--out", tmp_path / "new.csv", "--heatmap", tmp_path / "seen")
    assert ran.code == 0, ran.err
    assert "probability of 'tumour'" in ran.out
    assert list(pd.read_csv(tmp_path / "new.csv")) == ["slide_id", "prediction", "probability"]


def test_its_loss_is_what_is_trained(focal: None, given: list[object], tmp_path: Path) -> None:
    cohort = Cohort.read(given[1], given[3], task="focal")  # type: ignore[arg-type]
    bags: list[Bag] = [cohort.bag(index) for index in range(len(cohort))]
    labels = [cohort.label_of(slide) for slide in cohort.slides]
    small = {"hidden": 8, "attention_dim": 4, "epochs": 2, "patience": 0}
    plain, own = (SlideClassifier("abmil", task=task, **small).fit(bags, labels) for task in (None, "focal"))
    assert own.card_.model.task == "focal"
    assert own.history_[0].mil < plain.history_[0].mil  # the factor is below 1
    own.save(tmp_path / "model")
    assert SlideClassifier.load(tmp_path / "model").get_params()["task"] == "focal"


def test_without_the_task_its_models_and_cohorts_are_refused_by_name(given: list[object], tmp_path: Path) -> None:
    said = "found 'focal', expected one of binary, multiclass, multilabel, ordinal, reg"
    with pytest.raises(ConfigError, match=said):
        Cohort.read(given[1], given[3], task="focal")  # type: ignore[arg-type]
    register_task(FocalTask())
    try:
        cohort = Cohort.read(given[1], given[3], task="focal")  # type: ignore[arg-type]
        labels = [cohort.label_of(slide) for slide in cohort.slides]
        small = {"hidden": 8, "attention_dim": 4, "epochs": 1, "patience": 0}
        bags = [cohort.bag(index) for index in range(len(cohort))]
        SlideClassifier("abmil", task="focal", **small).fit(bags, labels).save(tmp_path / "model")
    finally:
        del TASKS["focal"]
    with pytest.raises(StudyError, match="task: found 'focal'"):
        load_model(tmp_path / "model")
