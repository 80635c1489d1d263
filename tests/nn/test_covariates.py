"""Covariates in a model: imputed, standardised, fitted alone as others fit them, and one more term of the logit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from jigsawmil.bags import Bag
from jigsawmil.cohort import Cohort
from jigsawmil.cohort.covariates import Covariate, columns_text
from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError, LabelError
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.covariates import CovariateCode
from jigsawmil.nn.model import Model, build_model
from jigsawmil.synthetic import make_phantom
from jigsawmil.train import regression
from jigsawmil.train.covariates import added_by_covariates
from jigsawmil.train.infer import Prepared, run_model
from jigsawmil.train.settings import Settings
from jigsawmil.train.train_model import train_members

COLUMNS = (Covariate("age"), Covariate("stage", ("I", "II", "III")))
QUICK = {"hidden": 8, "attention_dim": 4, "epochs": 1, "patience": 0, "device": "cpu"}


def raw(*rows: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_what_is_not_known_is_the_mean_of_training() -> None:
    code = CovariateCode(COLUMNS)
    code.learn(raw((50, 0), (60, 0), (70, 1), (math.nan, 1)))
    first, blank, new = code.encode(raw((70, 1), (math.nan, math.nan), (60, 2)))
    assert first.tolist() == pytest.approx([10 / np.std([50, 60, 70]), -1, 1, 0])
    assert blank.tolist() == [0, 0, 0, 0]
    assert new.tolist() == [0, 0, 0, 0]  # the mean age, and a stage that training did not have


def test_a_number_that_was_constant_in_training_says_nothing() -> None:
    code = CovariateCode(COLUMNS[:1])
    code.learn(raw((60, 0), (60, 0))[:, :1])
    assert code.encode(torch.tensor([[90.0]])).tolist() == [[0]]


@pytest.fixture(scope="module")
def cohort() -> tuple[Cohort, np.ndarray]:
    """Age and sex that tell something of the class; some ages are missing."""
    phantom, rng = make_phantom("composition", slides=30, patches=12, dim=16, two_slides=0.0), np.random.default_rng(0)
    tumour = np.array(phantom.labels) == "tumour"
    age, sex = rng.normal(60 + 8 * tumour, 10), np.where(rng.random(30) < 0.3 + 0.4 * tumour, "F", "M")
    known = [
        {"age": None if i % 7 == 0 else float(a), "sex": str(s)} for i, (a, s) in enumerate(zip(age, sex, strict=True))
    ]
    bags = [replace(bag, covariates=own) for bag, own in zip(phantom.bags, known, strict=True)]
    x = np.stack([np.where(np.arange(30) % 7 == 0, np.nan, age), sex == "F", sex == "M"], axis=1)
    x = np.nan_to_num((x - np.nanmean(x, 0)) / np.nanstd(x, 0))
    return Cohort.from_bags(bags, phantom.labels, phantom.patients), x


def trained(cohort: Cohort, **settings: object) -> Model:
    whole = Fold(train=tuple(map(str, cohort.slide_ids)), test=())
    [one] = train_members(cohort, whole, Settings(**{**QUICK, **settings}), 0, memory_gb=1)
    assert isinstance(one.model, Model)
    return one.model


def ridge_of(monkeypatch: pytest.MonkeyPatch, ridge: float) -> None:
    """No choice: scikit-learn's sum of losses with C = 1 is a mean of 30 with a ridge of 1 / 30."""
    monkeypatch.setattr(regression, "RIDGES", (ridge,))


def test_covariates_alone_are_ridge_regression(
    cohort: tuple[Cohort, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, x = cohort
    ridge_of(monkeypatch, 1 / 30)
    model, theirs = trained(own, method="covariates"), LogisticRegression(C=1.0, tol=1e-10)
    theirs.fit(x / x.std(0), own.labels)  # age is standardised again, its missing values being 0 by then
    np.testing.assert_allclose(model.head.linear.weight.detach(), theirs.coef_, atol=1e-4)


def test_joint_training_begins_at_that_fit(cohort: tuple[Cohort, np.ndarray]) -> None:
    own = cohort[0]
    both = trained(own, method="abmil", covariates=True, lr=1e-12)
    alone = trained(own, method="covariates")
    batch = Batch.of([own.bag(i) for i in range(5)])
    with torch.inference_mode():
        expected = alone(batch).logits
        found = both.covariates(batch) @ both.head.linear.weight[:, -3:].T + both.head.linear.bias
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert both.head.linear.weight.shape[1] == QUICK["hidden"] + 3


def test_contributions_and_covariates_add_up_to_the_logit(cohort: tuple[Cohort, np.ndarray]) -> None:
    own = cohort[0]
    model = trained(own, method="graph-abmil", k=4, covariates=True)
    bag = own.bag(1)
    [seen] = run_model(model, [Prepared("a", (Batch.of(bag),), (bag,))], device="cpu", precision="float32")
    with torch.inference_mode():
        share, rest = model.contributions(seen.batch, seen.output)
    terms = added_by_covariates(model, seen)
    assert list(terms) == ["logit from age", "logit from sex"]
    bias = float(model.head.linear.bias.detach())
    assert float(share.sum()) + sum(terms.values()) + bias == pytest.approx(float(seen.output.logits), abs=1e-4)
    assert float(rest) == pytest.approx(sum(terms.values()) + bias, abs=1e-4)
    other = replace(bag, covariates={"age": 1000, "sex": "F"})
    [moved] = run_model(model, [Prepared("a", (Batch.of(other),), (other,))], device="cpu", precision="float32")
    with torch.inference_mode():
        torch.testing.assert_close(model.contributions(moved.batch, moved.output)[0], share)
    assert float(moved.output.logits) != pytest.approx(float(seen.output.logits), abs=0.1)


def test_batches_are_their_slides_one_by_one(cohort: tuple[Cohort, np.ndarray]) -> None:
    bags: list[Bag] = [cohort[0].bag(i) for i in range(3)]
    model = trained(cohort[0], method="abmil", covariates=True).eval()
    each = torch.cat([model(Batch.of(bag)).logits for bag in bags])
    torch.testing.assert_close(model(Batch.of(bags)).logits, each)
    patient = Batch.of(bags).as_one_bag()  # the covariates of the first slide
    torch.testing.assert_close(model.covariates(patient), model.covariates(Batch.of(bags[0])))


def test_a_slide_without_them_is_refused(cohort: tuple[Cohort, np.ndarray]) -> None:
    columns = columns_text(COLUMNS)
    model = build_model("abmil", 16, covariates=True, covariate_columns=columns)
    bag = replace(cohort[0].bag(0), covariates={"age": 5})
    with pytest.raises(LabelError, match=r"uses stage, which the slide comes without. Give the table"):
        model(Batch.of(bag))
    with pytest.raises(ConfigError, match="no covariate_columns"):
        build_model("covariates", 16)
