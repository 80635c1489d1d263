"""Models of torchmil as methods: they train, answer whatever the order of a file, and leave no trace."""

import dataclasses
import importlib
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch

from jigsawmil import METHODS, build_model
from jigsawmil.bags.bag import Bag
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import ConfigError
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.factories import import_factory
from jigsawmil.nn.torchmil_models import SmoothSvm, adjacency
from jigsawmil.nn.torchmil_table import REFUSED, TORCHMIL
from jigsawmil.train.feed import Feed
from jigsawmil.train.fit import fit
from jigsawmil.train.settings import Settings

page: Any = importlib.import_module("tools.torchmil_page")
# smaller than their defaults: the width of the landmarks, and as many draws as in training
QUICK = {"TransMIL": {"n_landmarks": 8, "att_dim": 16}, "CAMIL": {"n_landmarks": 8, "nystrom_att_dim": 16}}
QUICK |= {name: {"n_samples_train": 20, "n_samples_test": 20} for name in TORCHMIL if "Prob" in name}


def lattice_bag(seed: int, patches: int = 24) -> Bag:
    g = torch.Generator().manual_seed(seed)
    places = torch.randperm(36, generator=g)[:patches]
    coords = torch.stack([places % 6, places // 6], dim=1).double() * 256
    return Bag(slide_id=f"s{seed}", features=torch.randn(patches, 6, generator=g), coords=coords)


@pytest.mark.parametrize("name", TORCHMIL)
def test_it_answers_alike_in_any_order_and_batch_and_learns(name: str) -> None:
    one, other = lattice_bag(1), lattice_bag(2, patches=9)
    turned = dataclasses.replace(one, features=one.features.flip(0), coords=one.coords.flip(0))
    graph = GraphConfig(k=8) if TORCHMIL[name].graph else None
    alone, flipped, both = (Batch.of(bags, graph) for bags in (one, turned, [other, one]))
    model = build_model(f"torchmil:{name}", 6, options=QUICK.get(name, {})).eval()
    drawn = np.random.get_state()[2]  # noqa: NPY002
    with torch.inference_mode():
        found, again, joined = (model(batch) for batch in (alone, flipped, both))
    assert torch.equal(found.logits, again.logits)
    assert torch.equal(alone.in_file_order(found.attention)[0], flipped.in_file_order(again.attention)[0].flip(0))
    assert (found.attention.unique().numel() > 1) == bool(TORCHMIL[name].attention)
    if "Prob" not in name and name not in ("DTFDMIL", "VAEABMIL"):  # which draw, bag after bag
        assert torch.allclose(joined.logits[1], found.logits[0], atol=1e-5)
    model.train()
    before = {key: value.clone() for key, value in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    loss, _ = model.losses(both, torch.tensor([1, 0]), torch.Generator())
    assert loss.shape == (2,)
    loss.mean().backward()
    optimiser.step()
    changed = [key for key, value in model.named_parameters() if not torch.equal(value, before[key])]
    assert len(changed) >= len(before) / 2
    assert np.random.get_state()[2] == drawn  # noqa: NPY002


@pytest.fixture(scope="module")
def feed() -> Feed:
    """Ten slides whose patches lie on a lattice; half have patches of another kind."""
    bags = [lattice_bag(seed) for seed in range(10)]
    bags = [dataclasses.replace(bag, features=bag.features + i % 2) for i, bag in enumerate(bags)]
    cohort = Cohort.from_bags(bags, ["no", "yes"] * 5, [bag.slide_id for bag in bags], positive="yes")
    return Feed(cohort, GraphConfig(k=8), Raster())


@pytest.mark.parametrize("name", TORCHMIL)
def test_two_epochs_on_a_small_cohort_twice_the_same(name: str, feed: Feed) -> None:
    settings = Settings(method=f"torchmil:{name}", options=QUICK.get(name, {}), epochs=2, lr=3e-4, device="cpu")
    models = [build_model(settings.method, 6, options=settings.model.options) for _ in range(2)]
    progress, again = (fit(model, feed, range(6), range(6, 10), settings.train, seed=1) for model in models)
    assert progress.epochs[1].mil < progress.epochs[0].mil
    assert [(one.mil, one.val_loss) for one in progress.epochs] == [(one.mil, one.val_loss) for one in again.epochs]


def test_the_adjacency_is_the_normalised_graph_without_loops(batch: Batch) -> None:
    found = adjacency(Batch.cat([batch, batch]), 40, 80)[0].to_dense()
    graph = batch.graph
    assert graph is not None
    edges = torch.zeros(40, 40)
    edges[graph.rows, graph.indices.long()] = 1.0
    edges.fill_diagonal_(0)
    scale = edges.sum(1).rsqrt()
    assert torch.allclose(found, scale[:, None] * edges * scale, atol=1e-6)


def test_what_is_not_offered_has_the_fault_that_is_given_as_the_reason() -> None:
    import torchmil.models
    from torchmil.nn import ChebConv

    assert set(REFUSED) == {"DeepGraphSurv", "IIBMIL"}
    torch.manual_seed(0)
    layer, adj, x = ChebConv(4, 3, K=2, compute_lambda_max=False), torch.zeros(1, 5, 5), torch.randn(1, 5, 4)
    changed = x.clone()
    changed[0, 0] += 1  # without an edge, no other patch may notice
    assert not torch.equal(layer(x, adj)[0, 1:], layer(changed, adj)[0, 1:])
    model = torchmil.models.IIBMIL(in_shape=(4,), att_dim=8)
    model.compute_loss(torch.ones(1), x)
    assert not model.prototypes.any()


def test_the_loss_of_clam_is_the_smooth_svm_that_torchmil_gets_wrong() -> None:
    from torchmil.nn.utils import SmoothTop1SVM

    scores = torch.tensor([[0.3, -0.2], [1.0, 0.5], [9.0, 0.0], [0.0, 9.0], [-4.0, 8.0]], dtype=torch.float64)
    labels = [0, 1, 1, 1, 0]
    losses = []
    for (a, b), label in zip(scores.tolist(), labels, strict=True):
        right, wrong = (a, b + 1) if label == 0 else (b, a + 1)
        far = abs(a - b) >= math.log(1000)
        losses.append((max(right, wrong) if far else math.log(math.exp(right) + math.exp(wrong))) - right)
    column = torch.tensor(labels, dtype=torch.float64)[:, None]
    assert SmoothSvm()(scores, column).item() == pytest.approx(sum(losses) / 5)
    one = SmoothTop1SVM(2)(scores[:2], column[:2]).item()
    assert one != pytest.approx(sum(losses[:2]) / 2), "torchmil mended it: use its own"
    with pytest.raises(RuntimeError, match="must match"):
        SmoothTop1SVM(2)(scores[2:], column[2:])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ABMLI", r"expected one of .* Did you mean 'ABMIL'"),
        ("IIBMIL", "cannot be trained here: its prototypes"),
    ],
)
def test_a_name_that_is_none(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Settings.from_flat({"method": f"torchmil:{name}"})


def test_what_it_refuses(batch: Batch) -> None:
    for task, classes in (("multiclass", 4), ("survival", 4)):
        with pytest.raises(ConfigError, match=f"give one logit; {task} asks for 4"):
            build_model("torchmil:ABMIL", 6, task=task, classes=classes)
    with pytest.raises(ConfigError, match=r"a further loss \(instances.*the task is regression. Choose ABMIL, CAMIL"):
        build_model("torchmil:CLAM_SB", 6, task="regression", classes=1)
    with pytest.raises(ConfigError, match=r"found 'att_din', expected of .* Did you mean 'att_dim'"):
        Settings.from_flat({"method": "torchmil:ABMIL", "options": {"att_din": 3}})
    with pytest.raises(ConfigError, match=r"torchmil refuses its options .*Invalid distill_mode"):
        build_model("torchmil:DTFDMIL", 6, options={"distill_mode": "none"})
    with pytest.raises(ConfigError, match="SETMIL: a: found 40 patches on a grid of"):
        build_model("torchmil:SETMIL", 6)(batch)


@pytest.mark.parametrize(("task", "loss", "classes"), [("regression", "squared", 1), ("survival", "cox", 4)])
def test_it_learns_a_value_or_a_hazard_ratio_by_the_loss_of_the_task(
    batch: Batch, task: str, loss: str, classes: int
) -> None:
    torch.manual_seed(0)
    model = build_model("torchmil:ABMIL", 6, task=task, classes=classes, loss=loss).eval()
    labels = torch.tensor([1.5]) if task == "regression" else torch.tensor([[1.5, 1.0]])
    mil, _ = model.losses(batch, labels, torch.Generator())
    assert torch.equal(mil, model.head.loss(model(batch).logits, labels))
    mil.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    assert not model.own_loss
    assert build_model("torchmil:ABMIL", 6).own_loss


def test_its_graph_is_that_of_the_eight_around_unless_another_is_given() -> None:
    row = METHODS.peek("torchmil:PatchGCN")
    assert row is not None
    assert row.graph
    assert Settings(method="torchmil:PatchGCN").graph.k == 8
    assert Settings.preset("paper", method="torchmil:PatchGCN").graph.k == 8
    assert Settings(method="torchmil:PatchGCN", k=20).graph.k == 20
    assert not Settings(method="torchmil:ABMIL").needs_graph
    assert not METHODS["torchmil:ABMIL"].sees_positions
    assert METHODS["torchmil:TransMIL"].sees_positions


def test_without_torchmil_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchmil", None)
    monkeypatch.delitem(sys.modules, "jigsawmil.nn.torchmil_models")
    with pytest.raises(ConfigError, match=r"Install it: pip install 'jigsawmil\[torchmil\]'"):
        import_factory("torchmil:ABMIL")


def test_the_page_is_that_of_the_table() -> None:
    assert page.PAGE.read_text() == page.page(), "run `python -m tools.torchmil_page`"
