"""The attention figure shows the weights themselves, legibly, whatever slides and variants are called."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from PIL import Image

from jigsawmil.drawing import own_style, save
from jigsawmil.errors import StudyError
from jigsawmil.maps.attention_figure import Panel, SlideRow, attention_figure
from jigsawmil.synthetic.planted import Planted

LONG = "TCGA-A1-A0SB-01Z-00-DX1.B34C267B-CAAF-4AC6-AD5C-276C26F997A1"


def lattice(columns: int = 12, rows: int = 8) -> np.ndarray:
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    return np.stack([x.ravel(), y.ravel()], 1) * 512.0 + [9000.0, 3000.0]


def weights(n: int, sharpness: float, seed: int = 0) -> np.ndarray:
    e = np.exp(sharpness * np.random.default_rng(seed).normal(size=n))
    return (e / e.sum()).astype(np.float32)


def row(coords: np.ndarray, *panels: Panel, **more: object) -> SlideRow:
    values = {"slide_id": "S7", "label": "ILC", "fold": 0, "title": "True class ILC: slide S7", "coords": coords}
    return SlideRow(**{**values, "panels": panels, **more})  # type: ignore[arg-type]


def points(ax: Axes) -> EllipseCollection:
    (found,) = ax.findobj(EllipseCollection)
    return found


def bars(figure: Figure) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>" or "half of" in ax.get_xlabel()]


def test_every_patch_is_a_point_with_its_own_weight_the_strongest_on_top() -> None:
    coords, a = lattice(), weights(96, 2.0)
    drawn = points(attention_figure([row(coords, Panel("abmil", "", a))]).axes[0])
    values = np.asarray(drawn.get_array())
    assert values.dtype == np.float32
    assert (np.diff(values) >= 0).all()
    weight_of = {
        tuple(place): value for place, value in zip(np.asarray(drawn.get_offsets()) - 256, values, strict=True)
    }
    assert [weight_of[tuple(place)] for place in coords] == a.tolist()  # to the bit


def test_the_bar_has_real_numbers_and_tiny_weights_do_not_take_the_scale() -> None:
    a = np.full(96, 1e-9, np.float32)
    a[:3] = 0.25, 0.5, 0.25
    figure = attention_figure([row(lattice(), Panel("abmil", "", a), Panel("flat", "", weights(96, 0.01)))])
    sharp, flat = bars(figure)
    assert [label.get_text() for label in sharp.get_xticklabels()] == ["5.0·10⁻⁴", "0.016", "0.50"]
    assert sharp.get_xlabel() == "attention weight; half of the attention\non 1 of 96 patches"
    low, high = points(figure.axes[0]).get_clim()
    assert (low, high) == (pytest.approx(0.5 / 1000), 0.5)
    assert flat.get_xlim() == pytest.approx((weights(96, 0.01).min(), weights(96, 0.01).max()))  # a scale of its own


def test_mean_pooling_has_points_and_no_bar() -> None:
    figure = attention_figure([row(lattice(), Panel("graph-mil", "", np.full(96, 1 / 96, np.float32)))])
    (ax,) = figure.axes
    assert len(points(ax).get_offsets()) == 96
    assert ax.get_xlabel() == "every patch has the weight 0.010"


def test_a_reference_is_an_image_or_the_planted_truth(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), (200, 10, 10)).save(tmp_path / "lobular.png")
    panel = Panel("abmil", "", weights(96, 1.0))
    figure = attention_figure([row(lattice(), panel, reference=tmp_path / "lobular.png")])
    (shown,) = [ax for ax in figure.axes if ax.get_images()]
    assert shown.get_title() == "reference\nlobular.png"
    figure.savefig(tmp_path / "figure.png", dpi=50)
    pixels = np.asarray(Image.open(tmp_path / "figure.png").convert("RGB"))
    box = shown.get_window_extent()
    red = (pixels == (200, 10, 10)).all(2).mean() * figure.bbox.width * figure.bbox.height
    assert red == pytest.approx(box.width * box.height, rel=0.05)  # it is seen whole, and fills its place
    assert box.width / box.height == pytest.approx(4 / 3)
    planted = Planted(np.arange(96) % 3, ("A", "B", "stroma", "fat"), lattice())
    figure = attention_figure([row(lattice(), panel, reference=planted)])
    (shown,) = [ax for ax in figure.axes if ax.get_legend()]
    assert [text.get_text() for text in shown.get_legend().get_texts()] == ["A", "B", "stroma"]  # those that it has
    colours = points(shown).get_facecolor()
    assert (colours[0::3] == colours[0]).all()
    assert len(np.unique(colours, axis=0)) == 3


def test_a_wrong_slide_is_refused() -> None:
    for coords, attention, match in (
        (lattice(), np.ones(95), "same slide"),
        (lattice(), np.full(96, np.nan), "diverged"),
    ):
        with pytest.raises(StudyError, match=f"S7, abmil.*{match}"):
            attention_figure([row(coords, Panel("abmil", "", attention))])
    with pytest.raises(StudyError, match="No slide"):
        attention_figure([])


@pytest.mark.parametrize("variants", [1, 3, 8])
def test_every_text_is_legible(variants: int, legible: Callable[[Figure], None], tmp_path: Path) -> None:
    Image.new("L", (30, 40)).save(tmp_path / "invasive lobular carcinoma.png")
    words = "predicted invasive ductal carcinoma, p = 0.52"
    rows = []
    for i, shape in enumerate([(30, 6), (12, 12), (6, 30), (1, 1)]):
        coords = lattice(*shape)
        names = [f"graph-abmil+jigsaw k={k} lambda=em-per-slide" for k in range(variants)]
        panels = [Panel(name, words, weights(len(coords), 3.0 * k, seed=k)) for k, name in enumerate(names)]
        planted = Planted(np.arange(len(coords)) % 6, ("A", "B", "layer 1", "layer 2", "layer 3", "layer 4"), coords)
        reference = (tmp_path / "invasive lobular carcinoma.png", planted, "no image given for ILC", planted)[i]
        title = f"True class invasive lobular carcinoma: slide {LONG}, 12,050 patches, test fold 0 of seed 0"
        rows.append(row(coords, *panels, title=title, reference=reference))
    with own_style():
        legible(attention_figure(rows))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_points_give_the_same_bytes_in_any_order(suffix: str, tmp_path: Path) -> None:
    coords, a, again = lattice(), weights(96, 1.0), np.random.default_rng(1).permutation(96)
    one = row(coords, Panel("a$b$", "", a))
    two = replace(one, coords=coords[again], panels=(Panel("a$b$", "", a[again]),))
    for name, given, settings in (("one", one, {}), ("two", two, {"font.size": 30})):
        with matplotlib.rc_context(settings), own_style():
            save(attention_figure([given]), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()
