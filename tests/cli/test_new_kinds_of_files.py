"""A format and an encoder from outside the package: one call each, and every verb knows them."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import FORMATS, feature_suffixes, read_bag, register_format
from jigsawmil.bags.formats.opened import Opened
from jigsawmil.bags.formats.source import Options, Source, Stored
from jigsawmil.bags.names import slide_name
from jigsawmil.slides.encoders import ENCODERS, SPECS, EncoderSpec, register_encoder


def dummy_format() -> ModuleType:
    """Features and coordinates as lists in a JSON file of its own suffix."""
    module = ModuleType("dummy")

    def scan(file: Opened, options: Options) -> Source:
        values = json.loads(file.path.read_text())
        arrays = {key: np.array(values[key]) for key in ("features", "coords")}
        stored = {
            key: Stored(array.shape, array.dtype.name, lambda array=array: torch.from_numpy(array))
            for key, array in arrays.items()
        }
        return Source(path=file.path, slide_id=file.slide_id, unit="px", patch_size=256.0, **stored)

    module.matches = lambda file: file.path.suffix == ".bagjson"
    module.scan = scan
    module.SUFFIXES = (".bagjson",)
    return module


@pytest.fixture
def kinds() -> Iterator[None]:
    """The tables as they were, afterwards."""
    formats, encoders, specs = dict(FORMATS), dict(ENCODERS), list(SPECS)
    yield
    for table, before in ((FORMATS, formats), (ENCODERS, encoders)):
        table.clear()
        table.update(before)
    SPECS[:] = specs


def write(bag: Bag, path: Path) -> None:
    path.write_text(json.dumps({"features": bag.features.tolist(), "coords": bag.coords.tolist()}))


def test_a_new_format_goes_the_whole_way(kinds, jigsawmil, cohort, quick, tmp_path: Path) -> None:
    folder = tmp_path / "features"
    folder.mkdir()
    for file in (cohort / "features").glob("*.h5"):
        write(read_bag(file), folder / f"{file.stem}.svs.bagjson")
    given = ["--labels", cohort / "labels.csv", "--features", folder]
    assert jigsawmil("check", *given).code == 1  # nobody knows these files yet
    register_format("dummy", dummy_format())
    assert ".bagjson" in feature_suffixes()
    assert slide_name("a.svs.bagjson") == "a"
    assert "18 slides of 15 patients" in jigsawmil("check", *given).out
    ran = jigsawmil("compare", *given, *quick, "--methods", "abmil", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert jigsawmil("train", *given, *quick, "--method", "abmil", "--out", tmp_path / "model").code == 0
    ran = jigsawmil("predict", tmp_path / "model", folder, "--out", tmp_path / "new.csv")
    assert ran.code == 0, ran.err
    assert len(pd.read_csv(tmp_path / "new.csv")) == 18
    for verb in (["report", tmp_path / "run"], ["heatmap", tmp_path / "run", "0003", "--out", tmp_path / "m.png"]):
        ran = jigsawmil(*verb)
        assert ran.code == 0, ran.err


def test_a_format_stands_where_it_was_asked_for(kinds) -> None:
    before = list(FORMATS)
    register_format("dummy", dummy_format(), before="clam")
    assert list(FORMATS) == [*before[: before.index("clam")], "dummy", *before[before.index("clam") :]]
    register_format("dummy", dummy_format())
    assert list(FORMATS) == ["dummy", *before]


def test_a_new_encoder_goes_the_whole_way(kinds, jigsawmil, quick, tmp_path: Path) -> None:
    class MeanColour(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(dim=(2, 3))

    def ran(*words: object) -> str:
        done = jigsawmil(*words)
        assert done.code == 0, done.err
        return done.out

    register_encoder(EncoderSpec(name="mean-colour", dim=3), lambda spec, weights, trust_code: MeanColour())
    assert "mean-colour" in ran("encoders")
    ran("paint", "--slides", 8, "--patches", 12, "--out", tmp_path / "painted")
    ran("extract", tmp_path / "painted" / "slides", "--encoder", "mean-colour", "--out", tmp_path / "out")
    [folder] = tmp_path.glob("out/*/features_mean-colour")
    bag = read_bag(sorted(folder.glob("*.h5"))[0])
    assert bag.dim == 3
    assert bag.encoder == "mean-colour"
    given = ["--labels", tmp_path / "painted" / "labels.csv", "--features", folder, *quick]
    ran("compare", *given, "--methods", "abmil", "--folds", 2, "--out", tmp_path / "run")
    ran("report", tmp_path / "run")
    assert "mean-colour" in (tmp_path / "run" / "report.html").read_text()
    ran("train", *given, "--method", "abmil", "--out", tmp_path / "model")
    slide = sorted((tmp_path / "painted" / "slides").glob("*.tif*"))[0]
    ran("predict", tmp_path / "model", slide, "--out", tmp_path / "new.csv", "--heatmap", tmp_path / "maps")
    assert len(pd.read_csv(tmp_path / "new.csv")) == 1
    assert [path.stem for path in (tmp_path / "maps").iterdir()] == [slide.stem]
