"""What is wrong with the features of a cohort, of each slide and between slides."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..bags.magnification import DIFFERENT, OTHER, Magnification, magnification, ratio
from ..bags.survey import PILED, Survey
from ..slides.encoders.spec import our_name
from .labels import listed

LEAVE = "Extract the slide again, or leave it out with --skip-bad (skip_bad=True)."
PILES = "Methods with a graph refuse more of them than their k allows. "
USED = "They are used as they are; --skip-bad (skip_bad=True) leaves them out."
# Faults of a slide: what is said of slides that have it, and what to do.
FAULTS: dict[str, tuple[str, str]] = {
    "not-finite": ("with NaN or infinity", LEAVE),
    "zero-features": ("whose features are all 0", LEAVE),
    "constant-features": ("whose patches all have the same features", LEAVE),
    "far-coordinates": ("with implausible coordinates", LEAVE),
    "stacked": ("whose patches all have the same position", PILES + USED),
    "piled": (f"with more than {PILED} patches at the same position", PILES + USED),
    "outside-slide": ("with patches outside of the slide", USED),
    "zero-patches": ("with patches whose features are all 0", ""),
    "shared-places": ("with patches at the same position", ""),
}
GRID = 4  # patches that make a grid
OFF_GRID = 0.025  # of an edge: slideflow cuts at whole pixels
UNITS = 8.0  # times as far apart as in other slides: other units
NEAR = 1e-2  # of the largest number of a sketch: features of one slide, made twice


class Found(NamedTuple):
    """A problem of slides: kind, what it is a number of, what is said, names, remedy, a remark on each name."""

    kind: str
    one: str
    text: str
    names: Sequence[str]
    remedy: str = ""
    details: Iterable[str] = ()


class Slide(Protocol):
    @property
    def slide_id(self) -> str: ...
    @property
    def patient_id(self) -> str: ...
    @property
    def survey(self) -> Survey: ...


def slide_faults(slides: Sequence[Slide]) -> Iterator[Found]:
    """What is wrong with single slides, and with those that are unlike the others."""
    faults: dict[str, dict[str, str]] = defaultdict(dict)
    for slide in slides:
        for fault in slide.survey.faults:
            faults[fault.kind].setdefault(slide.slide_id, fault.text)
    for kind, (text, remedy) in FAULTS.items():
        if kind in faults:
            yield Found(kind, "slide", text, list(faults[kind]), remedy, faults[kind].values())
    single = [slide.slide_id for slide in slides if slide.survey.info.n == 1 and slide.survey.info.placed]
    if single and len(single) < len(slides):
        yield Found("single-patch", "slide", "of one patch", single)
    if odd := _other_grids(slides):
        remedy = "State the mpp of each slide in a column of the table (mpp_column, --mpp-column), or correct it."
        text = "whose grid contradicts the resolution that is stated (mpp), or is another than in other slides"
        yield Found("other-grid", "slide", text, list(odd), remedy, odd.values())
    if odd := _other_units(slides):
        remedy = f"Are they in other units? State --unit and --slide-mpp for all, or extract them again. {USED}"
        text = f"whose patches lie {UNITS:g} times as far apart as in other slides, or as near"
        yield Found("other-units", "slide", text, list(odd), remedy, odd.values())


def _other_grids(slides: Sequence[Slide]) -> dict[str, str]:
    """Slide id -> its grid, of slides whose grid contradicts the edge of their patches, which follows from the mpp.

    A grid steps by a whole edge, or by half of it or a third, and so on, the same in all slides of a cohort. Only where
    that edge decides where patches lie: where files have centres."""
    known = {
        slide.slide_id: step
        for slide in slides
        if slide.survey.info.centred and slide.survey.info.n >= GRID and (step := _relative_step(slide.survey))
    }
    usual = float(np.quantile(list(known.values()), 0.5, method="higher")) if known else 1.0
    return {
        name: f"patches {step:.3g} edges apart"
        for name, step in known.items()
        if abs(step * round(1 / step if step < 1 else 1) - 1) > OFF_GRID or abs(step / usual - 1) > OFF_GRID
    }


def _other_units(slides: Sequence[Slide]) -> dict[str, str]:
    """Slide id -> the distance of its patches, of those that are far from the others'."""
    steps = {slide.slide_id: _relative_step(slide.survey) for slide in slides}
    known = {name: step for name, step in steps.items() if step}
    if len(known) < 3:
        return {}
    usual = float(np.median(list(known.values())))
    return {
        name: f"{step / usual:.3g} times the usual distance"
        for name, step in known.items()
        if not 1 / UNITS < step / usual < UNITS
    }


def _relative_step(survey: Survey) -> float | None:
    """Distance of neighbours in edges of a patch if they are known, so that the resolution does not matter."""
    return None if survey.step is None else survey.step / (survey.info.patch_size or 1.0)


def mixed_features(slides: Sequence[Slide]) -> Iterator[Found]:
    """Features of a cohort have one dimension and, if the files say it, one encoder, with the same weights, on patches
    of one size."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for slide in slides:
        info = slide.survey.info
        groups["dimension"][str(info.dim)].append(slide.slide_id)
        if info.encoder is not None:
            groups["encoder"][our_name(info.encoder)].append(slide.slide_id)
        if info.encoding is not None:
            made = f"weights {info.encoding.mark}, {info.encoding.precision}"
            groups["encoding"][made].append(slide.slide_id)
    for what in ("dimension", "encoder", "encoding"):
        if len(groups[what]) > 1:
            yield _mixed(f"mixed-{what}s", what, groups[what], "Keep the features of one encoder in a folder.")
    yield from _mixed_sizes(slides)


def _mixed_sizes(slides: Sequence[Slide]) -> Iterator[Found]:
    sizes = {slide.slide_id: magnification(slide.survey.info, slide.survey.info.tiles) for slide in slides}
    known = {name: size for name, size in sizes.items() if size.known}
    if not known:
        return
    groups: dict[Magnification, list[str]] = {}
    for name, size in known.items():
        like = next((other for other in groups if ratio(size, other) <= DIFFERENT), size)
        groups.setdefault(like, []).append(name)
    if len(groups) > 1:
        largest = max(ratio(a, b) for a in groups for b in groups)
        kind = "mixed-magnifications" if largest > OTHER else "near-magnifications"
        named = {size.words: names for size, names in groups.items()}
        remedy = "Extract all slides at one magnification, with one patch size." if largest > OTHER else ""
        yield _mixed(kind, "magnification", named, remedy)
    if unknown := [name for name in sizes if name not in known]:
        text = "that do not say how large their patches are in microns, unlike the others"
        yield Found("unknown-magnification", "slide", text, unknown, "State --slide-mpp or --patch-size.")


def _mixed(kind: str, what: str, groups: dict[str, list[str]], remedy: str) -> Found:
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    counts = "; ".join(f"{value} in {_files(names)} ({listed(names, 3)})" for value, names in ordered)
    odd = {name: value for value, names in ordered[1:] for name in names}
    text = f"Features of more than one {what}: {counts}. Those that are not of the commonest"
    return Found(kind, "", text, list(odd), remedy, odd.values())


def _files(names: Collection[str]) -> str:
    return f"{len(names)} file{'' if len(names) == 1 else 's'}"


def same_features(slides: Sequence[Slide]) -> Iterator[Found]:
    """Slides that hold the same features under two ids: those of different patients, and those of one."""
    groups = [[slides[row] for row in rows] for rows in _alike([slide.survey for slide in slides])]
    kinds: dict[str, list[str]] = {"same-features": [], "copied-slides": []}
    for group in groups:
        kind = "same-features" if len({slide.patient_id for slide in group}) > 1 else "copied-slides"
        kinds[kind].append(" = ".join(slide.slide_id for slide in group))
    if kinds["same-features"]:
        yield Found(
            "same-features", "pair or group", "of slides of different patients with the same features",
            kinds["same-features"],
            "They are most likely one slide, which could be on both sides of a split: remove all but one. If they are "
            "meant to be there, give --allow-similar (allow_similar=True).",
        )  # fmt: skip
    if kinds["copied-slides"]:
        text = "of slides of one patient with the same features"
        yield Found("copied-slides", "pair or group", text, kinds["copied-slides"])


def _alike(surveys: Sequence[Survey]) -> list[list[int]]:
    """Groups of rows whose files, or whose sketches but for one anchor and rounding, are the same."""
    leader = list(range(len(surveys)))

    def lead(row: int) -> int:
        while leader[row] != row:
            row = leader[row]
        return row

    first: dict[object, int] = {}
    for row, survey in enumerate(surveys):
        if survey.content:
            leader[lead(row)] = lead(first.setdefault((survey.content, survey.info.n), row))
    telling = [row for row, survey in enumerate(surveys) if lead(row) == row and _telling(survey)]
    for a, b in _candidates([surveys[row] for row in telling]):
        if _close(surveys[telling[a]], surveys[telling[b]]):
            leader[lead(telling[b])] = lead(telling[a])
    groups: dict[int, list[int]] = defaultdict(list)
    for row in range(len(surveys)):
        groups[lead(row)].append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _telling(survey: Survey) -> bool:
    """Whether a sketch can be that of one slide only: neither constant nor the same at all anchors."""
    sketch = survey.sketch
    bad = {fault.kind for fault in survey.faults} & {"not-finite", "zero-features", "constant-features"}
    if sketch is None or bad or not np.isfinite(sketch).all():
        return False
    return bool(np.ptp(sketch.astype(np.float32), axis=1).all())


def _candidates(surveys: Sequence[Survey]) -> set[tuple[int, int]]:
    """Pairs whose first or second anchors are close: one of the two is left if one anchor differs."""
    from scipy.spatial import cKDTree

    found: set[tuple[int, int]] = set()
    shapes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, survey in enumerate(surveys):
        assert survey.sketch is not None
        shapes[survey.sketch.shape].append(row)
    for shape, rows in shapes.items():
        for anchor in range(min(2, shape[0])):
            points = np.stack([surveys[row].sketch[anchor, :8] for row in rows]).astype(np.float64)  # type: ignore[index]
            radius = NEAR * float(np.abs(points).max())
            found |= {(rows[a], rows[b]) for a, b in cKDTree(points).query_pairs(radius, p=np.inf)}
    return found


def _close(a: Survey, b: Survey) -> bool:
    assert a.sketch is not None
    assert b.sketch is not None
    one, other = a.sketch.astype(np.float32), b.sketch.astype(np.float32)
    near = np.abs(one - other).max(axis=1) <= NEAR * np.abs(one).max()
    distinct = len(np.unique(one[near], axis=0))
    few = min(a.info.n, b.info.n)
    return bool(near.sum() >= max(1, len(near) - 1)) and distinct >= min(3, few, len(near))
