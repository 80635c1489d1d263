"""From slides to features: tissue, tiles, encoder, one file a slide in TRIDENT's layout.

    OUT/contours/<slide>.png, contours_geojson/<slide>.geojson            the tissue
    OUT/20x_256px_0px_overlap/visualization/<slide>.png                   the tiles, for a look
    OUT/20x_256px_0px_overlap/patches/<slide>_patches.h5                  coords alone, for TRIDENT's other encoders
    OUT/20x_256px_0px_overlap/features_<encoder>/<slide>.h5               features and coords

Reading runs ahead of encoding in threads: OpenSlide and torch both leave Python free while they work.
"""

import ctypes
import errno
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..bags.digest import whole_mark
from ..bags.formats.trident import TISSUE, tile_geometry, write_features, write_patches, write_patches_of
from ..bags.provenance import MADE_FROM, Made, difference, read_made, slide_content, slide_mark
from ..config import require
from ..errors import ConfigError, JigsawmilError, SlideError
from ..files import held, replacing, sweep
from .encoders import Encoder, encode
from .extract_settings import ExtractSettings
from .geojson_mask import marked, read_geojson, write_geojson
from .slide import Slide, open_slide, write_picture
from .tiles import Tiles, make_tiles, preview
from .tissue import Tissue, find_tissue, thumbnail_scale

NO_TISSUE = ".no-tissue"  # in place of .h5: a slide that was looked at and has none
FULL = {errno.ENOSPC, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}  # of a disk, whatever the slide


@dataclass(frozen=True)
class Extracted:
    """The outcome of one slide. status: done, already, no tissue, elsewhere (another process has it) or failed.
    known: by an earlier run."""

    slide: str
    status: str
    tiles: int = 0
    tissue_mm2: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0  # seconds in which the encoder had no tiles to encode
    known: bool = False
    error: str | None = None


def keep_memory() -> None:
    """Have glibc keep what it has: it hands large blocks back after each layer of a network and takes them again, page
    by page, which costs as much as the convolutions. Other systems are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for what, value in ((-4, 0), (-1, 2**31 - 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            mallopt(what, value)


OnTiles = Callable[[int, int], None]  # tiles done, tiles of the slide


def features_folder(out: Path, encoder: str, settings: ExtractSettings) -> Path:
    return out / settings.tiles.folder / f"features_{encoder}"


def extract_slide(
    path: str | Path,
    out: str | Path,
    encoder: Encoder,
    settings: ExtractSettings,
    on_tiles: OnTiles = lambda done, total: None,
) -> Extracted:
    """Features of one slide, whole or not at all. What fails is returned, not raised: other slides go on.

    Example: `extract_slide("a.svs", "out", load_encoder("uni"), ExtractSettings()).status`
    """
    path, out = Path(path), Path(out)
    folder = features_folder(out, encoder.spec.name, settings)
    target = folder / f"{path.stem}.h5"
    started = time.perf_counter()
    before = _finished(path, target, encoder, settings)
    if before is not None:
        return replace(before, seconds=time.perf_counter() - started)
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / f".{path.stem}.lock"
    with held(lock) as mine:
        if not mine:
            return Extracted(path.stem, "elsewhere")
        try:
            made = made_from(path, encoder, settings)
            found = _there(target, made, settings.renew)
            if found is None:
                sweep(target)  # of a process that was killed
                for other in (target, _note(target)):
                    other.unlink(missing_ok=True)
                with open_slide(path, settings.slide_mpp) as slide:
                    found = _extract(slide, out, target, encoder, settings, made, on_tiles)
        except ConfigError:  # the settings' fault: it would be every slide's
            raise
        except JigsawmilError as error:
            found = Extracted(path.stem, "failed", error=str(error))
        except Exception as error:  # whatever a damaged slide does to the libraries; the others must not pay for it
            if isinstance(error, OSError) and error.errno in FULL:
                raise ConfigError(
                    f"{out}: cannot be written ({error}). Finished slides are kept; free some space, or give another "
                    "--out."
                ) from error
            found = Extracted(path.stem, "failed", error=f"{path.name}: {type(error).__name__}: {error}")
        finally:
            with suppress(PermissionError):  # Windows keeps a file that is open
                lock.unlink(missing_ok=True)
    return replace(found, seconds=time.perf_counter() - started)


def made_from(path: Path, encoder: Encoder, settings: ExtractSettings) -> Made:
    """What decides the content of a slide's features, beside what the name of their folder says."""
    outline = None if settings.masks is None else _outline(settings.masks, path)
    return {
        "slide": slide_mark(path) if path.is_file() else None,
        "content": slide_content(path) if path.is_file() else None,
        "encoder": encoder.mark,
        "share": settings.tiles.share,
        "precision": settings.precision,
        "masks": None if outline is None else f"{whole_mark(outline)}{'' if settings.shift else ' unshifted'}",
        "slide_mpp": settings.slide_mpp,
    }


def _finished(path: Path, target: Path, encoder: Encoder, settings: ExtractSettings) -> Extracted | None:
    """The slide, if it was done before, or why what is there is not it. Asks for no lock: storage may be read-only."""
    if not any(there.exists() for there in (target, _note(target))):
        return None
    try:
        return _there(target, made_from(path, encoder, settings), settings.renew)
    except SlideError as error:
        return Extracted(path.stem, "failed", error=str(error))
    except OSError:
        return None  # told by whoever tries to do it


def _note(target: Path) -> Path:
    return target.with_name(target.stem + NO_TISSUE)


def _patches(target: Path) -> Path:
    return target.parent.parent / "patches" / f"{target.stem}_patches.h5"


def _there(target: Path, made: Made, renew: bool) -> Extracted | None:
    """The slide, if it was done before; None where it has to be done."""
    for path, status in ((target, "already"), (_note(target), "no tissue")):
        if path.exists():
            other = difference(read_made(path), made)
            if other is None:
                with suppress(OSError):  # storage that has become read-only stays as it is
                    if path == target and not _patches(target).exists():  # of an earlier version that was killed
                        write_patches_of(target, _patches(target))
                return Extracted(target.stem, status, known=True)
            if not renew:
                raise SlideError(f"{path}: {other}. Give another --out, the same options, or remove that file.")
    return None


def tissue_of(slide: Slide, masks: Path | None, shift: bool = True) -> Tissue:
    """The tissue found here, or the user's own outline."""
    if masks is None:
        return find_tissue(slide)
    return read_geojson(_outline(masks, slide.path), slide.size, thumbnail_scale(slide), origin_of(slide, shift))


def _outline(masks: Path, slide: Path) -> Path:
    file = masks / f"{slide.stem}.geojson" if masks.is_dir() else masks
    if not file.is_file():
        raise SlideError(f"{slide.name}: no {file.name} in {file.parent}. Draw it, or leave --masks out.")
    return file


def check_masks(masks: Path | None, slides: Sequence[Path]) -> None:
    """Refuse outlines that cannot be, before any work."""
    if masks is None:
        return
    require("masks", str(masks), masks.exists(), "a folder of SLIDE.geojson files, or one such file")
    if not masks.is_dir() and len(slides) > 1:
        raise ConfigError(f"--masks {masks}: one outline for {len(slides)} slides; expected a folder of SLIDE.geojson.")


def origin_of(slide: Slide, shift: bool) -> tuple[int, int]:
    """Level-0 place of a GeoJSON file's (0, 0)."""
    return (slide.bounds.x, slide.bounds.y) if shift else (0, 0)


def _extract(
    slide: Slide, out: Path, target: Path, encoder: Encoder, settings: ExtractSettings, made: Made, on_tiles: OnTiles
) -> Extracted:
    made = {**made, "slide_mpp": None if slide.says_mpp else slide.mpp}
    tissue = tissue_of(slide, settings.masks, settings.shift)
    tiles = make_tiles(slide, tissue, settings.tiles)
    area = tissue.area(slide.mpp)
    # both are closed before the slide is, whatever happens: a thread that reads a closed slide takes the process down
    with ThreadPoolExecutor(1, "looks") as beside:
        looks = beside.submit(_save_looks, slide, tissue, tiles, out, settings, made["slide"])
        features, waited = _encode_all(slide, tiles, encoder, settings, on_tiles)
        looks.result()
    if not len(tiles) and tiles.patch_size_level0 > max(slide.size):
        width, height = slide.size
        raise SlideError(
            f"{slide.path.name}: a tile of {settings.tiles.words} spans {tiles.patch_size_level0} level-0 pixels, the "
            f"whole slide {width} x {height}. Ask for smaller tiles (--patch), or a finer --mpp."
        )
    if not len(tiles):
        why = f"{slide.path.name}: no tile with enough tissue ({tissue.amount(slide.mpp)})."
        with replacing(_note(target)) as temporary:
            temporary.write_text(json.dumps({"why": why, MADE_FROM: made}, indent=2) + "\n", encoding="utf-8")
        return Extracted(slide.path.stem, "no tissue", tissue_mm2=area)
    whole = np.concatenate(features)
    if not np.isfinite(whole).all():
        raise SlideError(
            f"{slide.path.name}: the encoder gave NaN or Inf, in {settings.precision}. Use --precision float32; if it "
            "is that, look at the encoder's weights."
        )
    name = slide.path.stem
    about = {"name": name, "encoder": encoder.spec.name, MADE_FROM: json.dumps(made), TISSUE: area}
    write_patches(_patches(target), tiles.coords, geometry(tiles, name))
    write_features(target, whole, tiles.coords, about, geometry(tiles, name))  # last: a slide with features is done
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
    """uint8 (tile, patch, patch, 3), in order, read ahead by threads: two batches a worker and two more in memory."""
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


def geometry(tiles: Tiles, name: str) -> dict[str, Any]:
    """What a feature file says about its tiles."""
    return tile_geometry(name, tiles.spec, tiles.patch_size_level0, tiles.slide_size, tiles.level0_mpp)


def _save_looks(slide: Slide, tissue: Tissue, tiles: Tiles, out: Path, settings: ExtractSettings, mark: str) -> None:
    for name in ("contours", "contours_geojson", f"{settings.tiles.folder}/visualization"):
        (out / name).mkdir(parents=True, exist_ok=True)
    stem = slide.path.stem
    write_picture(tissue.mask.astype(np.uint8) * 255, out / "contours" / f"{stem}.png")
    outline = out / "contours_geojson" / f"{stem}.geojson"
    if settings.masks is None and (settings.renew or not outline.exists() or marked(outline) not in (None, mark)):
        write_geojson(tissue, outline, origin_of(slide, settings.shift), mark)  # else perhaps corrected by hand
    levels = [max(slide.size) / step for step in slide.level_downsamples]
    side = max((level for level in levels if 800 <= level <= 1600), default=1600)  # a level as it is, where one fits
    picture = preview(slide, tissue, tiles, round(side))
    write_picture(picture, out / settings.tiles.folder / "visualization" / f"{stem}.png")
