"""The verbs extract and encoders, as typed."""

import io
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from jigsawmil.bags.formats import read_bag
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.cli.extract import everywhere, unusual
from jigsawmil.cli.progress_tiles import TilesProgress, _span
from jigsawmil.slides.encoders import ENCODERS, SPECS
from jigsawmil.slides.extract_one import Extracted, ExtractSettings
from jigsawmil.synthetic.painter import Plan, paint, write_slide

Program = Callable[..., Any]


class MeanColour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=[2, 3])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "file.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what people have
        torch.jit.script(MeanColour()).save(str(path))
    path.with_name("file.pt.json").write_text(json.dumps({"size": 32, "name": "colour"}))
    return path


@pytest.fixture(scope="module")
def slides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small slides and a file that is none. Not to be changed."""
    folder = tmp_path_factory.mktemp("slides")
    plan = Plan(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([0, 1, 1, 0]), ("tumour", "stroma"))
    for seed, name in enumerate(("0001", "0002")):
        write_slide(paint(plan, np.random.default_rng(seed)).image, folder / f"{name}.tif")
    (folder / "broken.svs").write_text("no slide")
    return folder


def test_the_list_of_encoders_is_whole_at_100_columns(jigsawmil: Program) -> None:
    ran = jigsawmil("encoders", columns=100)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) == 1 + len(SPECS)  # nothing is wrapped
    for line, spec in zip(lines[1:], SPECS, strict=True):
        assert line.split()[0] == spec.name
        for words in (spec.repo, spec.licence, str(spec.dim)):
            assert words in line
    assert "…" not in ran.out


def test_a_folder_of_slides_becomes_a_folder_of_features(
    jigsawmil: Program, slides: Path, encoder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "features"
    ran = jigsawmil("extract", slides, "--encoder", encoder, "--out", out, "--device", "cpu")
    assert ran.code == 1  # of the one that failed
    folder = out / "20x_256px_0px_overlap" / "features_colour"
    words = " ".join(ran.out.split())
    assert "3 slides: 2 done, 1 failed" in words
    assert f"Features in {folder}" in words
    assert "Failed: broken.svs: no slide format that OpenSlide knows" in " ".join(ran.err.split())
    bag = read_bag(folder / "0001.h5")
    assert (bag.encoder, bag.dim, bag.mpp) == ("colour", 3, 0.5)
    table = pd.read_csv(folder / "extracted.csv", dtype={"slide": str})
    assert table["status"].tolist() == ["done", "done", "failed"]
    assert table["tiles"].tolist()[:2] == [len(bag), len(read_bag(folder / "0002.h5"))]
    again = jigsawmil("extract", slides, "--encoder", encoder, "--out", out, "--device", "cpu", "--quiet")
    assert "2 already, 1 failed" in again.out
    assert "tiles" not in again.out


def test_what_cannot_be_is_told_before_any_work(
    jigsawmil: Program, slides: Path, encoder: Path, tmp_path: Path
) -> None:
    good = slides / "0001.tif"
    cases = [
        (["--encoder", "uni3"], "encoder: found 'uni3'"),
        (["--encoder", tmp_path / "none.pt"], "none.pt: no such file"),
        (["--encoder", encoder, "--mpp", "0"], "mpp: found 0.0"),
        (["--encoder", encoder, "--precision", "half"], "--precision: found 'half'"),
        (["--encoder", encoder, "--executor", "slurm"], "--executor: found 'slurm'"),
        (["--encoder", encoder, "--weights", encoder], "includes its own weights"),
        (["--encoder", encoder, "--device", "tpu"], "tpu"),
    ]
    for options, words in cases:
        ran = jigsawmil("extract", good, *options, "--out", tmp_path / "out")
        assert ran.code == 1, options
        assert words in " ".join(ran.err.split()), options
        assert "Traceback" not in ran.err
    assert not list(tmp_path.rglob("*.h5"))


def test_the_bar_shows_tiles_a_second_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    out = io.StringIO()
    screen = Console(file=out, force_terminal=True, width=100, legacy_windows=False)
    progress = TilesProgress(screen, 3, quiet=False)

    def results() -> object:
        """Three slides of 200 tiles, 20 tiles a second; the first was done before."""
        yield Extracted("a", "already")
        for name in ("b", "c"):
            progress.tiles(Path(f"{name}.svs"), 0, 200)  # the clock of a slide starts
            for done in range(50, 201, 50):
                now[0] += 2.5
                progress.tiles(Path(f"{name}.svs"), done, 200)
                words.append(str(progress._bar.tasks[0].fields["words"]))
            yield Extracted(name, "done", 200, seconds=10.0)

    words: list[str] = []
    with progress:
        found = progress.follow(results())  # type: ignore[arg-type]
    assert [one.slide for one in found] == ["a", "b", "c"]
    assert words[0] == "b 50/200  20 tiles/s  18 s left"  # 7.5 s of b, 10 s of c
    assert words[3] == "b 200/200  20 tiles/s  10 s left"
    assert words[-1] == "c 200/200  20 tiles/s  0 s left"
    assert "slides" in out.getvalue()


def test_on_a_cluster_a_slide_keeps_the_name_of_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0f3a.svs").touch()
    (tmp_path / "TCGA-01.svs").symlink_to(tmp_path / "0f3a.svs")
    monkeypatch.chdir(tmp_path)
    paths, settings, load = everywhere(
        [Path("TCGA-01.svs")], ExtractSettings(masks=Path("m")), {"name": "mine.pt", "weights": None}
    )
    assert paths == [tmp_path / "TCGA-01.svs"]
    assert settings.masks == tmp_path / "m"
    assert load == {"name": str(tmp_path / "mine.pt"), "weights": None}


def test_spans_of_time_are_short() -> None:
    assert [_span(seconds) for seconds in (0.4, 59, 100, 3600, 7200)] == ["0 s", "59 s", "2 min", "60 min", "2.0 h"]


def test_tiles_that_an_encoder_was_not_trained_on_are_remarked_on() -> None:
    def said(encoder: str, patch: int, mpp: float) -> str:
        return " ".join(unusual(TileSpec(patch=patch, mpp=mpp), ENCODERS[encoder]))

    assert all(said(spec.name, spec.patch, spec.mpp) == "" for spec in SPECS)
    assert said("uni", 512, 0.25) == ""  # the same microns, scaled down
    assert "expects tiles of 224 pixels at 0.5 microns; in tiles of 256 at 0.5, structures appear 0.88" in said(
        "virchow2", 256, 0.5
    )
    assert "2 times as large" in said("uni", 256, 0.25)
    assert said("uni", 128, 1.0) == "Note: uni takes 224 pixels; tiles of 128 are enlarged."
