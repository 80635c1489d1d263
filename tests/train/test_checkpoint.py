"""Models on disk: the same predictions after a round trip, no pickle, and a word for every damaged file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from jigsawmil.bags.bag import Bag
from jigsawmil.errors import StudyError
from jigsawmil.graph_config import GraphConfig, Raster
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import Model
from jigsawmil.train.checkpoint import ModelCard, load_model, save_model
from jigsawmil.train.feed import Feed
from jigsawmil.train.infer import run_model
from jigsawmil.train.origin import origin

from ..fixtures.disk import full_disk

Small = Callable[..., Model]


def card_of(model: Model, **values: Any) -> ModelCard:
    return ModelCard(model=model.config, graph=GraphConfig(k=4), classes=("a", "b"), **values)


def probabilities(model: Model, feed: Feed) -> np.ndarray:
    found = run_model(model, feed.prepared(range(4)), device="auto", precision="float32")
    return np.stack([seen.probabilities for seen in found])


@pytest.fixture
def saved(tmp_path: Path, small: Small) -> Path:
    model = small()
    save_model(tmp_path / "model", model, card_of(model))
    return tmp_path / "model"


@pytest.mark.parametrize("method", ["abmil", "graph-mil", "graph-abmil+jigsaw"])
def test_a_round_trip_gives_equal_predictions(tmp_path: Path, feed: Feed, small: Small, method: str) -> None:
    model = small(method, seed=4, dropout=0.5)
    training = {"settings": {"lr": 1e-4}, "best_epoch": 3}
    card = card_of(model, encoder="uni", level="patient", training=training, origin=origin())
    save_model(tmp_path / "new" / "model", model, card)
    loaded, found = load_model(tmp_path / "new" / "model")
    assert found == card
    assert not loaded.training
    assert np.array_equal(probabilities(loaded, feed), probabilities(model, feed))


def test_the_files_are_safetensors_and_json(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "model.safetensors"]
    header_size = int.from_bytes((saved / "model.safetensors").read_bytes()[:8], "little")
    header = json.loads((saved / "model.safetensors").read_bytes()[8 : 8 + header_size])
    assert all({"dtype", "shape", "data_offsets"} <= entry.keys() for entry in header.values())
    assert json.loads((saved / "model.json").read_text())["model"]["method"] == "graph-abmil+jigsaw"


def test_a_pickle_by_that_name_is_refused_and_not_run(saved: Path, tmp_path: Path, small: Small) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "exploded",))

    torch.save({"state": small().state_dict(), "bomb": Bomb()}, saved / "model.safetensors")
    with pytest.raises(StudyError, match="not a readable model of jigsawmil"):
        load_model(saved)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(StudyError, match=f"no {name} in it. Give the folder that `jigsawmil train --out` wrote"):
        load_model(saved)


def test_a_folder_that_is_none_and_one_without_a_model(tmp_path: Path, saved: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere", saved / "model.json"):
        with pytest.raises(StudyError, match=r"no model\.safetensors and no model\.json in it"):
            load_model(wrong)


def damage_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors")

    return damage


def damage_card(**values: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        card = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(json.dumps({**card, **values}))

    return damage


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-20])


DAMAGE = {
    "weights cut": cut("model.safetensors"),
    "card cut": cut("model.json"),
    "weights empty": lambda folder: (folder / "model.safetensors").write_bytes(b""),
    "card of bytes": lambda folder: (folder / "model.json").write_bytes(b"\xff\xfe\x00"),
    "card a list": lambda folder: (folder / "model.json").write_text("[1, 2]"),
    "card a word": lambda folder: (folder / "model.json").write_text('"model"'),
    "card of others": lambda folder: (folder / "model.json").write_text('{"architectures": ["BERT"]}'),
    "another format": damage_card(format=2),
    "a key too many": damage_card(surprise=1),
    "an unknown method": damage_card(model={"method": "transmil", "in_dim": 16}),
    "an unknown option": damage_card(model={"method": "abmil", "in_dim": 16, "hiden": 16}),
    "an unknown precision": damage_card(training={"settings": {"precision": "float61"}}),
    "no model": damage_card(model=None),
    "classes a number": damage_card(classes=2),
    "another width": damage_card(model={"method": "graph-abmil+jigsaw", "in_dim": 17}),
    "a weight missing": damage_weights(lambda weights: weights.pop("head.linear.bias")),
    "a weight too many": damage_weights(lambda weights: weights.update(more=torch.zeros(1))),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_and_foreign_files_are_refused(saved: Path, damage: Callable[[Path], None]) -> None:
    damage(saved)
    with pytest.raises(StudyError, match=r"([Tt]rain (it|the model) again|written by another version)"):
        load_model(saved)


def test_loading_needs_nothing_but_the_package_and_the_folder(saved: Path, small: Small, tmp_path: Path) -> None:
    code = """
import sys, torch
from jigsawmil import Bag, Batch, load_model
model, card = load_model(sys.argv[1])
features, coords = torch.linspace(-1, 1, 12 * 16).reshape(12, 16), torch.arange(24.0).reshape(12, 2)
bag = Bag(slide_id="s", features=features, coords=coords)
print(model.probabilities(model(Batch.of(bag, card.graph, card.model.raster)))[0, 1].item().hex(), card.classes)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(saved)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert shown.returncode == 0, shown.stderr
    features, coords = torch.linspace(-1, 1, 12 * 16).reshape(12, 16), torch.arange(24.0).reshape(12, 2)
    bag = Bag(slide_id="s", features=features, coords=coords)
    model = small().eval()
    here = model.probabilities(model(Batch.of(bag, GraphConfig(k=4), Raster(3))))[0, 1].item()
    value, classes = shown.stdout.strip().split(" ", 1)
    assert float.fromhex(value) == pytest.approx(here, abs=1e-6)
    assert classes == "('a', 'b')"


def test_a_full_disk_leaves_the_old_file_and_is_an_error_of_the_system(saved: Path, small: Small) -> None:
    before = (saved / "model.safetensors").read_bytes()
    model = small(seed=9)
    with full_disk(after=100), pytest.raises(OSError, match="File too large") as error:
        save_model(saved, model, card_of(model))
    assert error.value.filename == str(saved / "model.safetensors")
    assert (saved / "model.safetensors").read_bytes() == before
    assert len(list(saved.iterdir())) == 2


def test_no_change_of_weights_or_card_goes_unnoticed(saved: Path) -> None:
    """As a disk or a copy may do it: one bit, anywhere."""
    for name in ("model.safetensors", "model.json"):
        raw = (saved / name).read_bytes()
        for place in np.random.default_rng(0).integers(0, len(raw), 60):
            damaged = bytearray(raw)
            damaged[place] ^= 1
            (saved / name).write_bytes(damaged)
            with pytest.raises(StudyError, match="model"):
                load_model(saved)
        (saved / name).write_bytes(raw)
    assert load_model(saved)


def test_a_model_that_may_not_be_read_is_not_absent(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *given: False)  # root may read anything
    with pytest.raises(StudyError, match=r"may not be read \(permission denied\)"):
        load_model(saved)
