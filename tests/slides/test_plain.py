"""Plain images as slides: colours, orientation, size, resolution, and the way from pixels to features."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

from jigsawmil.bags.formats import peek_bag, read_bag
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.cli import app
from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides.encoders import Encoder
from jigsawmil.slides.extract_many import extract_slides
from jigsawmil.slides.extract_one import ExtractSettings, extract_slide, made_from
from jigsawmil.slides.scale import fit_tiles
from jigsawmil.slides.slide import open_slide, resolution_of
from jigsawmil.synthetic.painter import Painting
from jigsawmil.train.checkpoint import load_model

Pixels = NDArray[np.uint8]
UCSB = Path(__file__).parents[2] / "../shared/data/ucsb/images"


def shown(path: Path) -> Pixels:
    with open_slide(path) as slide:
        return slide.thumbnail(10_000).image


@pytest.fixture
def core(painting: Painting, tmp_path: Path) -> Path:
    """A region of a painted slide as a PNG without a resolution."""
    path = tmp_path / "images" / "core.png"
    path.parent.mkdir()
    Image.fromarray(painting.image[300:1068, 300:1196]).save(path)
    return path


# Colours and orientation


def test_palette_grey_and_transparent_images_show_their_colours(tmp_path: Path) -> None:
    colours = np.zeros((40, 60, 3), np.uint8)
    colours[:, :30], colours[:, 30:] = (200, 40, 90), (20, 120, 220)
    whole = Image.fromarray(colours)
    whole.quantize(4, dither=Image.Dither.NONE).save(tmp_path / "palette.png")
    assert np.array_equal(shown(tmp_path / "palette.png"), colours)
    whole.convert("L").save(tmp_path / "grey.png")
    assert (np.ptp(shown(tmp_path / "grey.png"), axis=2) == 0).all()
    whole.quantize(4, dither=Image.Dither.NONE).save(tmp_path / "clear.png", transparency=0)
    assert (shown(tmp_path / "clear.png").reshape(-1, 3) == 255).all(axis=1).mean() == 0.5


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.tif"])
def test_images_are_upright_as_their_orientation_says(
    picture: Pixels, tmp_path: Path, name: str, orientation: int
) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(picture[:120, :200]).save(tmp_path / name, exif=exif, quality=98)
    turned = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud, 5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, -1), 7: lambda a: np.rot90(a, 2).transpose(1, 0, 2), 8: np.rot90,
    }[orientation](picture[:120, :200])  # fmt: skip
    found = shown(tmp_path / name)
    assert found.shape == turned.shape
    assert np.abs(found.astype(int) - turned).max() < 12


def test_colours_that_cannot_be_shown_rightly_are_refused(picture: Pixels, tmp_path: Path) -> None:
    deep = picture[:50, :50].astype(np.uint16) * 257
    write_png16(tmp_path / "deep.png", deep)
    tifffile.imwrite(tmp_path / "deep.tif", deep[..., 0])
    tifffile.imwrite(tmp_path / "stack.tif", np.stack([picture[:50, :50, 0]] * 3), photometric="minisblack")
    Image.fromarray(picture[:50, :50]).convert("CMYK").save(tmp_path / "print.jpg")
    for name, words in [
        ("deep.png", "more than 8 bits per channel"),
        ("deep.tif", "more than 8 bits per channel"),
        ("stack.tif", "3 pages of the same size"),
        ("print.jpg", "mode CMYK.*Convert it to RGB"),
    ]:
        with pytest.raises(SlideError, match=words):
            open_slide(tmp_path / name)


def write_png16(path: Path, pixels: NDArray[np.uint16]) -> None:
    """RGB of 16 bits, which Pillow reads and does not write."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    path.write_bytes(png(width, height, bits=16, data=zlib.compress(rows)))


def png(width: int, height: int, *, bits: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_a_decompression_bomb_is_refused_by_its_declared_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bomb.png").write_bytes(png(60_000, 60_000, bits=8, data=zlib.compress(bytes(1000))))

    def decode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "load", decode)
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", decode)
    with pytest.raises(
        SlideError, match=r"60,000 x 60,000 pixels, too many for a plain image.*vips tiffsave bomb\.png"
    ):
        open_slide(tmp_path / "bomb.png")


# Resolution


@pytest.mark.parametrize(
    ("name", "how", "mpp", "where"),
    [
        ("a.png", {"dpi": (101_600, 101_600)}, 0.25, "PNG pHYs"),
        ("a.png", {"dpi": (300, 300)}, None, ""),
        ("a.png", {"dpi": (2400, 2400)}, None, ""),  # a flatbed scanner's
        ("a.png", {}, None, ""),
        ("a.jpg", {"dpi": (50_800, 50_800)}, 0.5, "JPEG density"),
        ("a.jpg", {"dpi": (72, 72)}, None, ""),
        ("a.tif", {"dpi": (50_800, 50_800)}, 0.5, "TIFF tags"),
    ],
)
def test_only_the_resolution_of_a_microscope_is_taken(
    picture: Pixels, tmp_path: Path, name: str, how: dict, mpp: float | None, where: str
) -> None:
    Image.fromarray(picture[:80, :80]).save(tmp_path / name, **how)
    found = resolution_of(tmp_path / name)
    assert found.plain
    assert found.mpp == (pytest.approx(mpp, rel=1e-3) if mpp else None)
    if mpp:
        assert found.where == where
    with open_slide(tmp_path / name) as slide:
        assert slide.mpp == found.mpp


def test_imagej_states_microns_in_its_description(picture: Pixels, tmp_path: Path) -> None:
    path = tmp_path / "ij.tif"
    tifffile.imwrite(path, picture[:80, :80], imagej=True, resolution=(4, 4), metadata={"unit": "um"})
    assert resolution_of(path)[1:] == (0.25, "ImageJ's description")


def test_scans_are_not_plain_and_stay_refused_without_a_resolution(
    picture: Pixels, tiff: Callable[..., Path], tmp_path: Path
) -> None:
    pyramid = tiff(picture, levels=(4,))
    assert not resolution_of(pyramid).plain
    assert resolution_of(tiff(picture, name="flat.tif")).plain
    assert fit_tiles([pyramid], TileSpec())[0] == TileSpec()


def test_one_scale_for_all_images(core: Path) -> None:
    tiles, notes = fit_tiles([core], TileSpec(patch=64))
    assert tiles == TileSpec(patch=64, mpp=None)
    assert notes == [
        "Note: no resolution in 1 image: tiles are 64 pixels of the image, of unknown size in microns. Images of "
        "several resolutions must not be mixed. State the microns per pixel with --slide-mpp if they are known."
    ]
    with pytest.raises(ConfigError, match=r"--mpp 0.5: no resolution in 1 image, such as core.png.*--slide-mpp"):
        fit_tiles([core], TileSpec(), asked=True)
    assert fit_tiles([core], TileSpec(), slide_mpp=0.5) == (TileSpec(), [])
    other = core.with_name("other.png")
    Image.open(core).save(other, dpi=(50_800, 50_800))
    tiles, notes = fit_tiles([core, other], TileSpec())
    assert tiles == TileSpec()
    assert notes == [
        "Note: 0.5 microns per pixel taken from PNG pHYs of 1 image.",
        "Note: no resolution in 1 image; give --slide-mpp for these.",
    ]


# From an image to features


def test_tiles_of_an_image_without_a_resolution_are_its_pixels(core: Path, encoder: Encoder, tmp_path: Path) -> None:
    settings = ExtractSettings(tiles=TileSpec(patch=64, mpp=None), workers=1)
    found = extract_slide(core, tmp_path, encoder, settings)
    assert (found.status, found.error) == ("done", None)
    assert np.isnan(found.tissue_mm2)
    file = tmp_path / "pixels_64px_0px_overlap" / "features_colour" / "core.h5"
    bag, info = read_bag(file), peek_bag(file)
    assert 50 < len(bag) <= 14 * 12
    assert (bag.coords % 64 == 0).all()
    assert (bag.patch_size, bag.mpp, info.tiles) == (64, None, settings.tiles)
    mpp = ExtractSettings(tiles=TileSpec(patch=64, mpp=0.5), slide_mpp=0.5, workers=1)
    assert extract_slide(core, tmp_path, encoder, mpp).tissue_mm2 > 0
    again = read_bag(tmp_path / "20x_64px_0px_overlap" / "features_colour" / "core.h5")
    assert again.features.equal(bag.features)  # the same pixels
    refused = extract_slide(core, tmp_path / "none", encoder, ExtractSettings(tiles=TileSpec(patch=64)))
    assert "TileSpec(mpp=None)" in str(refused.error)
    assert made_from(core, encoder, settings)["slide_mpp"] is None


def test_the_command_line_says_which_pixels_it_took(core: Path, script: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    options = ["--out", str(tmp_path / "out"), "--patch", "64"]
    found = run(app, ["extract", str(core.parent), *options, "--encoder", str(script), "--device", "cpu"])
    assert found.exit_code == 0, found.output
    assert "no resolution in 1 image: tiles are 64 pixels of the image" in found.output
    assert (tmp_path / "out" / "pixels_64px_0px_overlap" / "features_colour" / "core.h5").exists()
    found = run(app, ["tissue", str(core.parent), *options[:1], str(tmp_path / "look"), "--patch", "64"])
    assert found.exit_code == 0, found.output
    assert "% of the image is tissue" in found.output
    assert extract_slides(core, tmp_path / "python", str(script))[0].status == "done"
    assert (tmp_path / "python" / "pixels_256px_0px_overlap").is_dir()


def test_real_regions_of_interest_are_slides(encoder: Encoder, tmp_path: Path) -> None:
    if not UCSB.is_dir():
        pytest.skip("the UCSB images are not beside the project, in ../shared/data/ucsb")
    images = sorted(UCSB.glob("*.png"))
    tiles, _ = fit_tiles(images, TileSpec(patch=64))
    assert tiles.mpp is None
    for image in images[::20]:
        found = extract_slide(image, tmp_path, encoder, ExtractSettings(tiles=tiles, workers=1))
        assert found.status == "done"
        assert found.tiles > 84  # half of 14 x 12


def test_a_model_trained_on_images_predicts_an_image(painting: Painting, script: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    lines = ["slide_id,patient_id,label"]
    for i in range(6):
        part = painting.image[40 * i + 300 : 40 * i + 500, 60 * i + 300 : 60 * i + 600]
        Image.fromarray(part).save(tmp_path / "images" / f"core{i}.png")
        lines.append(f"core{i},P{i},{'ab'[i % 2]}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    labels, features, model = (str(tmp_path / name) for name in ("labels.csv", "features", "model"))
    maps = ["--out", str(tmp_path / "p.csv"), "--heatmap", str(tmp_path / "maps")]
    small = ["--method", "abmil", "--epochs", "1"]
    for step in [
        ["extract", str(tmp_path / "images"), "--patch", "32", "--encoder", str(script), "--out", features],
        ["train", "--labels", labels, "--features", features, *small, "--out", model],
        ["predict", model, str(tmp_path / "images" / "core0.png"), "--weights", str(script), *maps],
    ]:
        found = CliRunner().invoke(app, [*step, "--device", "cpu"])
        assert found.exit_code == 0, found.output
    assert "trained on tiles of 32 pixels of the image" in " ".join(found.output.split())
    assert load_model(tmp_path / "model")[1].tiles == TileSpec(patch=32, mpp=None)
    assert (tmp_path / "maps" / "core0.png").stat().st_size > 1000
