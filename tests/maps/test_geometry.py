"""Maps lie where their patches lie, to the pixel."""

import dataclasses
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import write_bag
from jigsawmil.bags.formats.hdf5 import unseal
from jigsawmil.bags.spacing import spacing
from jigsawmil.errors import FeatureError, SlideError
from jigsawmil.maps.geometry import (
    Squares,
    blend,
    canvas_around,
    check_slide,
    level0_squares,
    patch_image,
    squares_of,
)
from jigsawmil.slides.slide import open_slide

MARK = (200, 30, 120)  # a stain that nothing else has


def bag_at(corners: np.ndarray, edge: float | None = 64.0, **changes) -> Bag:
    coords = torch.from_numpy(np.asarray(corners, dtype=np.float64))
    return Bag(
        **{"slide_id": "s", "features": torch.zeros(len(coords), 2), "coords": coords, "patch_size": edge} | changes
    )


def lattice(columns: int, rows: int, edge: float, corner: tuple[float, float] = (0, 0)) -> np.ndarray:
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    return np.stack([x.ravel(), y.ravel()], axis=1) * edge + corner


@pytest.fixture
def drawn(tmp_path: Path):
    """A slide of 1536 x 1024 with patches of 64 from (128, 64) on; the marked ones are stained, pixel by pixel."""
    corners = lattice(20, 13, 64, (128, 64))
    marked = np.random.default_rng(0).random(len(corners)) < 0.15
    pixels = np.full((1024, 1536, 3), 255, np.uint8)
    for x, y in corners[marked].astype(int):
        pixels[y : y + 64, x : x + 64] = MARK
    Image.fromarray(pixels).save(tmp_path / "s.png")
    return tmp_path / "s.png", corners, marked


@pytest.mark.parametrize("max_side", [1536, 768, 384, 192])
def test_marked_patches_fall_exactly_on_the_marked_region(drawn, max_side: int) -> None:
    """Every pixel of the overlay lies on the stain of the thumbnail, and every stained pixel is overlaid."""
    path, corners, marked = drawn
    with open_slide(path) as slide:
        image, scale = slide.thumbnail(max_side)
    found = patch_image(corners, 64, np.where(marked, 1.0, 0.0), scale=scale, shape=image.shape[:2])
    assert ((found == 1) == stained(image)).all()
    assert (np.isnan(found).sum() + (found == 0).sum() + (found == 1).sum()) == found.size
    assert np.isfinite(found).sum() == len(corners) * (64 / scale) ** 2  # and no pixel beside the patches


@pytest.mark.parametrize("mpp", [0.25, 0.5])
def test_patches_in_microns_fall_on_the_same_pixels(drawn, mpp: float) -> None:
    """STAMP states microns; the slide knows its resolution."""
    path, corners, marked = drawn
    microns = bag_at(corners * mpp, 64 * mpp, unit="um")
    with open_slide(path, mpp=mpp) as slide:
        squares = check_slide(microns, slide)
        image, scale = slide.thumbnail(384)
    found = patch_image(*squares, np.where(marked, 1.0, 0.0), scale=scale, shape=image.shape[:2])
    assert ((found == 1) == stained(image)).all()


def stained(picture: np.ndarray) -> np.ndarray:
    """Pixels that are more stain than glass: a smaller picture has mixed ones along the edges."""
    return np.abs(picture.astype(int) - MARK).sum(axis=2) < np.abs(picture.astype(int) - 255).sum(axis=2)


@pytest.mark.parametrize("pixels", [1300, 650, 511, 333])
def test_any_scale_and_crop_keeps_the_overlay_on_the_stain(drawn, pixels: int) -> None:
    """Where a pixel is half stain, half glass, either is right; no other pixel may be wrong."""
    path, corners, marked = drawn
    squares = Squares(corners, 64)
    with open_slide(path) as slide:
        canvas = canvas_around(squares, slide, pixels)
    found = canvas.values(squares, np.where(marked, 1.0, np.nan))
    wrong = np.isfinite(found) != stained(canvas.picture)
    assert wrong.mean() < 0.002 if canvas.scale % 1 else not wrong.any()
    inner = patch_image(corners + 8, 48, np.where(marked, 1.0, np.nan), scale=canvas.scale, shape=wrong.shape,
                        origin=canvas.origin)  # fmt: skip
    assert not wrong[np.isfinite(inner)].any()


def test_a_wrong_shift_would_be_seen(drawn) -> None:
    """The test above can fail: one thumbnail pixel off and the overlay leaves the stain."""
    path, corners, marked = drawn
    with open_slide(path) as slide:
        image, scale = slide.thumbnail(384)
    found = patch_image(corners + scale, 64, np.where(marked, 1.0, 0.0), scale=scale, shape=image.shape[:2])
    assert ((found == 1) != stained(image)).any()


def test_neighbouring_patches_leave_no_seam_at_any_scale() -> None:
    """A scale that is no divisor: every pixel between the outer edges has exactly one patch."""
    corners = lattice(30, 20, 224, (1000, 7000))
    for scale in (3.7, 10.1, 31.3, 100 / 3):
        shape = (int(20 * 224 / scale) - 1, int(30 * 224 / scale) - 1)
        image = patch_image(corners, 224, np.arange(600.0), scale=scale, shape=shape, origin=(1000, 7000))
        assert np.isfinite(image).all()
        rows, columns = np.indices(shape)
        cell = ((rows + 0.5) * scale // 224) * 30 + (columns + 0.5) * scale // 224
        assert (image == cell).all()


def test_patches_of_several_contours_need_no_lattice() -> None:
    """CLAM restarts its lattice at every contour."""
    corners = np.array([[0.0, 0.0], [10.0, 0.0], [33.0, 7.0]])
    image = patch_image(corners, 10, np.array([1.0, 2.0, 3.0]), scale=1, shape=(20, 50))
    assert (image[:10, :10] == 1).all()
    assert (image[:10, 10:20] == 2).all()
    assert (image[7:17, 33:43] == 3).all()
    assert np.isfinite(image).sum() == 300


def test_where_patches_overlap_the_stronger_one_is_seen() -> None:
    corners = np.array([[0.0, 0.0], [5.0, 0.0]])
    for values in ([1.0, -2.0], [-2.0, 1.0]):
        image = patch_image(corners, 10, np.array(values), scale=1, shape=(10, 15))
        assert (image[:, 5:10] == -2).all()


def test_patches_smaller_than_a_pixel_are_seen_all_the_same() -> None:
    corners = lattice(5, 5, 100)
    image = patch_image(corners, 3, np.arange(1.0, 26.0), scale=20, shape=(25, 25))
    assert set(image[np.isfinite(image)]) == set(range(1, 26))
    assert image[0, 0] == 1
    assert image[20, 20] == 25


def test_patches_beyond_the_canvas_are_cut_off_not_wrapped() -> None:
    image = patch_image(np.array([[-15.0, -15.0], [-5.0, 3.0]]), 10, np.array([1.0, 2.0]), scale=1, shape=(20, 20))
    assert (image[3:13, :5] == 2).all()
    assert np.isfinite(image).sum() == 50


def test_blending_leaves_what_is_not_tissue_untouched() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (6, 6, 3)).astype(np.uint8)
    colours = np.zeros((6, 6, 4))
    colours[2, 3] = (1, 0, 0, 1)
    mixed = blend(picture, colours, 0.5)
    assert (np.flatnonzero((mixed != picture).any(axis=2)) == [2 * 6 + 3]).all()
    assert (blend(picture, colours, 1.0)[2, 3] == (255, 0, 0)).all()


def test_a_stain_is_not_mistaken_for_a_colour_of_the_map() -> None:
    """Pixels equally bright look alike below the map, whatever their stain."""
    picture = np.array([[[200, 87, 100], [120, 120, 120]]], np.uint8)
    brightness = picture @ np.array([0.299, 0.587, 0.114])
    assert brightness[0, 0] == pytest.approx(brightness[0, 1], abs=3)
    mixed = blend(picture, np.full((1, 2, 4), (0.0, 0.5, 1.0, 1.0)), 0.6).astype(int)
    assert np.abs(mixed[0, 0] - mixed[0, 1]).max() <= 2


def test_an_unstated_edge_is_the_distance_between_neighbours() -> None:
    corners = lattice(6, 4, 224)
    assert squares_of(bag_at(corners, None)).edge == 224
    assert spacing(np.concatenate([corners, corners])) == 224  # places that are there twice
    assert spacing(corners[:1]) == 1


def test_microns_without_a_resolution_are_refused() -> None:
    bag = bag_at(lattice(2, 2, 256.0), 256.0, unit="um")
    with pytest.raises(FeatureError, match=r"in microns.*--slide-mpp"):
        level0_squares(bag)
    assert level0_squares(bag, 0.5).edge == 512
    assert (level0_squares(dataclasses.replace(bag, mpp=0.25)).corners == bag.coords.numpy() * 4).all()


def test_another_slide_is_refused_by_its_size(drawn, tmp_path: Path) -> None:
    path, corners, _ = drawn
    with open_slide(path) as slide:
        assert (check_slide(bag_at(corners), slide).corners == corners).all()
        with pytest.raises(SlideError, match=r"1536 x 1024 pixels, but 2 of the 262 patches of s lie outside"):
            check_slide(bag_at(np.concatenate([corners, [[1536, 0], [0, 2000]]])), slide)
        write_bag(bag_at(corners), tmp_path / "s.h5")
        check_slide(bag_at(corners), slide, tmp_path / "s.h5")  # a file that states no size
        with h5py.File(tmp_path / "s.h5", "a") as file:
            unseal(file)
            file["coords"].attrs.update(level0_width=2000, level0_height=1024)
        with pytest.raises(SlideError, match="of s were cut from a slide of 2000 x 1024"):
            check_slide(bag_at(corners), slide, tmp_path / "s.h5")
