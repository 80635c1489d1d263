"""Models from elsewhere as methods: how they are found, what they may return, and what is refused."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from jigsawmil import METHODS, build_model, register_method
from jigsawmil.errors import ConfigError
from jigsawmil.nn import factories
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import Output
from jigsawmil.nn.options import Method
from jigsawmil.study.study_file import read_study
from jigsawmil.tasks import get_task
from jigsawmil.train.choice import Choice
from jigsawmil.train.settings import Settings
from jigsawmil.train.training import Training

MODULE = """
import torch
from torch import nn

class Mean(nn.Module):
    def __init__(self, in_dim, logits, hidden=8, depth=1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU(), nn.Linear(hidden, logits))

    def forward(self, batch):
        return torch.stack([self.net(batch.features[a:b]).mean(0) for a, b in batch.bags])

def joined(in_dim, logits):
    return Mean(in_dim, logits)
joined.graph = True

number = 3
def narrow(in_dim): ...
"""


class Weighted(nn.Module):
    """Answers as `form` says; `scale` multiplies its attention."""

    def __init__(self, in_dim: int, logits: int, form: str = "pair", scale: float = 2.0) -> None:
        super().__init__()
        self.out, self.form, self.scale = nn.Linear(in_dim, logits), form, scale

    def forward(self, batch: Batch):
        logits = torch.stack([self.out(batch.features[a:b].mean(0)) for a, b in batch.bags])
        attention = self.scale * torch.arange(1.0, len(batch.features) + 1)
        if self.form == "output":
            return Output(logits, attention, batch.features, None, logits)
        forms = {
            "logits": logits,
            "pair": (logits, attention),
            "flat": logits[:, 0],
            "wide": logits[:, :1].expand(-1, 3),
        }
        return forms[self.form]


class Own(Weighted):
    """Loss and contributions of its own."""

    def loss(self, batch: Batch, labels: Tensor) -> Tensor:
        return self(batch)[0].square()[:, 0] + labels

    def contributions(self, batch: Batch) -> Tensor:
        sizes = torch.cat([torch.full((b - a, 1), b - a) for a, b in batch.bags])
        return (batch.features @ self.out.weight.T) / sizes


@pytest.fixture
def registered() -> Iterator[None]:
    register_method("weighted", Weighted)
    register_method("own", Own, positions=False)
    yield
    for name in ("weighted", "own"):
        del METHODS[name]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the current directory, not on the path; its name."""
    name = f"models_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    yield name
    METHODS._imported.clear()


def build(method: str, **options: object):
    return build_model(method, 6, options=options).eval()


@pytest.mark.usefixtures("registered")
def test_logits_alone_with_attention_or_as_an_output(batch: Batch) -> None:
    two = Batch.cat([batch, batch])
    found = {form: build("weighted", form=form)(two) for form in ("logits", "pair", "flat", "output")}
    for output in found.values():
        assert torch.equal(output.logits, found["pair"].logits)
        assert output.logits.shape == (2, 1)
        assert torch.allclose(torch.stack([part.sum() for part in output.attention.split(40)]), torch.ones(2))
    assert torch.equal(found["logits"].attention, torch.full((80,), 1 / 40))  # of a model without attention
    assert found["pair"].attention[39] > found["pair"].attention[0]
    assert torch.equal(found["pair"].attention, found["output"].attention)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"form": "wide"}, r"logits of shape \(1, 3\), expected \(1, 1\)"),
        ({"scale": -1.0}, "attention below 0; expected weights"),
        ({"forms": "pair"}, "found 'forms', expected of form, scale. Did you mean 'form'"),
    ],
)
def test_what_a_model_may_not_return_or_be_given(batch: Batch, options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        build("weighted", **options)(batch)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(("task", "classes", "logits"), [("multiclass", 4, 4), ("ordinal", 4, 3), ("binary", 2, 1)])
def test_the_task_gives_the_number_of_logits_and_the_loss(batch: Batch, task: str, classes: int, logits: int) -> None:
    model = build_model("weighted", 6, task=task, classes=classes)
    output = model(batch)
    assert output.logits.shape == (1, logits)
    assert model.probabilities(output).sum().item() == pytest.approx(1)
    labels = torch.tensor([1])
    mil, jigsaw = model.losses(batch, labels, torch.Generator())
    assert torch.equal(mil, model.head.loss(output.logits, labels))
    assert jigsaw.tolist() == [0.0]
    assert set(model.state_dict()) == {"module.out.weight", "module.out.bias"}  # nothing of the head's


@pytest.mark.usefixtures("registered")
def test_a_loss_of_its_own_is_what_is_trained(batch: Batch) -> None:
    model = build_model("own", 6)
    losses = Training(model, Settings(device="cpu").train).step(batch, torch.tensor([1]), torch.Generator())
    assert losses.mil == pytest.approx([build_model("own", 6)(batch).logits.item() ** 2 + 1])


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("task", "classes", "losses"), [("survival", 4, ("nll", "cox")), ("regression", 1, ("huber", "squared"))]
)
def test_the_setting_loss_is_that_of_a_model_from_elsewhere_too(
    batch: Batch, task: str, classes: int, losses: tuple[str, str]
) -> None:
    labels = torch.tensor([[4.0, 1.0]]) if task == "survival" else torch.tensor([4.0])
    found = []
    for loss in losses:
        settings = Settings(method="weighted", loss=loss)
        model = build_model("weighted", 6, task=task, classes=classes, loss=settings.model.loss)
        head = get_task(task).head_for(1, classes, loss)
        mil, _ = model.losses(batch, labels, torch.Generator())
        assert torch.equal(mil, head.loss(model(batch).logits, labels))
        found.append(mil)
    assert not torch.equal(*found)


@pytest.mark.usefixtures("registered")
def test_contributions_of_its_own_add_up_with_the_rest(batch: Batch) -> None:
    model = build("own")
    output = model(batch)
    share, rest = model.contributions(batch, output)
    assert torch.allclose(share.sum(0) + rest[0], output.logits[0].double(), atol=1e-6)
    assert rest.item() == pytest.approx(model.module.out.bias.item(), abs=1e-5)
    assert build("weighted").contributions(batch, output)[0] is None


def test_a_row_cannot_be_added_by_hand() -> None:
    """It would train a model of ours under the new name."""
    with pytest.raises(ConfigError, match="register_method"):
        METHODS["mine"] = Method(graph=True, pooling="attention", jigsaw=False)
    with pytest.raises(ConfigError, match="not one of abmil"):
        register_method("abmil", Weighted)


def test_a_module_of_the_current_directory_is_found_by_its_path(module: str, batch: Batch) -> None:
    settings = Settings(method=f"{module}:Mean", options={"hidden": 3})
    assert module not in sys.modules  # settings of a run are read without its code
    assert not settings.needs_graph
    assert module in sys.modules
    assert Settings(method=f"{module}:joined").needs_graph
    model = build_model(f"{module}:Mean", 6, options={"hidden": 3})
    assert model.module.net[0].out_features == 3
    assert torch.equal(model(batch).logits, build_model(f"{module}:Mean", 6, options='{"hidden": 3}')(batch).logits)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Meen", "has no 'Meen'; expected a factory in it. Did you mean 'Mean'"),
        ("number", "found int, expected a function or class"),
        ("narrow", "takes no logits"),
    ],
)
def test_what_is_no_factory_is_refused(module: str, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Settings.from_flat({"method": f"{module}:{name}"})


def test_what_cannot_be_imported_is_named() -> None:
    with pytest.raises(ConfigError, match="the module not_there cannot be imported"):
        Settings.from_flat({"method": "not_there:build"})


def test_an_entry_point_is_a_method(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [SimpleNamespace(name="theirs", value=f"{module}:joined")]
    monkeypatch.setattr(factories, "entry_points", lambda group: points if group == "jigsawmil.methods" else [])
    factories.entry_point_paths.cache_clear()
    try:
        assert Settings(method="theirs").needs_graph
        with pytest.raises(ConfigError, match="Did you mean 'theirs'"):
            Settings(method="their")
    finally:
        factories.entry_point_paths.cache_clear()


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("flat", "told"),
    [
        ({"method": "weighted", "hidden": 8}, "hidden: found 8, but weighted is a model from elsewhere"),
        ({"method": "weighted", "lambda": 0.5}, "lambda: found 0.5, but weighted"),
        ({"method": "weighted", "options": {"forn": "pair"}}, "Did you mean 'form'"),
        ({"method": "abmil", "options": {"heads": 4}}, "but abmil takes none"),
        ({"method": "weighted", "options": 3}, "expected a table"),
        ({"method": "weighted", "options": "{"}, "expected a table"),
    ],
)
def test_settings_that_say_nothing_to_a_model_are_refused(flat: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Settings.from_flat(flat)


@pytest.mark.usefixtures("registered")
def test_options_have_one_form_and_take_part_in_identity() -> None:
    one = Settings(method="weighted", options={"scale": 1, "form": "pair"})
    assert one == Settings(method="weighted", options='{"form": "pair",  "scale": 1}')
    assert hash(one) != hash(Settings(method="weighted"))
    assert Settings(**one.flat()) == one
    assert Settings.preset("paper", method="weighted").train.epochs == 20  # and nothing of our parts


@pytest.mark.usefixtures("registered")
def test_a_study_file_gives_options_and_shares_defaults_with_our_methods(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("""
        [cohorts.c]
        labels = "l.csv"
        features = "f"
        [defaults]
        hidden = 32
        epochs = 3
        [variants.abmil]
        [variants.mine]
        method = "weighted"
        options = {scale = 3.0}
    """)
    ours, mine = read_study(tmp_path / "s.toml").variants.values()
    assert (ours.model.hidden, mine.model.hidden, mine.train.epochs) == (32, 256, 3)
    assert mine.model.options == '{"scale": 3.0}'


@pytest.mark.usefixtures("registered")
def test_only_what_it_uses_is_chosen() -> None:
    choice = Choice(options={"hidden": [16, 32], "lr": [1e-3, 1e-4]})
    assert len(choice.candidates(Settings(method="weighted"))) == 2


@pytest.mark.usefixtures("registered")
def test_another_process_finds_a_registered_model_by_its_path(module: str, tmp_path: Path) -> None:
    """As workers of a study do, wherever they are started."""
    sys.path.append(str(tmp_path))
    made = __import__(module)
    register_method("named", made.joined, positions=False)
    try:
        sent = {name: pickle.dumps(Settings(method=name)) for name in ("named", f"{module}:Mean")}
    finally:
        del METHODS["named"]
    code = (
        "import pickle, sys; from jigsawmil.nn.options import METHODS\n"
        f"named, path = (pickle.loads(each) for each in {list(sent.values())!r})\n"
        "assert named.needs_graph and not path.needs_graph and METHODS['named'].factory.positions"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(factories.__file__).parents[2])}
    ran = subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
