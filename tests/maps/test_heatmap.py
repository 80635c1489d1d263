"""The picture of one slide: the panels a model has, colours that mean what the bar says, and all at its place."""

import dataclasses
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from jigsawmil.bags.bag import Bag
from jigsawmil.drawing import own_style
from jigsawmil.errors import ConfigError, SlideError, StudyError
from jigsawmil.graph import GraphConfig
from jigsawmil.maps.geometry import Squares, canvas_around
from jigsawmil.maps.heatmap import Scale, heatmap_figure, mean_moves, paint, write_heatmap
from jigsawmil.maps.patch_maps import NO_EVIDENCE, PatchMaps, explain
from jigsawmil.maps.values import percentiles
from jigsawmil.nn.model import build_model
from jigsawmil.slides.slide import open_slide
from jigsawmil.train.checkpoint import ModelCard

EDGE = 64
SIZE = (832, 640)  # small enough to be drawn pixel for pixel


def some_maps(
    method: str = "graph-abmil+jigsaw",
    classes: tuple[str, ...] = ("normal", "tumour"),
    attribution: bool = False,
    **options,
) -> PatchMaps:
    """Patches at random places of a lattice within SIZE, by a model as it was born."""
    g = torch.Generator().manual_seed(1)
    cells = torch.randperm(13 * 10, generator=g)[:120]
    coords = torch.stack([cells % 13, cells // 13], dim=1).double() * EDGE
    bag = Bag(slide_id="a$b_1", features=torch.randn(120, 8, generator=g), coords=coords, patch_size=EDGE)
    options = {"hidden": 8, "attention_dim": 4, "grid": 3, **options}
    model = build_model(method, 8, seed=3, classes=len(classes), **options)
    card = ModelCard(model=model.config, graph=GraphConfig(k=6), classes=classes)
    [maps] = explain(model, card, bag, attribution=attribution)
    return maps


def titles(figure) -> list[str]:
    return [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]


@pytest.fixture
def slide(tmp_path: Path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8)).save(tmp_path / "s.png")
    with open_slide(tmp_path / "s.png") as opened:
        yield opened


PANELS = [
    ("abmil", {}, ["attention", "evidence"]),
    ("abmil+jigsaw", {}, ["attention", "evidence", "jigsaw"]),
    ("graph-mil", {}, ["evidence", "neighbours that patch"]),
    ("graph-abmil", {"conv": "sage"}, ["attention", "evidence"]),
    ("graph-abmil+jigsaw", {"jigsaw": "consistency"}, ["attention", "evidence", "neighbours that patch"]),
    ("graph-abmil+jigsaw", {}, ["attention", "evidence", "jigsaw", "neighbours that patch"]),
    (
        "graph-abmil+jigsaw",
        {"attribution": True},
        ["attention", "evidence", "input attr", "jigsaw", "neighbours that patch"],
    ),
]


@pytest.mark.parametrize(("method", "options", "panels"), PANELS)
def test_a_model_shows_what_it_has(method: str, options: dict, panels: list[str], legible) -> None:
    """Mean pooling has no attention to show, and only graph attention has neighbours."""
    with own_style():
        figure = heatmap_figure(some_maps(method, **options), model="a model that never saw this slide")
        found = titles(figure)
        assert [title.startswith(panel) for title, panel in zip(found, panels, strict=True)] == [True] * len(panels)
        if method in ("graph-mil", "graph-abmil+jigsaw"):  # two panels, three, four and five
            legible(figure)


@pytest.mark.parametrize("flat", [False, True])
def test_without_evidence_its_panel_is_left_out_and_the_title_says_so(flat: bool, legible) -> None:
    """Also if all patches are attended to alike: there is nothing else to show then."""
    maps = dataclasses.replace(some_maps("abmil"), evidence=None)
    maps = dataclasses.replace(maps, attention=np.full(len(maps), 1 / len(maps))) if flat else maps
    with own_style():
        figure = heatmap_figure(maps)
        assert titles(figure) == ["attention"]
        assert NO_EVIDENCE in figure.get_suptitle().replace("\n", " ")
        assert "no contribution" not in heatmap_figure(some_maps("abmil")).get_suptitle()
        legible(figure)


@pytest.mark.parametrize(
    ("task", "classes", "words"),
    [
        ("binary", ("normal", "tumour"), "red for tumour, blue for normal"),
        ("multiclass", ("a", "b", "c"), "red for X, blue against X"),
        ("ordinal", ("0", "1", "2"), "red for 2, blue against 2"),
    ],
)
def test_the_title_says_what_the_colours_speak_for(task: str, classes: tuple[str, ...], words: str) -> None:
    maps = some_maps("abmil", classes, task=task)
    with own_style():
        figure = heatmap_figure(maps)
    assert titles(figure)[1] == "evidence: " + words.replace("X", maps.prediction)
    assert figure.get_suptitle().startswith(f"a$b_1: {maps.prediction}, probability of {maps.shown_class}")


def test_every_panel_lies_over_the_slide_at_its_own_place(slide) -> None:
    """What imshow was given: the slide untouched beside the patches, and on each patch the colour of its percentile."""
    maps = some_maps()
    with own_style():
        figure = heatmap_figure(maps, slide=slide)
    image = figure.axes[0].get_images()[0]
    left, right, bottom, top = image.get_extent()
    shown, truth = image.get_array(), slide.thumbnail(max(SIZE)).image
    scale = (right - left) / shown.shape[1]
    assert scale == 1
    covered = np.zeros(SIZE[::-1], bool)
    for (x, y), percentile in zip(maps.coords.astype(int), percentiles(maps.attention), strict=True):
        covered[y : y + EDGE, x : x + EDGE] = True
        part = shown[y - int(top) : y - int(top) + EDGE, x - int(left) : x - int(left) + EDGE]
        pixels = truth[y : y + EDGE, x : x + EDGE]
        grey = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None]
        colour = np.array(matplotlib.colormaps["viridis"](percentile / 100)[:3]) * 255
        assert np.abs(part - (0.4 * grey + 0.6 * colour)).max() <= 1
    window = (slice(int(top), int(bottom)), slice(int(left), int(right)))
    beside = ~covered[window]
    assert (shown[beside] == truth[window][beside]).all()
    assert beside.sum() > 1000


def test_the_close_up_is_the_slide_around_the_patch(slide) -> None:
    maps = some_maps()
    with own_style():
        figure = heatmap_figure(maps, slide=slide, patch=7)
    ax = next(ax for ax in figure.axes if ax.get_title(loc="left") == "neighbours that patch 7 attends to")
    left, right, bottom, top = ax.get_images()[0].get_extent()
    indices, _ = maps.neighbours(7)
    near = maps.coords[indices]
    assert (near >= (left, top)).all()
    assert (near + EDGE <= (right, bottom)).all()
    [square] = ax.patches
    assert square.get_xy() == pytest.approx(maps.coords[7])


def test_no_evidence_is_no_colour_and_the_scale_is_symmetric() -> None:
    maps = some_maps()
    evidence = np.zeros_like(maps.evidence)
    evidence[:60, 0] = np.linspace(0.001, 0.5, 60)
    with own_style():
        figure = heatmap_figure(dataclasses.replace(maps, evidence=evidence))
    bars = {ax.get_ylabel(): ax for ax in figure.axes if ax.get_ylabel()}
    low, high = bars["share of the logit"].get_ylim()
    assert low == pytest.approx(-high)
    image = figure.axes[1].get_images()[0]
    left, _, _, top = image.get_extent()
    canvas = canvas_around(Squares(maps.coords, EDGE), None)
    x, y = ((maps.coords[80] + EDGE / 2 - (left, top)) / canvas.scale).astype(int)
    red, green, blue = image.get_array()[y, x]
    assert abs(int(red) - int(blue)) <= 2
    assert green > 240


def test_patches_without_a_value_stay_transparent() -> None:
    squares = Squares(np.array([[0.0, 0.0], [64.0, 0.0]]), 64)
    canvas = canvas_around(squares, None, pixels=200)
    painted = paint(canvas, squares, np.array([np.nan, 1.0]), Scale("viridis", 0, 1, ""), 1.0)
    found = canvas.values(squares, np.array([np.nan, 1.0]))
    assert ((painted.picture != canvas.picture).any(axis=2) == np.isfinite(found)).all()


def test_arrows_are_means_over_cells_and_few() -> None:
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 1000, (12_050, 2))
    moved = np.stack([centres[:, 0] * 0.5, np.full(12_050, -3.0)], axis=1)
    at, mean = mean_moves(centres, moved, 50)
    assert len(at) <= 21 * 21
    assert mean[:, 1] == pytest.approx(np.full(len(at), -3.0))
    assert mean[:, 0] == pytest.approx(at[:, 0] * 0.5)


def test_the_file_is_the_same_each_time_and_needs_a_known_ending(tmp_path: Path) -> None:
    maps = some_maps("abmil")
    for name in ("a.png", "b.png"):
        write_heatmap(maps, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with pytest.raises(StudyError, match=r"cannot be written as '\.bmp'"):
        write_heatmap(maps, tmp_path / "a.bmp")


def test_wrong_slides_and_patches_are_refused(slide) -> None:
    maps = some_maps()
    far = dataclasses.replace(maps, bag=dataclasses.replace(maps.bag, coords=maps.bag.coords + 5000))
    with pytest.raises(SlideError, match="832 x 640 pixels, but 120 of the 120 patches"):
        heatmap_figure(far, slide=slide)
    with pytest.raises(ConfigError, match="patches 0 to 119"):
        heatmap_figure(maps, patch=120)


def test_one_patch_is_a_picture_too() -> None:
    maps = some_maps("abmil")
    one = dataclasses.replace(
        maps,
        bag=dataclasses.replace(maps.bag, features=maps.bag.features[:1], coords=maps.bag.coords[:1]),
        attention=np.ones(1),
        evidence=np.zeros((1, 1)),
    )
    with own_style():
        assert titles(heatmap_figure(one)) == ["evidence: red for tumour, blue for normal"]
