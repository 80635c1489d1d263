"""From slides to features: tissue, tiles, encoder, one file a slide in TRIDENT's layout.

    OUT/contours/<slide>.png, contours_geojson/<slide>.geojson            the tissue
    OUT/20x_256px_0px_overlap/visualization/<slide>.png                   the tiles, for a look
    OUT/20x_256px_0px_overlap/features_<encoder>/<slide>.h5               features and coords

Reading runs ahead of encoding in threads: OpenSlide and torch both leave Python free while they work.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from ..config import choose, require
from ..errors import ConfigError, JigsawmilError, SlideError
from ..files import held, replacing
from .encoders import Encoder, encode
from .geojson_mask import read_geojson, write_geojson
from .slide import Slide, open_slide, write_picture
from .tiles import Tiles, make_tiles, preview
from .tissue import Tissue, find_tissue, thumbnail_scale

NO_TISSUE = ".no-tissue"  # in place of .h5: a slide that was looked at and has none
PRECISIONS = ("float32", "bfloat16", "float16")
OBJECTIVE = 10.0  # microns a pixel times magnification: 20x is 0.5


@dataclass(frozen=True, kw_only=True)
class ExtractSettings:
    """patch, overlap: pixels at `mpp` microns. share: of a tile that must be tissue. slide_mpp: microns per level-0
    pixel, where slides do not say. masks: a folder of GeoJSON, one a slide, in place of the tissue found here.
    workers: threads that read. batch: tiles encoded at a time; None: 8 on a CPU, whose caches are small, else 64."""

    patch: int = 256
    mpp: float = 0.5
    overlap: int = 0
    share: float = 0.25
    slide_mpp: float | None = None
    masks: Path | None = None
    workers: int = 2
    batch: int | None = None
    device: str = "cpu"
    precision: str = "float32"

    def __post_init__(self) -> None:
        require("mpp", self.mpp, self.mpp > 0, "microns a pixel, above 0")
        choose("precision", self.precision, PRECISIONS)
        require("workers", self.workers, self.workers >= 1, "at least 1")
        require("batch", self.batch, self.batch is None or self.batch >= 1, "at least 1")

    @property
    def at_once(self) -> int:
        """Tiles encoded at a time."""
        return self.batch or (8 if self.device == "cpu" else 64)

    @property
    def folder(self) -> str:
        return f"{OBJECTIVE / self.mpp:g}x_{self.patch}px_{self.overlap}px_overlap"


@dataclass(frozen=True)
class Extracted:
    """What became of a slide. status: done, already, no tissue, elsewhere (another process has it) or failed."""

    slide: str
    status: str
    tiles: int = 0
    tissue_mm2: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0  # seconds in which the encoder had no tiles to encode
    error: str | None = None


OnTiles = Callable[[int, int], None]  # tiles done, tiles of the slide


def features_folder(out: Path, encoder: str, settings: ExtractSettings) -> Path:
    return out / settings.folder / f"features_{encoder}"


def extract_slide(
    path: Path,
    out: Path,
    encoder: Encoder,
    settings: ExtractSettings,
    on_tiles: OnTiles = lambda done, total: None,
) -> Extracted:
    """Features of one slide, whole or not at all. What fails is returned, not raised: other slides go on."""
    folder = features_folder(out, encoder.spec.name, settings)
    target = folder / f"{path.stem}.h5"
    if _done(target):
        return Extracted(path.stem, "already")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    lock = folder / f".{path.stem}.lock"
    with held(lock) as mine:
        if not mine:
            return Extracted(path.stem, "elsewhere")
        try:
            if _done(target):  # by another process, since we looked
                return Extracted(path.stem, "already")
            with open_slide(path, settings.slide_mpp) as slide:
                found = _extract(slide, out, target, encoder, settings, on_tiles)
        except ConfigError:  # the settings' fault: it would be every slide's
            raise
        except JigsawmilError as error:
            words = str(error).replace("--mpp", "--slide-mpp")  # here --mpp is that of tiles
            found = Extracted(path.stem, "failed", error=words)
        except Exception as error:  # whatever a damaged slide does to the libraries; the others must not pay for it
            found = Extracted(path.stem, "failed", error=f"{path.name}: {type(error).__name__}: {error}")
        finally:
            with suppress(PermissionError):  # Windows keeps a file that is open
                lock.unlink(missing_ok=True)
    return replace(found, seconds=time.perf_counter() - started)


def _done(target: Path) -> bool:
    return target.exists() or target.with_suffix(NO_TISSUE).exists()


def tissue_of(slide: Slide, masks: Path | None) -> Tissue:
    if masks is None:
        return find_tissue(slide)
    file = masks / f"{slide.path.stem}.geojson"
    if not file.is_file():
        raise SlideError(f"{slide.path.name}: no {file.name} in {masks}. Draw it, or leave --masks out.")
    return read_geojson(file, slide.size, thumbnail_scale(slide), slide.bounds[:2])  # as QuPath writes it


def _extract(
    slide: Slide, out: Path, target: Path, encoder: Encoder, settings: ExtractSettings, on_tiles: OnTiles
) -> Extracted:
    tissue = tissue_of(slide, settings.masks)
    tiles = make_tiles(
        slide, tissue, patch=settings.patch, mpp=settings.mpp, overlap=settings.overlap, share=settings.share
    )
    area = tissue.area(slide.needed_mpp)
    # both are closed before the slide is, whatever happens: a thread that reads a closed slide takes the process down
    with ThreadPoolExecutor(1, "looks") as beside:
        looks = beside.submit(_save_looks, slide, tissue, tiles, out, settings)
        features, waited = _encode_all(slide, tiles, encoder, settings, on_tiles)
        looks.result()
    if not len(tiles):
        with replacing(target.with_suffix(NO_TISSUE)) as temporary:
            temporary.write_text(f"{slide.path.name}: no tile with enough tissue ({area:.2f} mm2 of tissue in all).\n")
        return Extracted(slide.path.stem, "no tissue", tissue_mm2=area)
    write_features(target, np.concatenate(features), tiles, slide.path.stem, encoder.spec.name)
    return Extracted(slide.path.stem, "done", len(tiles), area, waited=waited)


def _encode_all(
    slide: Slide, tiles: Tiles, encoder: Encoder, settings: ExtractSettings, on_tiles: OnTiles
) -> tuple[list[np.ndarray], float]:
    """Features, a batch at a time, and the seconds in which the encoder had nothing to encode."""
    parts: list[np.ndarray] = []
    waited, done = 0.0, 0
    if len(tiles):
        on_tiles(0, len(tiles))
    with closing(read_batches(slide, tiles, settings.workers, settings.at_once)) as batches:
        while True:
            asked = time.perf_counter()
            pixels = next(batches, None)
            waited += time.perf_counter() - asked
            if pixels is None:
                return parts, waited
            parts.append(encode(encoder, pixels, settings.device, settings.precision).numpy())
            done += len(pixels)
            on_tiles(done, len(tiles))


def read_batches(slide: Slide, tiles: Tiles, workers: int, batch: int) -> Generator[torch.Tensor, None, None]:
    """uint8 (tile, patch, patch, 3), in order, read ahead by threads; at most three batches a worker are in memory."""
    starts = deque(range(0, len(tiles), batch))
    waiting: deque[Future[torch.Tensor]] = deque()

    def read(start: int) -> torch.Tensor:
        chosen = range(start, min(start + batch, len(tiles)))
        return torch.from_numpy(np.stack([tiles.read(slide, index) for index in chosen]))

    pool = ThreadPoolExecutor(workers, "extract")
    try:
        while starts or waiting:
            while starts and len(waiting) < 2 * workers + 1:
                waiting.append(pool.submit(read, starts.popleft()))
            yield waiting.popleft().result()
    finally:  # also where the caller stops early or a tile cannot be read
        pool.shutdown(wait=True, cancel_futures=True)


def write_features(path: Path, features: np.ndarray, tiles: Tiles, slide: str, encoder: str) -> None:
    """TRIDENT's layout, with the microns beside its attributes; the same input gives the same bytes."""
    geometry = {
        "patch_size": tiles.patch,
        "patch_size_level0": tiles.patch_size_level0,
        "level0_magnification": OBJECTIVE / tiles.level0_mpp,
        "target_magnification": OBJECTIVE / tiles.mpp,
        "overlap": tiles.overlap,
        "name": slide,
        "savetodir": "None",
        "level0_width": tiles.slide_size[0],
        "level0_height": tiles.slide_size[1],
        "mpp": tiles.level0_mpp,
        "target_mpp": tiles.mpp,
    }
    with replacing(path) as temporary, h5py.File(temporary, "w", track_order=True) as file:
        _write(file, "features", features.astype(np.float32), {"name": slide, "encoder": encoder})
        _write(file, "coords", tiles.coords, geometry)


def _write(file: h5py.File, key: str, array: np.ndarray, attrs: dict[str, Any]) -> None:
    chunks = (min(len(array), 256), array.shape[1])
    dataset = file.create_dataset(key, data=array, chunks=chunks, track_times=False)
    for name, value in attrs.items():
        dataset.attrs[name] = value


def _save_looks(slide: Slide, tissue: Tissue, tiles: Tiles, out: Path, settings: ExtractSettings) -> None:
    for name in ("contours", "contours_geojson", f"{settings.folder}/visualization"):
        (out / name).mkdir(parents=True, exist_ok=True)
    stem = slide.path.stem
    write_picture(tissue.mask.astype(np.uint8) * 255, out / "contours" / f"{stem}.png")
    write_geojson(tissue, out / "contours_geojson" / f"{stem}.geojson", slide.bounds[:2])
    levels = [max(slide.size) / step for step in slide.level_downsamples]
    side = max((level for level in levels if 800 <= level <= 1600), default=1600)  # a level as it is, where one fits
    write_picture(preview(slide, tissue, tiles, round(side)), out / settings.folder / "visualization" / f"{stem}.png")
