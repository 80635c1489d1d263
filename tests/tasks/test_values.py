"""Measured values and survival: losses against their likelihoods, labels, folds, and what is refused."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil import Bag, SlideSurvival
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.labels import read_labels
from jigsawmil.cohort.splits import make_folds
from jigsawmil.errors import ConfigError, LabelError
from jigsawmil.report.page import report_page
from jigsawmil.study.predictions import pool
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic import make_phantom
from jigsawmil.tasks import get_task
from jigsawmil.tasks.outcome import event_of, median_survival, survival_at
from jigsawmil.tasks.value_heads import CoxHead, IntervalHead, RegressionHead

SURVIVAL_SECTIONS = ("Survival by predicted risk", "Calibration at horizons")
SURVIVAL, REGRESSION = get_task("survival"), get_task("regression")


def outcomes(count: int, *, ties: bool = False) -> torch.Tensor:
    rng = np.random.default_rng(0)
    time = np.round(rng.exponential(10, count), 0 if ties else 3) + 1
    return torch.from_numpy(np.stack([time, rng.random(count) < 0.7], axis=1).astype(float))


def partial_likelihood(risk: torch.Tensor, time: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
    """The log of Cox's, with Breslow's ties: a loop over the events."""
    return torch.stack([risk[i] - risk[time >= time[i]].logsumexp(0) for i in range(len(time)) if event[i]]).sum()


@pytest.mark.parametrize("ties", [False, True])
def test_the_gradients_of_single_bags_add_up_to_that_of_coxs_partial_likelihood(ties: bool) -> None:
    torch.manual_seed(0)
    labels, z = outcomes(60, ties=ties), torch.randn(60, 5, dtype=torch.float64)
    head = CoxHead(5, 3).double()
    head.learn_targets(labels, ("risk", "2", "5", "9"))
    head.recall(head(z).detach(), labels)
    for bag in range(60):  # each bag by itself, as with batches of one slide
        head.loss(head(z[bag : bag + 1]), labels[bag : bag + 1]).sum().backward()
    by_bags = head.linear.weight.grad.clone()
    head.zero_grad()
    whole = -partial_likelihood(head(z)[:, 0], *labels.T)
    whole.backward()
    torch.testing.assert_close(by_bags, head.linear.weight.grad)
    if not ties:  # of which each step of H would hold several
        value = head.loss(head(z), labels).sum() - labels[:, 1].sum()  # H(time) exp(r) sums to the number of events
        assert float((value - whole).detach()) == pytest.approx(0, abs=1e-6)


def test_the_baseline_is_breslows() -> None:
    lifelines = pytest.importorskip("lifelines", reason="lifelines is not installed: pip install '.[dev]'")
    labels = outcomes(80)
    head = CoxHead(1, 2)
    head.recall(torch.zeros(80, 1), labels)  # without risks it is Nelson and Aalen's
    fitted = lifelines.NelsonAalenFitter(nelson_aalen_smoothing=False).fit(labels[:, 0], labels[:, 1])
    known = fitted.cumulative_hazard_at_times(head._times.numpy()).to_numpy()
    np.testing.assert_allclose(head._hazard[1:].numpy(), known, rtol=1e-6)


def test_the_discrete_loss_is_the_likelihood_of_the_intervals() -> None:
    labels = torch.tensor([[1.0, 1], [2.0, 1], [3.0, 1], [4.0, 1], [2.5, 0], [9.0, 0]], dtype=torch.float64)
    head = IntervalHead(2, 3)
    head.learn_targets(labels, ("risk", "1", "2", "3"))
    assert head.bounds.tolist() == [0.0, 1.75, 2.5, 3.25, 9.0]
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    h = logits.sigmoid()
    lived = (1 - h).cumprod(dim=1)
    expected = [h[0, 0], lived[1, 0] * h[1, 1], lived[2, 1] * h[2, 2], lived[3, 2] * h[3, 3], lived[4, 1], lived[5, 3]]
    torch.testing.assert_close(head.loss(logits, labels), -torch.stack(expected).log())
    curve = head.probabilities(logits)[:, 1:]
    assert bool((curve.diff(dim=1) <= 0).all())  # survival falls
    at_bound = head.horizons.clone()
    head.horizons.copy_(torch.tensor([1.75, 2.5, 3.25]))
    torch.testing.assert_close(head.probabilities(logits)[:, 1:], lived[:, :3])  # where intervals end
    head.horizons.copy_(at_bound)
    p = head.probabilities(logits).detach().double().numpy()
    np.testing.assert_allclose(SURVIVAL.probabilities(head.scores(logits).double().numpy(), 4), p, rtol=1e-5)


def test_the_jigsaw_takes_part_in_learning_survival() -> None:
    """With lambda = 0 the model is that without a jigsaw, to the bit; with lambda = 1 it is another."""
    phantom = make_phantom("arrangement", slides=8, patches=60, dim=16, task="survival")
    outcomes_of = [(slide.outcome["time"], slide.outcome["event"]) for slide in phantom]
    small: dict[str, Any] = {
        "hidden": 8,
        "attention_dim": 4,
        "epochs": 2,
        "patience": 0,
        "loss": "cox",
        "k": 4,
        "lr": 0.01,
    }
    found = [
        SlideSurvival(method, **small, **own).fit(phantom.bags, outcomes_of).predict(phantom.bags)
        for method, own in (
            ("graph-abmil", {}),
            ("graph-abmil+jigsaw", {"lambda_": 0.0}),
            ("graph-abmil+jigsaw", {"lambda_": 1.0}),
        )
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[2] - found[1]).max() > 1e-4


def test_a_value_is_learnt_in_its_own_unit() -> None:
    """Another unit of the target changes predictions by that factor and the loss not at all."""
    y, z = torch.randn(30, dtype=torch.float64) * 3 + 50, torch.randn(30, 4)
    found = []
    for factor in (1.0, 1000.0):
        torch.manual_seed(0)
        head = RegressionHead(4, "huber")
        head.learn_targets(y * factor, ("target",))
        found.append((head(z) / factor, head.loss(head(z), y * factor), head.weight / factor))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(head(z)[:, 0], head(torch.zeros(1, 4))[0] + z @ head.weight[0], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("cell", "event"),
    [("1:DECEASED", True), ("0:LIVING", False), ("1", True), ("0.0", False), ("Dead", True), ("2", None), ("", None)],
)
def test_events_are_read_as_tools_write_them(cell: str, event: bool | None) -> None:
    assert event_of(cell) is event


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("patient_id,OS_MONTHS,OS_STATUS", "p,12.5,1:DECEASED"),  # cBioPortal
        ("patient_id,event,time", "p,1,12.5"),  # nnMIL, PathBench
        ("case_id,survival_months,censorship", "p,12.5,0"),  # MCAT, PORPOISE: 0 is an event
    ],
)
def test_columns_are_found_by_the_names_of_other_tools(tmp_path: Path, header: str, row: str) -> None:
    (tmp_path / "labels.csv").write_text(f"slide_id,{header}\ns,{row}\nt,{row.replace('12.5', '')}\n")
    table = read_labels(tmp_path / "labels.csv", task="survival")
    assert list(table.rows["label"]) == ["12.5 1", ""]  # without a time there is no label


def test_bags_take_the_array_of_scikit_survival() -> None:
    y = np.array([(True, 3.0), (False, 5.5)], dtype=[("event", bool), ("time", float)])
    assert [SURVIVAL.text_of(own) for own in y] == ["3.0 1", "5.5 0"]
    assert SURVIVAL.text_of((2.0, 1)) == "2.0 1"


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("survival", ["-1 1", "2 0", "3 1", "4 0"], "1 time that cannot be used: a: '-1'"),
        ("survival", ["inf 1", "2 0", "3 1", "4 0"], "1 time that cannot be used: a: 'inf'"),
        ("survival", ["1 2", "2 0", "3 1", "4 0"], "1 event that cannot be used: a: '2'"),
        ("survival", ["1 0", "2 0", "3 0", "4 0"], "No slide has the event: all are censored"),
        ("regression", ["1", "x", "3", "4"], "1 label without a finite number: b: 'x'"),
        ("regression", ["2", "2", "2", "2"], "All slides have the value 2"),
    ],
)
def test_labels_that_cannot_be_used_are_refused_by_name(task: str, labels: list[str], message: str) -> None:
    bags = [Bag(slide_id=name, features=torch.ones(2, 3), coords=torch.rand(2, 2)) for name in "abcd"]
    with pytest.raises(LabelError, match=message):
        Cohort.from_bags(bags, labels, list("abcd"), task=task)


def test_a_patient_has_one_outcome() -> None:
    bags = [Bag(slide_id=name, features=torch.ones(2, 3), coords=torch.rand(2, 2)) for name in "abc"]
    with pytest.raises(LabelError, match="1 patient with several outcomes: p"):
        Cohort.from_bags(bags, ["1 1", "2 1", "3 0"], ["p", "p", "q"], task="survival")


def test_columns_of_another_task_are_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("slide_id,T,E\ns,1,1\n")
    with pytest.raises(ConfigError, match=r"time_column .* applies to the task survival"):
        read_labels(tmp_path / "labels.csv", time_column="T")
    with pytest.raises(LabelError, match="no column of times is recognised"):
        read_labels(tmp_path / "labels.csv", task="survival", event_column="E")
    with pytest.raises(ConfigError, match="loss: found 'cox', expected huber, squared"):
        REGRESSION.check_loss("cox")
    with pytest.raises(ConfigError, match="loss: found 'cox', expected none"):
        get_task("binary").check_loss("cox")


def test_events_times_and_values_are_spread_over_folds() -> None:
    rng = np.random.default_rng(0)
    ids = [f"{i:03d}" for i in range(90)]
    values = np.stack([rng.exponential(10, 90), rng.random(90) < 0.5], axis=1)
    names = SURVIVAL.stratum_names(())
    folds = make_folds(ids, ids, [names[i] for i in SURVIVAL.strata(values)], folds=3)
    rows = [[ids.index(slide) for slide in fold.test] for fold in folds]
    assert np.ptp([values[own, 1].sum() for own in rows]) <= 2
    assert np.ptp([(values[own, 0] > np.median(values[:, 0])).sum() for own in rows]) <= 3
    groups = REGRESSION.strata(values[:, 0])
    assert np.bincount(groups).tolist() == [23, 22, 23, 22]
    assert values[groups == 0, 0].max() <= values[groups == 1, 0].min()


def test_folds_without_events_are_refused() -> None:
    values = np.array([[1.0, 1], [2, 1], [3, 0], [4, 0], [5, 0], [6, 0]])
    assert "2 patients have the event; 3 folds need" in SURVIVAL.check_enough(values, list("abcdef"), 3)
    assert not SURVIVAL.check_enough(values, list("abcdef"), 2)
    assert "all 4 slides of the test part are censored" in SURVIVAL.check_fold(values[:2], values[2:], ())
    assert "all training slides have the value 3" in REGRESSION.check_fold(np.array([3.0, 3.0]), np.array([1.0]), ())


def test_labels_for_people() -> None:
    assert SURVIVAL.label_words("46.5632 0") == "censored at 46.56"
    assert SURVIVAL.label_words("3.0 1") == "event at 3"
    assert REGRESSION.label_words("13.9023456") == "13.9"


def test_the_median_lies_where_the_curve_falls_to_a_half() -> None:
    assert median_survival(("risk", "10", "20"), np.array([0, 0.75, 0.25])) == pytest.approx(15)
    assert median_survival(("risk", "10", "20"), np.array([0, 0.9, 0.8])) is None
    found = survival_at(("risk", "10", "20"), np.array([[0, 0.75, 0.25], [0, 0.9, 0.8]]), np.array([5.0, 10.0, 15.0]))
    np.testing.assert_allclose(found, [[0.875, 0.75, 0.5], [0.95, 0.9, 0.85]])


@pytest.mark.parametrize(("task", "loss"), [("survival", "nll"), ("survival", "cox"), ("regression", "squared")])
def test_a_planted_signal_is_found_and_a_shuffled_one_is_not(tmp_path: Path, ran, small, task: str, loss: str) -> None:
    """On labels dealt at random the interval holds chance; on those that follow a feature it lies above."""
    rng = np.random.default_rng(3)
    features, signal = tmp_path / "features", rng.normal(size=60)
    features.mkdir()
    for i, strength in enumerate(signal):
        own = rng.normal(size=(8, 4))
        own[:, 0] += strength
        with h5py.File(features / f"{i:03d}.h5", "w") as file:
            file["features"], file["coords"] = own.astype("float32"), rng.integers(0, 4096, (8, 2))
    died = rng.random(60) < 0.7
    columns = {"time": 10 * np.exp(-2 * signal + 0.3 * rng.normal(size=60)), "event": died.astype(int)}
    columns["value"] = 100 + 5 * signal
    target = {"label_column": "value"} if task == "regression" else {}
    for name, order in (("true", np.arange(60)), ("dealt", rng.permutation(60))):
        table = pd.DataFrame({"slide_id": [f"{i:03d}" for i in range(60)], **columns}).round(4)
        kept = ["value"] if task == "regression" else ["time", "event"]
        table[kept] = table[kept].to_numpy()[order]
        table[["slide_id", *kept]].to_csv(tmp_path / f"{name}.csv", index=False)
        spec = cohort_spec({"labels": tmp_path / f"{name}.csv", "features": features, "task": task, **target})
        settings = small("mean-lr", loss=loss) if loss == "cox" else small(loss=loss, epochs=12, lr=0.01)
        run, _ = ran(Study(cohorts={"c": spec}, variants={"v": settings}, folds=2), tmp_path / name)
        row, measure = run.summary.iloc[0], get_task(task).measure
        low, high = row[f"{measure.name}_low"], row[f"{measure.name}_high"]
        if name == "true":
            assert low > measure.chance + 0.1
            page = unescape(report_page(run))
            assert f"Loss: {get_task(task).loss_words(loss)}." in page
            assert f"{measure.words} of {row[measure.pooled]:.3f} [{low:.3f}, {high:.3f}], better than chance" in page
            titles = re.findall("<h2[^>]*>([^<]*)", page)
            own = ["Predicted and true values"] if task == "regression" else list(SURVIVAL_SECTIONS)
            assert titles[titles.index("Are the differences real?") + 1 :][: len(own)] == own
            assert page.count("<figcaption") >= 2 + len(own)
        else:
            assert low <= measure.chance <= high
        one = pool(run.predictions, run.classes["c"], task)["v"]
        assert one.task.area(one.truth, one.probability) == pytest.approx(row[measure.pooled])
