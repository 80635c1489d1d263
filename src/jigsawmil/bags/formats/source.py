"""What a format file finds before anything is read, and how that becomes a bag.

A format knows where its arrays lie and which unit they are in; it says so in a `Source`. Everything that all
formats share is here, once: shapes, units, what the caller may add, and the checks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...errors import ConfigError, FeatureError, NotFiniteError
from ..bag import Bag, Unit, as_features
from ..provenance import Encoding
from ..spacing import spacing
from ..tile_spec import DEFAULT_TILES, TileSpec

if TYPE_CHECKING:
    from torch import Tensor

SMALLEST_PATCH = 8.0  # level-0 pixels; neighbours closer than this are cells of a grid, not patches of a slide
IMAGE = "image pixels"  # in place of the microns per pixel of a tile: cut from an image as it is
SAME = 1e-3  # relative difference below which a stated and a stored length agree (pyramids have factors like 4.0001)
FLOATS, INTEGERS = ("float16", "float32", "float64", "bfloat16"), ("int8", "int16", "int32", "int64")
NUMBERS = {*FLOATS, *INTEGERS, *(f"u{name}" for name in INTEGERS)}
T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What the caller states. `patch_size` is in the unit of the bag that comes out (level-0 pixels as a rule).
    features_key, coords_key: what arrays are called, in formats that leave it open."""

    mpp: float | None = None
    patch_size: float | None = None
    unit: Unit | None = None
    coords: Path | None = None
    features_key: str | None = None
    coords_key: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("mpp", self.mpp), ("patch_size", self.patch_size)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name}={value}: expected a length above zero.")
        if self.unit not in (None, "px", "um"):
            raise ConfigError(f"unit={self.unit!r}: expected 'px' (level-0 pixels) or 'um' (microns).")


@dataclass(frozen=True)
class Stored:
    """An array that lies in a file and has not been read. fault: why it cannot be, if that is known before."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], "Tensor"]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None
    some: Callable[[Sequence[slice]], "Tensor"] | None = None  # these rows, if they can be had without the others
    path: Path | None = None  # of the file, if it is another than that of the features


@dataclass(frozen=True, kw_only=True)
class Source:
    """One slide as a format describes it; None where its files are silent."""

    path: Path
    slide_id: str
    features: Stored
    coords: Stored | None  # None: nobody says where the patches lie
    unit: Unit | None = None  # of coords
    patch_size: float | None = None  # in that unit
    mpp: float | None = None  # microns per level-0 pixel
    encoder: str | None = None
    tiles: TileSpec | None = None  # how the slide was cut
    encoding: Encoding | None = None  # how the encoder was applied
    centred: bool = False  # coords are patch centres, not top-left corners
    size: tuple[float, float] | None = None  # of the slide, level-0 pixels
    guess_unit: bool = False  # may coordinates that look like pixels be taken as pixels?
    beside: tuple[Path, ...] = ()  # files that it is made of, if `path` only names them


@dataclass(frozen=True, kw_only=True)
class BagInfo:
    """What `peek_bag` reads about a slide without its features. Units as in `Bag`.

    Example: `peek_bag("a.h5").n`
    """

    slide_id: str
    path: Path
    format: str
    n: int  # patches; 0 where the slide is empty
    dim: int
    dtype: str  # as stored
    unit: Unit
    patch_size: float | None
    mpp: float | None
    encoder: str | None
    tiles: TileSpec | None = None  # how the slide was cut, where the file says
    encoding: Encoding | None = None  # how the encoder was applied, where the file says
    placed: bool = True  # whether the files say where the patches lie
    beside: tuple[Path, ...] = ()  # files that belong to it: of the coordinates, or of each encoder
    centred: bool = False  # the file has centres, and the patch edge makes corners of them


def describe(source: Source, options: Options, fmt: str) -> BagInfo:
    """Every check that needs no features: shapes, lengths, units, and agreement with what the caller states."""
    name, coords = source.path.name, own_coords(source)
    for stored in (source.features, coords):
        if stored is not None and stored.fault:
            raise FeatureError(f"{name}: {stored.fault}. Copy or extract it again.")
    n, dim = _matrix_shape(source.features.shape, name, "features")
    if source.features.dtype == "uint16":
        raise FeatureError(
            f"{name}: features are uint16, most likely the bit patterns of bfloat16; expected floating point. "
            "Write them as float32 or float16."
        )
    if n and not dim:
        raise FeatureError(f"{name}: features of shape {source.features.shape}, which have no columns. Extract again.")
    for what, array in (("features", source.features), ("coords", coords)):
        if array is not None and array.dtype not in NUMBERS:
            raise FeatureError(f"{name}: {what} are {array.dtype}, expected real numbers. Extract the slide again.")
    if n and coords is not None:
        rows, columns = _matrix_shape(coords.shape, name, "coords")
        if columns != 2:
            raise FeatureError(f"{name}: coords have {columns} columns, expected 2 (x, y).")
        if rows != n:
            raise FeatureError(
                f"{name}: {n} feature rows and {rows} coordinates; expected one coordinate per patch. "
                "The two come from different runs: extract the slide again."
            )
    for what, value in (("mpp", source.mpp), ("patch_size", source.patch_size)):
        _check_length(name, what, value)
    mpp = _agree(name, "mpp", source.mpp, options.mpp)
    unit: Unit | None = _agree(name, "unit", source.unit, options.unit)
    if unit is None:
        unit = _judge_unit(source, coords) if n and coords is not None else "px"
    patch_size = None if coords is None else source.patch_size
    if unit == "um" and mpp is not None:
        unit = "px"
        patch_size = None if patch_size is None else patch_size / mpp
    patch_size = _agree(name, "patch_size", patch_size, options.patch_size)
    if source.centred and patch_size is None and n and coords is not None:
        raise FeatureError(
            f"{name}: the coordinates are patch centres, and the patch edge in level-0 pixels is unknown, so the "
            "corners are too. State the slide's resolution (--slide-mpp, mpp= in Python) or the edge in level-0 pixels "
            "(--patch-size, patch_size=)."
        )
    return BagInfo(
        slide_id=source.slide_id,
        path=source.path,
        format=fmt,
        n=n,
        dim=dim,
        dtype=source.features.dtype,
        unit=unit,
        patch_size=patch_size,
        mpp=mpp,
        encoder=source.encoder,
        tiles=None if coords is None else source.tiles,
        encoding=source.encoding,
        placed=coords is not None,
        beside=(*source.beside, *([coords.path] if coords is not None and coords.path else [])),
        centred=source.centred,
    )


def _check_length(name: str, what: str, value: Any) -> None:
    if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise FeatureError(
            f"{name}: the file states {what} {value!r}, expected a number above zero. Correct the file, or extract the "
            "slide again."
        )


def own_coords(source: Source) -> Stored | None:
    """The coordinates of the patches; None where nobody has them, and of the embedding of a whole slide, beside which
    TRIDENT writes those of the patches it was made from."""
    return None if len(source.features.shape) == 1 and source.features.shape != (0,) else source.coords


def load(source: Source, options: Options, info: BagInfo) -> Bag:
    """Read the arrays that `info` describes."""
    name = source.path.name
    if info.n == 0:
        raise FeatureError(
            f"{name}: the slide is empty (features of shape {source.features.shape}). "
            "No tissue was found when it was tiled: tile it again, or leave it out of the label table."
        )
    raw = source.features.read().reshape(info.n, info.dim)
    features = as_features(raw)
    check_finite(features, name, "features")
    if source.features.dtype == "float64" and bool(((features == 0) & (raw != 0)).any()):
        raise FeatureError(f"{name}: features too small for float32, in which models work. Extract the slide again.")
    coords = coords_of(source, options, info)
    return Bag(
        slide_id=info.slide_id,
        features=features,
        coords=coords,
        patch_size=info.patch_size,
        mpp=info.mpp,
        unit=info.unit,
        encoder=info.encoder,
        source=info.format,
        placed=info.placed,
    )


def coords_of(source: Source, options: Options, info: BagInfo) -> "Tensor":
    """(patch, 2): top-left corners in the unit of the bag; zeros where they are unknown."""
    import torch

    stored = own_coords(source)
    if stored is None:
        return torch.zeros(info.n, 2, dtype=torch.float64)
    coords = stored.read().reshape(info.n, 2).double()
    check_finite(coords, source.path.name, "coords")
    if "um" in (source.unit, options.unit) and info.mpp is not None:
        coords = coords / info.mpp
    if source.centred and info.patch_size is not None:
        coords = coords - info.patch_size / 2
    return coords


def tile_spec(
    patch: Any, mpp: Any, overlap: Any = 0, share: Any = DEFAULT_TILES.share, drawn: Any = False
) -> TileSpec | None:
    """What a file says of its tiles; None where it says too little, or nonsense. mpp: a number, or `IMAGE`."""
    try:
        scale = None if mpp == IMAGE else float(mpp)
        return TileSpec(patch=int(patch), mpp=scale, overlap=int(overlap), share=float(share), drawn=bool(drawn))
    except (ConfigError, TypeError, ValueError, OverflowError):
        return None


def _matrix_shape(shape: tuple[int, ...], name: str, what: str) -> tuple[int, int]:
    """(rows, columns), without a leading batch dimension of one; a bare (0,) is an empty slide, another vector the one
    embedding of a whole slide."""
    if shape == (0,):
        return 0, 0
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 1:
        return 1, shape[0]
    if len(shape) != 2:
        raise FeatureError(f"{name}: {what} of shape {shape}, expected (N, columns) or (1, N, columns).")
    return shape[0], shape[1]


def _agree(name: str, what: str, stored: T | None, stated: T | None) -> T | None:
    """The file's word, completed by the caller's; two different words are an error."""
    if stored is None or stated is None:
        return stated if stored is None else stored
    same = stored == stated
    if isinstance(stored, int | float) and isinstance(stated, int | float):
        same = math.isclose(stored, stated, rel_tol=SAME)
    if not same:
        raise FeatureError(
            f"{name}: the file states {what} {stored}, the caller {what}={stated}. "
            f"Omit {what} to use the file's value, or correct the file."
        )
    return stored


def _judge_unit(source: Source, stored: Stored) -> Unit:
    """Pixels, if the coordinates can be nothing else; refused otherwise."""
    found = "no unit is stated"
    if source.guess_unit:
        coords = stored.read().reshape(-1, 2).numpy()
        if not np.array_equal(coords, np.round(coords)):
            found = "the coordinates are fractional and no unit is stated"
        elif (step := spacing(coords, alone=math.inf)) < SMALLEST_PATCH:
            found = f"the coordinates lie {step:g} apart, like cells of a grid rather than level-0 pixels"
        else:
            return "px"
    raise FeatureError(
        f"{source.path.name}: {found}. State their unit (--unit, unit= in Python): px if they are level-0 pixels, "
        "um if they are microns."
    )


def check_finite(array: "Tensor", name: str, what: str) -> None:
    import torch

    if torch.isfinite(array.sum()):  # one pass; NaN and Inf survive a sum
        return
    finite = torch.isfinite(array)
    if finite.all():
        return
    rows = (~finite.all(dim=1)).nonzero().flatten().tolist()
    raise NotFiniteError(
        f"{name}: {int((~finite).sum())} {what} values are NaN or Inf, in {len(rows)} of {len(array)} patches "
        f"(first rows: {', '.join(map(str, rows[:5]))}). Extract the slide again; if float16 overflowed, in float32."
    )
