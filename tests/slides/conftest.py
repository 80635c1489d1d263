"""Small slides: one whose pixels say where they are, painted ones, the real ones where they are at hand; an encoder."""

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from jigsawmil.slides.encoders import Encoder, load_encoder
from jigsawmil.slides.painter import Painting, Plan, paint, write_slide

REAL = Path(__file__).parents[2] / "../shared/data/slides"
NAMES = ("tumour", "stroma", "lymphocytes", "fat", "necrosis")


@pytest.fixture(scope="session")
def real_slide() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        if not (REAL / name).exists():
            pytest.skip(f"{name} is not beside the project, in ../shared/data/slides")
        return REAL / name

    return find


def smooth_picture(width: int, height: int) -> NDArray[np.uint8]:
    """Slow waves, so that a read that is shifted or scaled shows another colour."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 37) + np.cos(y / 61), np.sin((x + y) / 83), np.cos(x / 53 - y / 29)]
    return np.stack([np.rint(127.5 + 60 * wave) for wave in waves], axis=-1).astype(np.uint8)


@pytest.fixture(scope="session")
def picture() -> NDArray[np.uint8]:
    return smooth_picture(1300, 900)


@pytest.fixture
def tiff(tmp_path: Path) -> Callable[..., Path]:
    def write(
        pixels: NDArray[np.uint8], *, levels: tuple[int, ...] = (), name: str = "slide.tif", **how: object
    ) -> Path:
        path = tmp_path / name
        with tifffile.TiffWriter(path) as file:
            for factor in (1, *levels):
                part = pixels if factor == 1 else np.asarray(Image.fromarray(pixels).reduce(factor))
                tile = {"tile": (256, 256), "subfiletype": int(factor > 1), **how}
                file.write(part, photometric="rgb", metadata=None, **tile)
        return path

    return write


@pytest.fixture(scope="session")
def plan() -> Plan:
    """An ellipse of cells: tumour on the left, stroma in the middle, the rest on the right."""
    columns, rows = 7, 6
    y, x = np.mgrid[0:rows, 0:columns]
    inside = np.hypot((2 * x + 1) / columns - 1, (2 * y + 1) / rows - 1) < 1.05
    cells = np.stack([x[inside], y[inside]], axis=1)
    types = np.where(cells[:, 0] < columns / 3, 0, np.where(cells[:, 0] < columns / 2, 1, 2 + cells[:, 1] % 3))
    return Plan(cells, types, NAMES)


@pytest.fixture(scope="session")
def painting(plan: Plan) -> Painting:
    return paint(plan, np.random.default_rng(0))


@pytest.fixture(scope="session")
def painted(painting: Painting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("painted") / "painted.tif"
    write_slide(painting.image, path)
    return path


# Extraction


class MeanColour(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean(dim=[2, 3]), x.std(dim=[2, 3])], dim=1)


@pytest.fixture(scope="session")
def digests() -> Callable[[Path, str], dict[str, str]]:
    def find(folder: Path, pattern: str) -> dict[str, str]:
        return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob(pattern)}

    return find


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TorchScript encoder: mean and spread of each colour."""
    path = tmp_path_factory.mktemp("encoder") / "colour.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and what people have
        torch.jit.script(MeanColour()).save(str(path))
    path.with_name("colour.pt.json").write_text(json.dumps({"size": 32}))
    return path


@pytest.fixture(scope="session")
def encoder(script: Path) -> Encoder:
    return load_encoder(str(script))


@pytest.fixture(scope="session")
def slides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three slides of six cells. Not to be changed."""
    folder = tmp_path_factory.mktemp("slides")
    cells = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]])
    for seed, name in enumerate(("0001", "0002", "0003")):
        plan = Plan(cells, np.array([0, 1, 2, 0, 1, 2]), ("tumour", "stroma", "lymphocytes"))
        write_slide(paint(plan, np.random.default_rng(seed)).image, folder / f"{name}.tif")
    return {name: folder / f"{name}.tif" for name in ("0001", "0002", "0003")}
