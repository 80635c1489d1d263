"""The baselines without a network: what is fitted, how the ridge is chosen, and what each patch adds."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from jigsawmil import SlideClassifier, build_model
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.cohort.splits import Fold
from jigsawmil.graph_config import Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.options import BASELINES
from jigsawmil.report.describe import method_words, training_words
from jigsawmil.train.feed import Feed
from jigsawmil.train.fold import fit_split
from jigsawmil.train.regression import RIDGES, Regression
from jigsawmil.train.settings import Settings

SMALL = {"device": "cpu", "hidden": 8, "attention_dim": 4, "epochs": 1}
TASKS = [("binary", 2), ("multiclass", 3), ("ordinal", 3)]


def graded(cohort: Cohort, classes: int, task: str) -> Cohort:
    """The same slides under as many classes; the label of a patient's slides is the same."""
    patients = sorted(set(map(str, cohort.patients)))
    labels = [str(patients.index(str(patient)) % classes) for patient in cohort.patients]
    bags = [cohort.bag(i) for i in range(len(cohort))]
    bags = [dataclasses.replace(bag, features=bag.features + int(y)) for bag, y in zip(bags, labels, strict=True)]
    return Cohort.from_bags(bags, labels, list(map(str, cohort.patients)), task=task)


@pytest.mark.parametrize(("task", "classes"), TASKS[:2])
def test_it_is_the_logistic_regression_of_scikit_learn(task: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(40, 6)) * 5 + 3, rng.integers(0, classes, 40)
    model = build_model("mean-lr", 6, task=task, classes=classes)
    found = Regression.fit(model, torch.from_numpy(z), torch.from_numpy(y), ["a", "b", "c"][:classes], 0.1, None)
    x = (z - z.mean(0)) / z.std(0)
    theirs = LogisticRegression(C=1 / (0.1 * len(z)), tol=1e-10, max_iter=10_000).fit(x, y)
    ours = found.head.probabilities(found.logits(torch.from_numpy(z))).detach().numpy()
    assert ours == pytest.approx(theirs.predict_proba(x), abs=1e-5)


@pytest.mark.parametrize("method", BASELINES[:2])
@pytest.mark.parametrize(("task", "classes"), TASKS)
def test_every_task_is_learnt_and_each_patch_has_its_exact_share(
    method: str, task: str, classes: int, cohort: Cohort
) -> None:
    feed = Feed(graded(cohort, classes, task), None, Raster())
    split = Fold(train=tuple(map(str, feed.cohort.slide_ids)), test=())
    model, progress = fit_split(feed, split, Settings(method=method, device="cpu"), 0, 0)
    assert len(progress.epochs) == progress.best == 1
    assert progress.epochs[0].mil < 0.3
    batch = feed.batch([0, 5])
    with torch.no_grad():
        output = model(batch)
        share, rest = model.contributions(batch, output)
    assert share is not None
    sums = torch.stack([share[start:end].sum(0) for start, end in batch.bags])
    assert torch.allclose(sums + rest, output.logits, atol=1e-4)
    assert torch.allclose(output.attention[slice(*batch.bags[0])].sum(), torch.tensor(1.0))
    alone = model(Batch.of(feed.cohort.bag(0), None))
    assert torch.allclose(alone.logits[0], output.logits[0], atol=1e-5)


def test_the_ridge_is_chosen_within_the_training_patients(cohort: Cohort) -> None:
    """Strong if the labels are noise, weak if they are not; what is held out changes nothing."""
    settings = Settings(method="mean-lr", device="cpu")
    ids = list(map(str, cohort.slide_ids))
    held = {str(cohort.patients[0]), str(cohort.patients[-1])}
    train = tuple(i for i, patient in zip(ids, cohort.patients, strict=True) if str(patient) not in held)
    split = Fold(train=train, test=tuple(set(ids) - set(train)))
    model, progress = fit_split(Feed(cohort, None, Raster()), split, settings, 0, 0)
    changed = [cohort.bag(i) for i in range(len(cohort))]
    changed = [b if b.slide_id in train else dataclasses.replace(b, features=b.features * 9) for b in changed]
    other = Cohort.from_bags(changed, [cohort.label_of(s) for s in cohort.slides], list(map(str, cohort.patients)))
    again, _ = fit_split(Feed(other, None, Raster()), split, settings, 0, 0)
    for value, same in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(value, same)
    order = np.random.default_rng(0).permutation(sorted(set(map(str, cohort.patients))))
    noise = [str(int(np.flatnonzero(order == str(p))[0]) % 2) for p in cohort.patients]
    bags = [cohort.bag(i) for i in range(len(cohort))]
    feed = Feed(Cohort.from_bags(bags, noise, list(map(str, cohort.patients))), None, Raster())
    whole = Fold(train=tuple(ids), test=())
    flat, chance = fit_split(feed, whole, settings, 0, 0)
    norm = flat.head.linear.weight.norm()
    assert norm < 0.2 * model.head.linear.weight.norm()
    assert chance.epochs[0].val_loss > 0.6 > progress.epochs[0].val_loss
    assert sorted(RIDGES, reverse=True) == list(RIDGES)


@pytest.mark.parametrize("method", BASELINES)
def test_an_ensemble_and_the_classifier(method: str, cohort: Cohort) -> None:
    bags = [cohort.bag(i) for i in range(len(cohort))]
    model = SlideClassifier(method=method, members=2, **SMALL).fit(bags, cohort.labels, cohort.patients)
    assert model.predict_proba(bags[:1]).shape == (1, 2)
    assert len(model.attention(bags[0])) == len(bags[0])


def test_words() -> None:
    assert "described by its mean features" in method_words(Settings(method="mean-lr").flat())
    assert "the largest value of each feature" in method_words(Settings(method="max-lr").flat())
    assert "ridge penalty" in training_words(Settings(method="mean-lr").flat())
    assert "3 models, whose logits are averaged" in training_words(Settings(method="mean-lr", members=3).flat())
    assert "gated attention" in method_words(Settings(method="abmil-gated").flat()).lower()


def test_the_gated_form_is_the_one_of_the_field_unless_told_otherwise() -> None:
    for s in (Settings(method="abmil-gated").model, Settings.preset("paper", method="abmil-gated").model):
        assert (s.layers, s.hidden, s.gated, s.attention_dim, s.dropout) == (1, 512, True, 384, 0.25)
    assert Settings(method="abmil-gated", hidden=64).model.hidden == 64
    built = build_model("abmil-gated", 6)
    assert built.config.gated
    assert built.config.hidden == 512
