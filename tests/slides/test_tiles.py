from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides.slide import Bounds, open_slide
from jigsawmil.slides.tiles import CONTOUR, coverage, level0_edge, make_tiles, preview
from jigsawmil.slides.tissue import Tissue, find_tissue
from jigsawmil.synthetic.painter import CELL, COARSE, Painting


@pytest.mark.parametrize(
    ("level0_mpp", "edge"),
    [(0.25, 512), (0.2527, 512), (0.2498, 512), (0.5, 256), (0.499, 256), (0.22, 582), (0.325, 394), (0.1, 1280)],
)
def test_the_edge_of_a_tile_on_slides_of_any_resolution(level0_mpp: float, edge: int) -> None:
    assert level0_edge(256, 0.5, level0_mpp) == edge


def test_coverage_is_the_share_of_area() -> None:
    rng = np.random.default_rng(0)
    tissue = Tissue(rng.random((21, 30)) < 0.5, 8.0)
    pixels = np.pad(np.kron(tissue.mask, np.ones((8, 8))), ((0, 100), (0, 100)))  # at level 0; nothing beyond
    x, y = rng.integers(0, 240, 50), rng.integers(0, 160, 50)
    slow = [pixels[b : b + 37, a : a + 37].mean() for a, b in zip(x, y, strict=True)]
    assert coverage(tissue, x, y, 37) == pytest.approx(slow)


def test_tiles_lie_on_one_lattice_and_exactly_where_there_is_tissue(painted: Path, painting: Painting) -> None:
    cells = painting.tissue.reshape(painting.tissue.shape[0] // 32, CELL // COARSE, -1, CELL // COARSE).mean(
        axis=(1, 3)
    )
    with open_slide(painted) as slide:
        tiles = make_tiles(slide, Tissue(painting.tissue, COARSE))
        rows, columns = np.nonzero(cells >= 0.25)
        assert np.array_equal(tiles.coords, CELL * np.stack([columns, rows], axis=1))
        assert tiles.coords.dtype == np.int64
        x, y = tiles.coords[3]
        assert np.array_equal(tiles.read(slide, 3), painting.image[y : y + 256, x : x + 256])
        strict = make_tiles(slide, Tissue(painting.tissue, COARSE), TileSpec(share=0.9))
    assert {tuple(at) for at in strict.coords} < {tuple(at) for at in tiles.coords}


def test_tiling_twice_gives_the_same_bytes(painted: Path) -> None:
    both = []
    for _ in range(2):
        with open_slide(painted) as slide:
            both.append(make_tiles(slide, find_tissue(slide)))
    assert both[0].coords.tobytes() == both[1].coords.tobytes()
    assert len(both[0]) > 20


def test_overlap_shortens_the_step_and_not_the_tile(painted: Path, painting: Painting) -> None:
    with open_slide(painted) as slide:
        tiles = make_tiles(slide, Tissue(painting.tissue, COARSE), TileSpec(patch=224, mpp=1.0, overlap=56))
    assert tiles.patch_size_level0 == 448
    assert not (tiles.coords % 336).any()
    assert len({tuple(at) for at in tiles.coords}) == len(tiles) > 9


def test_the_last_tiles_reach_the_edge_of_the_slide(tiff: Callable[..., Path], picture: NDArray[np.uint8]) -> None:
    everything = Tissue(np.ones((900, 1300), bool), 1.0)
    with open_slide(tiff(picture), mpp=0.5) as slide:
        tiles = make_tiles(slide, everything)
        assert sorted(set(tiles.coords[:, 0])) == [
            0,
            256,
            512,
            768,
            1024,
        ]  # the next would show 20 pixels: below a quarter
        assert sorted(set(tiles.coords[:, 1])) == [0, 256, 512, 768]  # shows 132 pixels
        assert (tiles.read(slide, len(tiles) - 1)[140:] == 255).all()
        assert make_tiles(slide, everything, TileSpec(share=0.05)).coords.max() == 1280


def test_the_lattice_begins_where_the_scan_begins(tiff: Callable[..., Path], picture: NDArray[np.uint8]) -> None:
    with open_slide(tiff(picture), mpp=0.5) as slide:
        slide.bounds = Bounds(300, 200, 700, 600)
        tiles = make_tiles(slide, Tissue(np.ones((900, 1300), bool), 1.0))
    assert tiles.coords.min(axis=0).tolist() == [300, 200]
    assert not ((tiles.coords - (300, 200)) % 256).any()


def test_no_tissue_gives_no_tiles(painted: Path) -> None:
    with open_slide(painted) as slide:
        tiles = make_tiles(slide, Tissue(np.zeros((100, 100), bool), 16.0))
    assert tiles.coords.shape == (0, 2)


def test_impossible_tiles_are_refused(painted: Path, tiff: Callable[..., Path], picture: NDArray[np.uint8]) -> None:
    for wrong in ({"patch": 0}, {"overlap": 256}, {"overlap": -1}, {"share": 0}, {"mpp": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            TileSpec(**wrong)
    tissue = Tissue(np.ones((60, 80), bool), 16.0)
    with open_slide(painted) as slide, pytest.raises(SlideError, match="finer than the scan"):
        make_tiles(slide, tissue, TileSpec(mpp=0.25))
    with open_slide(tiff(picture)) as slide, pytest.raises(SlideError, match="--slide-mpp"):
        make_tiles(slide, tissue)


def test_the_preview_draws_the_outline_where_the_tissue_ends(painted: Path, painting: Painting) -> None:
    with open_slide(painted) as slide:
        tissue = Tissue(painting.tissue, COARSE)
        picture = preview(slide, tissue, make_tiles(slide, tissue), max_side=painting.tissue.shape[1])
    drawn = (picture == CONTOUR).all(axis=-1)
    padded = np.pad(painting.tissue, 2)
    around = [padded[2 + dy :, 2 + dx :][: drawn.shape[0], : drawn.shape[1]] for dx in (-2, 0, 2) for dy in (-2, 0, 2)]
    edge = np.any(around, axis=0) & ~np.all(around, axis=0)
    assert drawn.sum() > 300
    assert (drawn & ~edge).sum() < 0.02 * drawn.sum()
