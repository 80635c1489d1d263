"""GeoJSON as QuPath (0.4 and later) reads it: closed polygons in level-0 pixels, tiles, measurements, colours."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig
from jigsawmil.maps.geometry import level0_squares
from jigsawmil.maps.patch_maps import PatchMaps, explain
from jigsawmil.maps.qupath import write_geojson
from jigsawmil.maps.values import percentiles
from jigsawmil.nn.model import build_model
from jigsawmil.train.checkpoint import ModelCard


def some_maps(method: str = "abmil", classes: tuple[str, ...] = ("normal", "tumour"), **options) -> PatchMaps:
    g = torch.Generator().manual_seed(1)
    coords = torch.randint(0, 60, (40, 2), generator=g).double() * 256
    bag = Bag(slide_id="s", features=torch.randn(40, 8, generator=g), coords=coords, patch_size=256.0)
    options = {"hidden": 8, "attention_dim": 4, **options}
    model = build_model(method, 8, seed=3, classes=len(classes), **options)
    card = ModelCard(model=model.config, graph=GraphConfig(k=6), classes=classes)
    [maps] = explain(model, card, bag)
    return maps


def written(maps: PatchMaps, path: Path, **options) -> list[dict]:
    write_geojson(maps, level0_squares(maps.bag), path, **options)
    collection = json.loads(path.read_text())
    assert collection["type"] == "FeatureCollection"
    return collection["features"]


def test_every_patch_is_a_tile_that_qupath_understands(tmp_path: Path) -> None:
    """The keys and types that QuPath's importer asks for, and nothing that it would take for something else."""
    features = written(some_maps(), tmp_path / "s.geojson")
    assert len(features) == 40
    for feature in features:
        assert set(feature) == {"type", "geometry", "properties"}
        assert feature["type"] == "Feature"
        assert feature["geometry"]["type"] == "Polygon"
        properties = feature["properties"]
        assert properties["objectType"] == "tile"
        assert set(properties) == {"objectType", "color", "classification", "measurements"}
        for colour in (properties["color"], properties["classification"]["color"]):
            assert len(colour) == 3
            assert all(type(part) is int and 0 <= part <= 255 for part in colour)
        assert all(type(value) is float and np.isfinite(value) for value in properties["measurements"].values())


def test_polygons_are_closed_squares_at_the_patches(tmp_path: Path) -> None:
    maps = some_maps()
    for feature, (x, y) in zip(written(maps, tmp_path / "s.geojson"), maps.coords, strict=True):
        [ring] = feature["geometry"]["coordinates"]
        assert ring == [[x, y], [x + 256, y], [x + 256, y + 256], [x, y + 256], [x, y]]
        assert all(type(number) is int for point in ring for number in point)  # whole pixels stay whole


def test_measurements_are_the_maps(tmp_path: Path) -> None:
    maps = some_maps()
    found = [feature["properties"]["measurements"] for feature in written(maps, tmp_path / "s.geojson")]
    expected = {
        "patch": np.arange(40),
        "attention": maps.attention,
        "attention percentile": percentiles(maps.attention),
        "evidence for tumour": maps.evidence[:, 0],
        "probability of tumour": np.full(40, maps.probabilities[1]),
    }
    assert list(found[0]) == list(expected)
    for name, values in expected.items():
        assert [one[name] for one in found] == pytest.approx(values, rel=1e-6)


def test_several_classes_have_evidence_and_probability_each(tmp_path: Path) -> None:
    maps = some_maps(classes=("a", "b", "c"), task="multiclass")
    first = written(maps, tmp_path / "s.geojson")[0]["properties"]["measurements"]
    for index, name in enumerate("abc"):
        assert first[f"evidence for {name}"] == pytest.approx(maps.evidence_for(name)[0], rel=1e-6)
        assert first[f"probability of {name}"] == pytest.approx(maps.probabilities[index], rel=1e-6)


def test_classification_follows_the_sign_of_the_evidence(tmp_path: Path) -> None:
    maps = some_maps()
    features = written(maps, tmp_path / "s.geojson")
    names = [feature["properties"]["classification"]["name"] for feature in features]
    assert {"for tumour", "against tumour"} == set(names)
    assert [name == "for tumour" for name in names] == list(maps.evidence[:, 0] >= 0)


def test_without_evidence_tiles_have_no_classification(tmp_path: Path) -> None:
    maps = dataclasses.replace(some_maps(), evidence=None)
    for with_evidence, without in zip(
        written(some_maps(), tmp_path / "a.geojson"), written(maps, tmp_path / "b.geojson"), strict=True
    ):
        expected = with_evidence["properties"]
        del expected["classification"], expected["measurements"]["evidence for tumour"]
        assert without == with_evidence


def test_colours_follow_attention_and_evidence_without_it(tmp_path: Path) -> None:
    maps = some_maps()
    colours = [feature["properties"]["color"] for feature in written(maps, tmp_path / "s.geojson")]
    assert colours[maps.attention.argmax()] == pytest.approx([249, 231, 33], abs=6)  # viridis' ends
    assert colours[maps.attention.argmin()] == pytest.approx([69, 3, 87], abs=6)
    flat = dataclasses.replace(maps, attention=np.full(40, 1 / 40))
    colours = [feature["properties"]["color"] for feature in written(flat, tmp_path / "flat.geojson")]
    strongest = colours[maps.evidence[:, 0].argmax()]
    assert strongest[0] > strongest[2]  # red speaks for


def test_the_bounds_are_subtracted(tmp_path: Path) -> None:
    maps = some_maps()
    plain, moved = (
        written(maps, tmp_path / f"{shift}.geojson", shift=shift) for shift in ((0.0, 0.0), (1000.0, 250.5))
    )
    for a, b in zip(plain, moved, strict=True):
        gap = np.array(a["geometry"]["coordinates"]) - np.array(b["geometry"]["coordinates"])
        assert gap == pytest.approx(np.broadcast_to([1000, 250.5], gap.shape))


def test_a_class_by_any_name_makes_valid_json(tmp_path: Path) -> None:
    features = written(some_maps(classes=("no", 'HER2 "3+"\n')), tmp_path / "s.geojson")
    assert 'evidence for HER2 "3+"\n' in features[0]["properties"]["measurements"]
