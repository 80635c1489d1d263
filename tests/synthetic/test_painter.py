import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides.slide import open_slide
from jigsawmil.synthetic.painted import PlannedSlide, write_painted
from jigsawmil.synthetic.painter import CELL, COARSE, GLASS, Painting, Plan, paint, write_slide

EDGE = CELL // COARSE


def of_type(painting: Painting, plan: Plan, name: str) -> np.ndarray:
    """(pixel, 3): level-0 pixels of a type."""
    where = np.kron(painting.types == 1 + plan.names.index(name), np.ones((COARSE, COARSE), bool))
    return painting.image[where].astype(float)


def test_the_same_seed_gives_the_same_bytes(plan: Plan, painting: Painting, painted: Path, tmp_path: Path) -> None:
    again = paint(plan, np.random.default_rng(0))
    write_slide(again.image, tmp_path / "again.tif")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (painted, tmp_path / "again.tif")]
    assert digests[0] == digests[1]
    assert np.array_equal(again.types, painting.types)
    assert not np.array_equal(paint(plan, np.random.default_rng(1)).tissue, painting.tissue)


def test_openslide_reads_a_pyramid_with_its_resolution(painted: Path, painting: Painting) -> None:
    with open_slide(painted) as slide:
        assert slide.mpp == 0.5
        assert slide.level_downsamples == (1.0, 4.0, 16.0)
        assert slide.size == painting.image.shape[1::-1]
        assert np.array_equal(slide.read(512, 512, 300, 300), painting.image[512:812, 512:812])
        coarse = slide.read(512, 512, 512, 32)
    assert np.abs(coarse.mean(axis=(0, 1)) - painting.image[512:1024, 512:1024].mean(axis=(0, 1))).max() < 2


def test_types_lie_where_the_plan_says(plan: Plan, painting: Painting) -> None:
    right = 0
    for (column, row), kind in zip(plan.cells + GLASS, plan.types, strict=True):
        cell = painting.types[row * EDGE : (row + 1) * EDGE, column * EDGE : (column + 1) * EDGE]
        right += np.bincount(cell[cell > 0], minlength=9).argmax() == kind + 1
    assert right > 0.9 * len(plan.cells)
    assert np.array_equal(painting.types > 0, painting.tissue)


def test_colours_are_those_of_the_stains(plan: Plan, painting: Painting) -> None:
    glass = painting.image[np.kron(~painting.tissue, np.ones((COARSE, COARSE), bool))]
    assert np.median(glass, axis=0).min() > 230
    tumour, stroma, lymphocytes = (of_type(painting, plan, name) for name in ("tumour", "stroma", "lymphocytes"))
    red, green, blue = stroma.mean(axis=0)
    assert red > blue > green  # pink
    assert tumour.mean() < stroma.mean() - 15  # nuclei are dark and dense
    nuclei = [np.mean(pixels[:, 0] < 150) for pixels in (tumour, stroma, lymphocytes)]
    assert nuclei[0] > 3 * nuclei[1]
    assert nuclei[2] > 3 * nuclei[1]


def test_no_nest_reaches_beyond_its_own_tile() -> None:
    names = ("A", "B", "stroma")
    y, x = np.mgrid[0:5, 0:5]
    plan = Plan(np.stack([x.ravel(), y.ravel()], axis=1), np.random.default_rng(0).integers(0, 2, 25), names)
    painting = paint(plan, np.random.default_rng(0))
    inner = painting.types[EDGE : 6 * EDGE, EDGE : 6 * EDGE]
    border = np.ones((EDGE, EDGE), bool)
    border[2:-2, 2:-2] = False
    assert set(np.unique(inner[np.tile(border, (5, 5))])) <= {0, 3}  # stroma between all tiles
    for (column, row), kind in zip(plan.cells, plan.types, strict=True):
        cell = inner[row * EDGE : (row + 1) * EDGE, column * EDGE : (column + 1) * EDGE]
        assert 2 - kind not in cell  # never the other nest
        assert (cell == kind + 1).mean() > 0.2


def test_ink_and_frame_hide_tissue(plan: Plan, painting: Painting) -> None:
    marked = paint(plan, np.random.default_rng(0), ink="green", border=True)
    hidden = painting.tissue & ~marked.tissue
    assert hidden.sum() > 0.02 * painting.tissue.sum()
    pixels = marked.image[np.kron(hidden, np.ones((COARSE, COARSE), bool))].mean(axis=0)
    assert pixels[1] > pixels[0] + 10  # green exceeds red
    assert marked.image[: CELL // 2].max() < 10


def test_plans_and_inks_that_cannot_be_painted_are_refused(plan: Plan) -> None:
    with pytest.raises(ConfigError, match=r"found 'stromma'.*Did you mean 'stroma'"):
        Plan(plan.cells, plan.types, ("stromma",))
    with pytest.raises(ConfigError, match="expected stroma among them"):
        Plan(plan.cells, plan.types, ("A", "B"))
    with pytest.raises(ConfigError, match="ink: found 'red'"):
        paint(plan, np.random.default_rng(0), ink="red")


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tifffile", None)
    with pytest.raises(SlideError, match=r"pip install 'jigsawmil\[slides\]'"):
        write_slide(np.zeros((64, 64, 3), np.uint8), tmp_path / "s.tif")
    assert not any(tmp_path.iterdir())


def test_a_cohort_is_written_with_its_truth_whole_or_not_at_all(tmp_path: Path) -> None:
    small = Plan(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), np.array([0, 1, 0, 1]), ("tumour", "stroma"))
    slides = [PlannedSlide("0001", "0001", "tumour", small), PlannedSlide("0002", "0001", "tumour", small)]
    write_painted(slides, tmp_path / "out", seed=3)
    assert (
        tmp_path / "out" / "labels.csv"
    ).read_text() == "slide_id,patient_id,label\n0001,0001,tumour\n0002,0001,tumour\n"
    truth = json.loads((tmp_path / "out/truth/truth.json").read_text())
    types = np.asarray(Image.open(tmp_path / "out/truth/0002_types.png"))
    tissue = np.asarray(Image.open(tmp_path / "out/truth/0002_tissue.png"))
    assert np.array_equal(types > 0, tissue == 255)
    with open_slide(tmp_path / "out/slides/0002.tif") as slide:
        assert slide.size == (types.shape[1] * truth["scale"], types.shape[0] * truth["scale"])
    with pytest.raises(ConfigError, match="exists already"):
        write_painted(slides, tmp_path / "out")

    def failing() -> object:
        yield slides[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_painted(failing(), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
