"""Options in groups, and settings by name."""

import inspect
from dataclasses import dataclass
from typing import Annotated, get_type_hints

import pytest
import torch
import typer

from jigsawmil.cli.arguments import TableOptions
from jigsawmil.cli.choosing import ChooseOptions
from jigsawmil.cli.groups import grouped
from jigsawmil.cli.options import MethodOptions, TargetOptions, WhereOptions, key_values
from jigsawmil.errors import ConfigError
from jigsawmil.train.settings import Settings

Shared = Annotated[int, typer.Option(help="Shared.")]


@dataclass(frozen=True)
class Group:
    """A group of options."""

    needed: Annotated[str, typer.Option(help="Needed.")]
    shared: Shared = 3


def test_a_group_becomes_the_options_of_a_verb() -> None:
    seen = {}

    @grouped
    def verb(group: Group, own: Shared = 5) -> None:
        """What it does."""
        seen.update(group=group, own=own)

    parameters = inspect.signature(verb).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "needed": inspect.Parameter.empty,
        "shared": 3,
        "own": 5,
    }
    assert verb.__doc__ == "What it does."
    verb(needed="a", shared=4, own=6)
    assert seen == {"group": Group("a", 4), "own": 6}
    panels = {name: p.annotation.__metadata__[0].rich_help_panel for name, p in parameters.items()}
    assert panels == {"needed": "A group of options", "shared": "A group of options", "own": None}


def test_no_help_states_an_empty_default() -> None:
    for name, kind in get_type_hints(MethodOptions, include_extras=True).items():
        words = kind.__metadata__[0].help
        assert "Default: ." not in words, name
        assert words.endswith("."), name


def test_values_are_what_they_look_like() -> None:
    pairs = ["heads=4", "dropout=0.5", "gated=true", "sigma=max-nearest", "margin = 1e-3", 'conv="gat"']
    assert key_values(pairs) == {
        "heads": 4,
        "dropout": 0.5,
        "gated": True,
        "sigma": "max-nearest",
        "margin": 1e-3,
        "conv": "gat",
    }
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        key_values(["heads"])


def test_the_options_have_the_defaults_of_the_settings() -> None:
    assert MethodOptions().settings("abmil") == Settings(method="abmil")


def test_options_and_set_make_one_settings() -> None:
    options = MethodOptions(k=7, lambda_="0.25", gated=True, more=["heads=4"])
    assert options.settings("graph-abmil+jigsaw") == Settings(
        method="graph-abmil+jigsaw", k=7, lambda_=0.25, heads=4, gated=True
    )


@pytest.mark.parametrize(
    ("gpus", "jobs", "devices", "processes"),
    [
        (4, None, ["auto", "auto"], 4),
        (4, None, ["cuda"], 4),
        (4, None, ["cpu", "cuda:1"], 1),
        (4, 2, ["auto"], 2),
        (4, 6, ["cpu"], 6),
        (1, None, ["auto"], 1),
        (0, None, ["auto"], 1),
    ],
)
def test_one_process_a_gpu_where_nobody_says_otherwise(gpus, jobs, devices, processes, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert WhereOptions(jobs).processes(devices) == processes
    if jobs is None:
        assert WhereOptions(executor="ray").processes(devices) == 1  # memory is not shared out by a driver's GPUs


def test_a_device_is_looked_for_where_the_jobs_run(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    ray = WhereOptions(executor="ray")
    assert MethodOptions(device="cuda").settings("abmil", ray) == Settings(method="abmil", device="cuda")
    with pytest.raises(ConfigError, match="'cuda', but torch sees 0 CUDA devices here"):
        MethodOptions(device="cuda").settings("abmil")
    for name in ("cuda:0", "cuda:1"):
        with pytest.raises(ConfigError, match=f"found '{name}', expected auto, cpu or cuda .* Use --device cuda"):
            ray.check_device(name)
    with pytest.raises(ConfigError, match="device: found 'gpu'"):
        ray.check_device("gpu")


def test_only_what_was_given_goes_on(tmp_path) -> None:
    table = TableOptions(labels=tmp_path / "l.csv", features=tmp_path / "f", mpp=0.0, skip_missing=True)
    assert table.given() == {
        "labels": str(tmp_path / "l.csv"),
        "features": str(tmp_path / "f"),
        "mpp": 0.0,  # wrong, and therefore not to be lost
        "skip_missing": True,
    }
    options = TargetOptions(positive="b").source(table).options.given()
    assert options == {"mpp": 0.0, "positive": "b", "skip_missing": True}


def test_options_that_are_given_override_the_preset() -> None:
    assert MethodOptions().settings("abmil") == Settings(method="abmil")
    assert MethodOptions(preset="paper").settings("abmil") == Settings.preset("paper", method="abmil")
    own = MethodOptions(preset="paper", epochs=50, more=["clip=5.0"]).settings("abmil")
    assert own == Settings.preset("paper", method="abmil", epochs=50, clip=5.0)
    with pytest.raises(ConfigError, match="expected one of default, paper"):
        MethodOptions(preset="x").settings("abmil")


def test_choose_reads_values_as_a_study_file_does() -> None:
    given = ["k=8, 24", "gated=true,false", "lambda=em,0.5", "k=50"]
    choice = ChooseOptions(given, choose_folds=4, choose_repeats=1).choice()
    assert choice is not None
    assert choice.options == {"k": (8, 24, 50), "gated": (True, False), "lambda": ("em", 0.5)}
    assert (choice.folds, choice.repeats, choice.most) == (4, 1, 24)
    assert ChooseOptions().choice() is None


@pytest.mark.parametrize("given", ["k", "k=", "k=8,,50"])
def test_choose_without_values_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=rf"--choose {given}: expected NAME=VALUE"):
        ChooseOptions([given]).choice()
