"""The folder of slides: found by id, never left, and cut into tiles that lie where they should."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jigsawmil.errors import SlideError
from jigsawmil.viewer import slides
from jigsawmil.viewer.slides import EDGE, SlideFolder, inside, levels


def picture(path: Path, width: int = 1300, height: int = 700) -> np.ndarray:
    """Slow gradients, which JPEG keeps."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 255 // width, y * 255 // height, np.full_like(x, 128)], axis=2).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def test_slides_are_found_by_their_ids_below_the_folder(tmp_path: Path) -> None:
    picture(tmp_path / "a" / "one.svs.png", 40, 40)
    picture(tmp_path / "b" / "007.tif", 40, 40)
    (tmp_path / "b" / "notes.txt").write_text("no slide")
    folder = SlideFolder(tmp_path)
    assert len(folder) == 2
    assert folder.path("007") == (tmp_path / "b" / "007.tif").resolve()
    assert "7" not in folder
    with pytest.raises(SlideError, match="none of the 2 slides"):
        folder.path("008")


def test_a_folder_without_slides_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="no such folder"):
        SlideFolder(tmp_path / "absent")
    with pytest.raises(SlideError, match="no slides in it"):
        SlideFolder(tmp_path)


def test_two_files_of_one_slide_are_not_chosen_between(tmp_path: Path) -> None:
    for place in ("a", "b"):
        picture(tmp_path / place / "x.png", 40, 40)
    with pytest.raises(SlideError, match=r"2 files .* a/x.png, b/x.png"):
        SlideFolder(tmp_path).path("x")


@pytest.mark.parametrize("wanted", ["../secret", "/etc/passwd", "..%2fsecret", "a/../../secret", "secret.png", ""])
def test_an_id_is_never_a_path(tmp_path: Path, wanted: str) -> None:
    picture(tmp_path / "secret.png", 40, 40)
    picture(tmp_path / "given" / "x.png", 40, 40)
    with pytest.raises(SlideError, match="has this name"):
        SlideFolder(tmp_path / "given").get(wanted)


def test_a_link_out_of_the_folder_is_refused_and_one_within_is_not(tmp_path: Path) -> None:
    picture(tmp_path / "secret.png", 40, 40)
    picture(tmp_path / "elsewhere" / "deep.png", 40, 40)
    picture(tmp_path / "given" / "real" / "x.png", 40, 40)
    (tmp_path / "given" / "out.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "given" / "y.png").symlink_to(tmp_path / "given" / "real" / "x.png")
    (tmp_path / "given" / "away").symlink_to(tmp_path / "elsewhere")
    folder = SlideFolder(tmp_path / "given")
    with pytest.raises(SlideError, match=r"out.png links out of .*given"):
        folder.get("out")
    assert folder.get("y").size == (40, 40)
    assert "deep" not in folder


def test_a_folder_that_is_itself_a_link_is_what_was_given(tmp_path: Path) -> None:
    picture(tmp_path / "real" / "x.png", 40, 40)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert SlideFolder(tmp_path / "link").get("x").size == (40, 40)


def test_a_slide_put_in_place_of_another_while_serving_may_not_lead_out(tmp_path: Path) -> None:
    picture(tmp_path / "secret.png", 40, 40)
    picture(tmp_path / "given" / "x.png", 40, 40)
    folder = SlideFolder(tmp_path / "given")
    (tmp_path / "given" / "x.png").unlink()
    (tmp_path / "given" / "x.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(SlideError, match="links out"):
        folder.get("x")


def test_tiles_show_their_part_of_the_slide(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "x.png").astype(float)
    folder = SlideFolder(tmp_path)
    slide = folder.get("x")
    assert levels(slide) == 3  # 1300, 650, 325 pixels
    for level, column, row in [(0, 0, 0), (0, 2, 1), (1, 1, 0), (2, 0, 0)]:
        step = 2**level
        tile = np.asarray(Image.open(io.BytesIO(folder.tile("x", level, column, row))), dtype=float)
        assert tile.shape == (EDGE, EDGE, 3)
        left, top = column * EDGE * step, row * EDGE * step
        shown = pixels[top : top + EDGE * step : step, left : left + EDGE * step : step]
        height, width = shown.shape[:2]
        inner = tile[: height - 8, : width - 8]  # JPEG blurs the edge to the white beyond
        assert np.abs(inner - shown[: height - 8, : width - 8]).mean() < 3


def test_only_tiles_of_the_slide_are_inside(tmp_path: Path) -> None:
    picture(tmp_path / "x.png")
    slide = SlideFolder(tmp_path).get("x")
    assert inside(slide, 0, 2, 1)
    assert inside(slide, 2, 0, 0)
    for level, column, row in [(0, 3, 0), (0, 0, 2), (1, 2, 0), (3, 0, 0), (99, 0, 0)]:
        assert not inside(slide, level, column, row)


def test_a_slide_of_one_tile_has_one_level(tmp_path: Path) -> None:
    picture(tmp_path / "x.png", EDGE, 20)
    slide = SlideFolder(tmp_path).get("x")
    assert levels(slide) == 1
    assert inside(slide, 0, 0, 0)
    assert not inside(slide, 0, 1, 0)


def test_only_so_many_slides_stay_open(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(slides, "OPEN", 2)
    picture(tmp_path / "a.png", 40, 40)
    for name in "bc":
        shutil.copy(tmp_path / "a.png", tmp_path / f"{name}.png")
    folder = SlideFolder(tmp_path)
    first = folder.get("a")
    assert folder.get("a") is first
    folder.get("b")
    folder.get("c")
    assert folder.get("a") is not first
    assert first.read(0, 0, 40, 40).shape == (40, 40, 3)  # who still has it may still read
