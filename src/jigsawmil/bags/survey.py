"""A look into feature files before anything runs: what they hold, what is wrong with it, and how to know them again."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FeatureError, NotFiniteError
from .bag import FARTHEST, Unit
from .digest import State, content_of, state_of
from .formats import peek_bag, recognise
from .formats.guard import reading
from .formats.hdf5 import open_once
from .formats.source import BagInfo, Options, Source, check_finite, coords_of, describe

SMALL = 1 << 22  # bytes of features that are read whole
ROWS = 16  # that are read at each anchor of larger ones
COLUMNS = 64  # of a sketch
PILED = 100  # patches at one place, which no tool cuts
FEW = 3  # patches, which may be the same background by chance
STEPS = 256  # patches whose neighbours are looked for
CORNERS = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]])

FaultKind = Literal["not-finite", "zero-features", "constant-features", "far-coordinates", "stacked", "piled",
                    "outside-slide", "zero-patches", "shared-places"]  # fmt: skip


class Fault(NamedTuple):
    """What is wrong with the data of a slide. text: what was found."""

    kind: FaultKind
    text: str


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A slide's files as they were found. content: digest of samples of them; whole: of every byte, if asked for.

    options: with which they are read. piled: most patches at one place. step: median distance of a patch to its next,
    None if it has none. sketch: (anchor, column) features of the patches next to the corners and the middle of the
    slide; the same for the same features in any order.
    """

    info: BagInfo
    options: Options = field(default_factory=Options)
    content: str = ""
    whole: str = ""
    state: State = field(default=(), repr=False)
    faults: tuple[Fault, ...] = ()
    piled: int = 1
    step: float | None = None
    sketch: NDArray[np.float16] | None = field(default=None, repr=False, compare=False)

    @property
    def paths(self) -> list[Path]:
        return [self.info.path, *self.info.beside]

    def refuse_change(self) -> None:
        """A FeatureError if the files changed since."""
        if self.content and state_of(self.paths) != self.state and content_of(self.paths) != self.content:
            raise FeatureError(
                f"{self.info.path}: changed since it was first read; features must not change while they are "
                "used. Run again once the files no longer change."
            )


def survey_bag(
    path: str | Path,
    *,
    mpp: float | None = None,
    patch_size: float | None = None,
    unit: Unit | None = None,
    features_key: str | None = None,
    coords_key: str | None = None,
    whole: bool = False,
) -> Survey:
    """Look into one slide's files: the options are those of `read_bag`. whole: read every byte, not samples.

    Example: `survey_bag("features/slide_1.h5").faults`
    """
    with reading(Path(path)), open_once():
        return _survey(Path(path), Options(mpp, patch_size, unit, None, features_key, coords_key), whole)


def _survey(path: Path, options: Options, whole: bool) -> Survey:
    name, source = recognise(path, options, None)
    info = describe(source, options, name)
    paths = Survey(info=info).paths
    state = state_of(paths)  # before anything is read
    content = content_of(paths)
    all_bytes = content_of(paths, whole=True) if whole else ""
    if info.n == 0:
        return Survey(info=info, options=options, content=content, whole=all_bytes, state=state)
    faults: list[Fault] = []
    places, piled = _places(source, options, info, faults)
    anchors = np.unique(np.linspace(0, info.n - 1, len(CORNERS)).round()) if places is None else _anchors(places)
    sketch = _look_at_features(source, info, anchors.astype(np.int64), whole, faults)
    step = None if places is None else _step(places)
    return Survey(
        info=info, options=options, content=content, whole=all_bytes, state=state, faults=tuple(faults),
        piled=piled, step=step, sketch=sketch,
    )  # fmt: skip


def content_at(path: str | Path, **reading: Any) -> str:
    """The `content` that `survey_bag` finds now. reading: options of `read_bag`."""
    return content_of(Survey(info=peek_bag(path, **reading)).paths)


def survey_all(
    found: Mapping[str, Path],
    *,
    mpp: float | None = None,
    resolutions: Mapping[str, float] | None = None,
    whole: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> dict[str, Survey | FeatureError]:
    """Many files, side by side; a file that cannot be read gives its error instead.

    mpp, reading: options of `read_bag`. resolutions: the mpp of single slides. progress: called with (done, total)
    after each file.
    """

    def look(slide_id: str) -> Survey | FeatureError:
        try:
            own = (resolutions or {}).get(slide_id, mpp)
            return survey_bag(found[slide_id], mpp=own, whole=whole, **reading)
        except FeatureError as error:
            return error

    surveys: dict[str, Survey | FeatureError] = {}
    # HDF5 lets one thread in at a time, so more would only jostle; they help with files of other kinds.
    with ThreadPoolExecutor(max_workers=4) as pool:
        for slide_id, survey in zip(found, pool.map(look, found), strict=True):
            surveys[slide_id] = survey
            if progress is not None:
                progress(len(surveys), len(found))
    return surveys


def _places(
    source: Source, options: Options, info: BagInfo, faults: list[Fault]
) -> tuple[NDArray[np.float64] | None, int]:
    """(patch, 2) coordinates, None if they are unknown or cannot be used, and the most patches at one place; what is
    wrong with them becomes a fault."""
    if not info.placed:
        return None, 1
    try:
        coords = np.ascontiguousarray(coords_of(source, options, info).numpy(), dtype=np.float64)
    except NotFiniteError as error:
        faults.append(Fault("not-finite", str(error)))
        return None, 1
    if (farthest := float(np.abs(coords).max())) > FARTHEST:
        faults.append(Fault("far-coordinates", f"a coordinate of {farthest:g}"))
        return None, 1
    counts = np.unique(coords.view(np.complex128), return_counts=True)[1]
    shared, most = info.n - len(counts), int(counts.max())
    if info.n > 1 and len(counts) == 1:
        faults.append(Fault("stacked", f"{info.n} patches"))
    elif most > PILED:
        faults.append(Fault("piled", f"{most} of {info.n} patches"))
    elif shared:
        faults.append(Fault("shared-places", f"{shared} of {info.n} patches"))
    if source.size is not None and info.unit == "px":
        edge, size = info.patch_size or 0.0, np.array(source.size)
        if outside := int(((coords < -edge) | (coords > size)).any(axis=1).sum()):
            faults.append(Fault("outside-slide", f"{outside} of {info.n} patches, slide {size[0]:g} x {size[1]:g}"))
    return coords, most


def _anchors(coords: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows of the patches next to the corners and the middle, whatever the order of the file."""
    order = np.lexsort((coords[:, 1], coords[:, 0]))
    places = coords[order] - coords.min(axis=0)
    wanted = CORNERS * places.max(axis=0)
    return np.array([order[np.square(places - corner).sum(axis=1).argmin()] for corner in wanted])


def _look_at_features(
    source: Source, info: BagInfo, anchors: NDArray[np.int64], whole: bool, faults: list[Fault]
) -> NDArray[np.float16]:
    """The sketch of a slide, and what is wrong with its features, or with a sample of large ones."""
    stored, itemsize = source.features, 2 if source.features.dtype.endswith("16") else 4
    if whole or stored.some is None or info.n * info.dim * itemsize <= SMALL:
        features, rows = stored.read().reshape(info.n, info.dim).float(), anchors
    else:
        starts = np.minimum(anchors, max(0, info.n - ROWS))
        features = stored.some([slice(int(start), int(start) + ROWS) for start in starts]).float()
        rows = np.arange(len(anchors)) * min(ROWS, info.n) + (anchors - starts)
    try:
        check_finite(features, source.path.name, "features")
    except NotFiniteError as error:
        faults.append(Fault("not-finite", str(error)))
    else:
        zero = int((features == 0).all(dim=1).sum())
        if zero == len(features):
            faults.append(Fault("zero-features", f"{zero} patches"))
        elif len(features) > FEW and bool((features == features[:1]).all()):
            faults.append(Fault("constant-features", f"{len(features)} patches"))
        elif zero:
            faults.append(Fault("zero-patches", f"{zero} of {len(features)} patches"))
    return features[rows.tolist(), :COLUMNS].clamp(-6e4, 6e4).half().numpy()  # within float16


def _step(coords: NDArray[np.float64]) -> float | None:
    """Median distance to the nearest other place, of some of the patches."""
    places = np.unique(coords.view(np.complex128)).view(np.float64).reshape(-1, 2)
    if len(places) < 2:
        return None
    from scipy.spatial import cKDTree  # takes a quarter of a second to import

    some = places[:: max(1, len(places) // STEPS)]
    return float(np.median(cKDTree(places).query(some, k=2)[0][:, 1]))
