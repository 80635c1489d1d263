from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from jigsawmil.slides.slide import open_slide
from jigsawmil.slides.tissue import MPP, TissueSettings, find_tissue, tissue_mask
from jigsawmil.synthetic.painter import Painting, Plan, paint

Mask = NDArray[np.bool_]
SIDE = 320  # pixels of 8 microns
H_AND_E = (196, 120, 176)


def glass(cast: tuple[int, int, int] = (244, 242, 245)) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(cast, 0.6, (SIDE, SIDE, 3))


def disc(x: float, y: float, radius: float) -> Mask:
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    return np.hypot(columns - x, rows - y) < radius


def lay(picture: NDArray[np.float64], where: Mask, colour: tuple[int, int, int], rough: float = 0.15) -> None:
    """Tissue of a colour, in place; its brightness varies by `rough`."""
    grain = gaussian_filter(np.random.default_rng(1).standard_normal((SIDE, SIDE)), 1.0)
    cover = (gaussian_filter(where.astype(float), 0.5) * (1 + rough * grain / grain.std()))[..., None]
    picture += cover * (np.array(colour) - picture)


def line(*places: tuple[int, int], width: int) -> Mask:
    image = Image.new("1", (SIDE, SIDE))
    ImageDraw.Draw(image).line(places, fill=1, width=width)
    return np.asarray(image)


def found(picture: NDArray[np.float64], **settings: float) -> Mask:
    return tissue_mask(np.clip(np.rint(picture), 0, 255).astype(np.uint8), MPP, TissueSettings(**settings))


def iou(a: Mask, b: Mask) -> float:
    return float((a & b).sum() / (a | b).sum())


@pytest.mark.parametrize("cast", [(255, 255, 255), (244, 242, 245), (238, 240, 232), (222, 220, 224)])
def test_bare_glass_of_any_lamp_is_empty(cast: tuple[int, int, int]) -> None:
    shade = 1 - 0.05 * np.linspace(0, 1, SIDE)[:, None, None] ** 2
    assert not found(glass(cast) * shade).any()


@pytest.mark.parametrize("cast", [(255, 255, 255), (238, 240, 232)])
@pytest.mark.parametrize("colour", [H_AND_E, (90, 60, 140), (236, 214, 228)])  # typical, dark blue, pale eosin
def test_stained_tissue_is_found_whatever_its_strength(
    colour: tuple[int, int, int], cast: tuple[int, int, int]
) -> None:
    picture, where = glass(cast), disc(150, 170, 90)
    lay(picture, where, colour)
    assert iou(found(picture), where) > 0.95


def test_tissue_that_fills_the_picture_is_found() -> None:
    picture = glass()
    lay(picture, np.ones((SIDE, SIDE), bool), H_AND_E)
    assert found(picture).mean() > 0.99


@pytest.mark.parametrize("ink", [(38, 62, 158), (24, 118, 72), (30, 29, 32)])
@pytest.mark.parametrize("over_tissue", [False, True])
def test_ink_is_no_tissue_and_hides_none_beside_it(ink: tuple[int, int, int], over_tissue: bool) -> None:
    picture, where = glass(), disc(150, 190, 90)
    lay(picture, where, H_AND_E)
    stroke = line((20, 40), (300, 70), width=24) if not over_tissue else line((20, 150), (300, 200), width=24)
    cover = gaussian_filter(stroke.astype(float), 1.5)[..., None]
    picture *= 1 - cover * (1 - np.array(ink) / 255)  # as ink does: light passes through both
    mask = found(picture)
    assert (mask & stroke).sum() < 0.01 * stroke.sum()
    assert iou(mask, where & ~stroke) > 0.9


def test_a_black_frame_is_no_tissue() -> None:
    picture, where = glass(), disc(150, 170, 90)
    lay(picture, where, H_AND_E)
    picture[:12] = picture[:, -20:] = 3
    mask = found(picture)
    assert not mask[:12].any()
    assert not mask[:, -20:].any()
    assert iou(mask, where) > 0.95


def test_dark_tissue_is_not_taken_for_ink() -> None:
    picture, where = glass(), disc(150, 170, 90)
    lay(picture, where, H_AND_E)
    lay(picture, disc(150, 170, 30), (96, 48, 112))  # a fold
    assert iou(found(picture), where) > 0.95


def test_smooth_tinted_glass_is_no_tissue() -> None:
    picture = glass()
    lay(picture, disc(150, 170, 90), (240, 222, 235), rough=0.0)
    assert not found(picture).any()


def test_grey_dust_and_scratches_are_no_tissue() -> None:
    picture = glass()
    picture[line((10, 10), (300, 280), width=2)] = 150
    picture[disc(100, 200, 20)] = 170
    assert not found(picture).any()


def test_holes_and_specks_are_judged_in_microns() -> None:
    picture, where = glass(), disc(150, 170, 90) & ~disc(120, 170, 9) & ~disc(190, 170, 30)
    lay(picture, where | disc(30, 30, 7) | disc(280, 40, 20), H_AND_E)
    mask = found(picture)
    assert mask[170, 120]  # 144 microns wide: closed
    assert not mask[170, 190]  # 480 microns wide: stays
    assert not mask[30, 30]  # 112 microns: a speck
    assert mask[40, 280]
    other = found(picture, hole=100, gap=8, speck=50)
    assert not other[170, 120]
    assert other[30, 30]
    large = np.asarray(Image.fromarray(np.rint(picture).astype(np.uint8)).resize((2 * SIDE, 2 * SIDE)))
    assert iou(tissue_mask(large, MPP / 2)[::2, ::2], mask) > 0.97  # the same slide, finer pixels


@pytest.mark.parametrize(("ink", "border"), [(None, False), ("blue", True), ("green", False), ("black", True)])
def test_painted_slides_with_known_tissue(plan: Plan, painting: Painting, ink: str | None, border: bool) -> None:
    if ink or border:
        painting = paint(plan, np.random.default_rng(3), ink=ink, border=border)
    truth = painting.tissue.reshape(painting.tissue.shape[0] // 2, 2, -1, 2).mean(axis=(1, 3)) >= 0.5
    assert iou(tissue_mask(np.asarray(Image.fromarray(painting.image).reduce(16)), MPP), truth) > 0.9


def test_a_slide_is_masked_at_its_own_scale(painted: Path, painting: Painting) -> None:
    with open_slide(painted) as slide:
        tissue = find_tissue(slide)
    assert tissue.scale == 16
    truth = painting.tissue.sum() * (8 * 0.5 / 1000) ** 2
    assert tissue.area(0.5) == pytest.approx(truth, rel=0.08)


@pytest.mark.parametrize(
    ("name", "mpp", "glass_at", "tissue_at"),
    [
        (
            "cmu-small-region.svs",
            None,
            [(300, 500), (2000, 300), (300, 2500), (2150, 2900)],
            [(1000, 1600), (1700, 2600)],
        ),
        ("tcga-cr-7395.svs", 2.0, [(300, 300), (2800, 2050), (200, 3400), (4300, 300)], [(1500, 1500), (3900, 3200)]),
    ],
)
def test_real_slides(
    real_slide: Callable[[str], Path],
    name: str,
    mpp: float | None,
    glass_at: list[tuple[int, int]],
    tissue_at: list[tuple[int, int]],
) -> None:
    """Places that a look at the slide calls glass (in the second case also a tear) and tissue, level-0 pixels."""
    with open_slide(real_slide(name), mpp) as slide:
        tissue = find_tissue(slide)
    at = [tissue.mask[int(y / tissue.scale), int(x / tissue.scale)] for x, y in glass_at + tissue_at]
    assert at == [False] * len(glass_at) + [True] * len(tissue_at)
