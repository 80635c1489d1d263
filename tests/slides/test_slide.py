import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides import plain
from jigsawmil.slides import slide as module
from jigsawmil.slides.find import find_slides
from jigsawmil.slides.slide import Slide, best_level, open_slide, write_picture

Pixels = NDArray[np.uint8]
Tiff = Callable[..., Path]
Real = Callable[[str], Path]


def far(a: Pixels, b: Pixels) -> float:
    return float(np.abs(a.astype(int) - b).max())


def test_level_zero_comes_back_untouched(picture: Pixels, tiff: Tiff) -> None:
    with open_slide(tiff(picture, levels=(4,))) as slide:
        assert slide.size == (1300, 900)
        assert np.array_equal(slide.read(133, 71, 300, 300), picture[71:371, 133:433])


@pytest.mark.parametrize("levels", [(), (4,), (2, 4)])
@pytest.mark.parametrize(("size", "out"), [(512, 256), (600, 130), (321.7, 97), (768, 64), (128, 200)])
def test_any_scale_from_any_pyramid_shows_the_same_place(
    picture: Pixels, tiff: Tiff, levels: tuple[int, ...], size: float, out: int
) -> None:
    x, y = 127, 83  # between the pixels of every coarser level
    with open_slide(tiff(picture, levels=levels)) as slide:
        found = slide.read(x, y, size, out)
    there = Image.fromarray(picture).resize((out, out), Image.Resampling.BICUBIC, (x, y, x + size, y + size))
    assert far(found, np.asarray(there)) < 6  # the waves change by up to 3 a level-0 pixel


def test_a_thumbnail_has_one_exact_scale_and_is_never_enlarged(picture: Pixels, tiff: Tiff) -> None:
    with open_slide(tiff(picture, levels=(4,)), mpp=0.5) as slide:
        small, scale = slide.thumbnail(200)
        assert small.shape == (139, 200, 3)
        assert scale == 6.5
        centre = ((np.arange(130) + 0.5) * scale).astype(int)  # the last row lies half beyond the slide
        assert far(small[:130, :130], picture[centre][:, centre]) < 14
        assert np.array_equal(slide.thumbnail(5000).image, picture)
        assert slide.thumbnail_at(4.0).image.shape == (113, 163, 3)


def test_a_picture_read_block_by_block_is_the_same(
    picture: Pixels, tiff: Tiff, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_slide(tiff(picture)) as slide:
        whole = slide.thumbnail(150).image
        monkeypatch.setattr(module, "BLOCK", 100**2)
        assert np.array_equal(slide.thumbnail(150).image, whole)


def test_beyond_the_slide_and_behind_transparent_pixels_is_white(picture: Pixels, tiff: Tiff, tmp_path: Path) -> None:
    with open_slide(tiff(picture)) as slide:
        corner = slide.read(1200, 800, 200, 200)
        assert np.array_equal(corner[:100, :100], picture[800:, 1200:])
        assert (corner[100:] == 255).all()
        assert (corner[:, 100:] == 255).all()
    clear = np.zeros((60, 80, 4), np.uint8)
    clear[:, :40] = (200, 10, 10, 255)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    with open_slide(tmp_path / "clear.png") as slide:
        found = slide.thumbnail(80).image
    assert (found[:, :40] == (200, 10, 10)).all()
    assert (found[:, 40:] == 255).all()


def test_tiles_of_a_viewer_join_without_a_seam(picture: Pixels, tiff: Tiff) -> None:
    with open_slide(tiff(picture, levels=(2,))) as slide:
        rows = [np.hstack([slide.tile(2.0, column, row, 100) for column in range(6)]) for row in range(4)]
        assert np.array_equal(np.vstack(rows), np.asarray(Image.fromarray(picture).reduce(2))[:400, :600])


@pytest.mark.parametrize("name", ["plain.png", "plain.jpg", "striped.tif"])
def test_plain_images_are_slides_too(picture: Pixels, tmp_path: Path, name: str) -> None:
    Image.fromarray(picture).save(tmp_path / name, quality=98)
    with open_slide(tmp_path / name, mpp=0.5) as slide:
        assert slide.size == (1300, 900)
        assert far(slide.read(200, 100, 256, 256), picture[100:356, 200:456]) < 10
        assert slide.needed_mpp == 0.5


def test_levels_are_the_coarsest_that_is_fine_enough() -> None:
    steps = (1.0, 4.0002, 16.001)
    assert [best_level(steps, target) for target in (0.5, 1, 3.9, 4, 15, 16, 100)] == [0, 0, 0, 1, 1, 2, 2]


# Microns a pixel


@pytest.mark.parametrize(
    ("resolution", "unit", "mpp"),
    [(20_000, "CENTIMETER", 0.5), (101_600, "INCH", 0.25), (72, "INCH", None), (1, "CENTIMETER", None)],
)
@pytest.mark.parametrize("tile", [(256, 256), None])
def test_resolution_of_tiffs(
    picture: Pixels, tiff: Tiff, resolution: float, unit: str, mpp: float | None, tile: tuple[int, int] | None
) -> None:
    path = tiff(picture[:300, :300], tile=tile, resolution=(resolution, resolution), resolutionunit=unit)
    with open_slide(path) as slide:
        assert slide.mpp == pytest.approx(mpp) if mpp else slide.mpp is None


def test_a_stated_resolution_fills_in_and_never_contradicts(picture: Pixels, tiff: Tiff) -> None:
    silent, telling = tiff(picture, name="a.tif"), tiff(picture, name="b.tif", resolution=(2e4, 2e4), resolutionunit=3)
    with open_slide(silent, mpp=0.25) as one, open_slide(telling, mpp=0.499) as two:
        assert (one.mpp, two.mpp) == (0.25, 0.5)
    with pytest.raises(SlideError, match=r"states 0.5 microns per pixel, --slide-mpp \(mpp=\) says 0.25"):
        open_slide(telling, mpp=0.25)
    with pytest.raises(ConfigError, match="mpp=-1"):
        open_slide(silent, mpp=-1)


def test_without_a_resolution_only_pixels_can_be_asked_for(real_slide: Real) -> None:
    with open_slide(real_slide("tcga-cr-7395.svs")) as slide:
        assert slide.mpp is None
        assert slide.read(1000, 1000, 200, 100).std() > 10
        with pytest.raises(SlideError, match="--slide-mpp"):
            slide.thumbnail_at(8.0)


def test_a_real_slide_at_two_scales_is_the_same_picture(real_slide: Real) -> None:
    with open_slide(real_slide("cmu-small-region.svs")) as slide:
        assert slide.mpp == 0.499
        fine, coarse = slide.read(700, 1200, 512, 512), slide.read(700, 1200, 512, 128)
    assert far(np.asarray(Image.fromarray(fine).resize((128, 128), Image.Resampling.BICUBIC)), coarse) < 40
    assert abs(fine.mean() - coarse.mean()) < 0.5


def test_bounds_are_the_scanned_part(picture: Pixels, tiff: Tiff) -> None:
    with open_slide(tiff(picture)) as slide:
        assert slide.bounds == (0, 0, 1300, 900)
        stated = {"x": 5, "y": 7, "width": 80, "height": 90}
        bounds = {f"openslide.bounds-{side}": str(at) for side, at in stated.items()}
        assert Slide(slide.path, slide._handle, bounds, None).bounds == (5, 7, 80, 90)


# Threads and processes


def test_threads_share_a_slide_and_a_pickle_opens_its_own(picture: Pixels, tiff: Tiff) -> None:
    places = [(x, y) for x in range(0, 1000, 90) for y in range(0, 600, 90)]
    with open_slide(tiff(picture, levels=(4,)), mpp=0.5) as slide:
        alone = [slide.read(x, y, 300, 100) for x, y in places]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda at: slide.read(*at, 300, 100), places))
        copy = pickle.loads(pickle.dumps(slide))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    assert copy.mpp == 0.5
    assert np.array_equal(copy.read(*places[3], 300, 100), alone[3])  # the first is closed by now
    copy.close()


# Files that are no slides


def test_unreadable_files_say_so(picture: Pixels, tiff: Tiff, tmp_path: Path) -> None:
    (tmp_path / "text.svs").write_text("not a slide")
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "alone.mrxs").write_bytes(b"\xff\xd8\xff")
    for name, words in [
        ("missing.svs", "does not exist"),
        (".", "is a folder"),
        ("text.svs", "no slide format that OpenSlide knows"),
        ("text.png", "neither a slide nor an image"),
        ("alone.mrxs", "its folder alone/ is not beside it"),
    ]:
        with pytest.raises(SlideError, match=words):
            open_slide(tmp_path / name)


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.98])
def test_a_file_that_was_cut_short_is_refused_or_fails_in_words(picture: Pixels, tiff: Tiff, kept: float) -> None:
    whole = tiff(picture, compression="deflate")
    cut = whole.with_name("cut.svs")
    cut.write_bytes(whole.read_bytes()[: int(kept * whole.stat().st_size)])
    with pytest.raises(SlideError, match=r"cut\.svs"), open_slide(cut) as slide:
        slide.thumbnail(100)


def test_damaged_pixels_are_named(picture: Pixels, tiff: Tiff) -> None:
    path = tiff(picture, compression="deflate")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20_000] = bytes(20_000)
    path.write_bytes(data)
    with open_slide(path) as slide, pytest.raises(SlideError, match="cannot be read"):
        slide.thumbnail(100)


def test_a_missing_package_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openslide", None)
    with pytest.raises(SlideError, match=r"pip install 'jigsawmil\[slides\]'"):
        open_slide(tmp_path / "any.svs")


def test_slides_are_found_in_folders_and_never_two_of_a_name(tmp_path: Path) -> None:
    for name in ("b.svs", "a.TIF", "notes.txt", ".c.png"):
        (tmp_path / name).touch()
    assert [file.name for file in find_slides([tmp_path]).files] == ["a.TIF", "b.svs"]
    assert find_slides([tmp_path / "b.svs", tmp_path / "b.svs"]).files == [tmp_path / "b.svs"]
    for name in ("b.jpg", "label.png", "1.dcm"):  # beside slides: labels and thumbnails; a part of a slide
        (tmp_path / name).touch()
    found = find_slides([tmp_path])
    assert [file.name for file in found.files] == ["a.TIF", "b.svs"]
    assert [file.name for file in found.left_out] == ["1.dcm", "b.jpg", "label.png"]
    assert find_slides([tmp_path / "b.jpg"]).files == [tmp_path / "b.jpg"]  # who names it means it
    (tmp_path / "a.svs").touch()
    with pytest.raises(SlideError, match="same name"):
        find_slides([tmp_path])
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "c.png").touch()
    assert [file.name for file in find_slides([tmp_path / "pictures"]).files] == ["c.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SlideError, match="no slides in this folder"):
        find_slides([tmp_path / "empty"])


def test_pixels_of_16_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((300, 300), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(SlideError, match="more than 8 bits"):
        open_slide(tmp_path / "deep.png")


def test_pictures_are_written_as_they_are(picture: Pixels, tmp_path: Path) -> None:
    write_picture(picture, tmp_path / "p.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "p.png")), picture)


def test_a_plain_picture_may_be_large_but_not_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (1200, 1000), "white").save(tmp_path / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow would warn, then refuse
    with open_slide(tmp_path / "large.png", 0.5) as opened:
        assert opened.size == (1200, 1000)
    assert Image.MAX_IMAGE_PIXELS == 1000
    monkeypatch.setattr(plain, "LARGEST", 1_000_000)
    with pytest.raises(SlideError, match="1,200 x 1,000 pixels, too many for a plain image"):
        open_slide(tmp_path / "large.png", 0.5)


def test_what_is_not_there_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match=r"nowhere\.svs: no such file or folder; expected slides"):
        find_slides([tmp_path / "nowhere.svs"])
