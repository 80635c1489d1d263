"""A cohort: slides with a class and a patient, and their bags, read when they are needed."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..bags.bag import Bag, Unit
from ..bags.digest import content_digest
from ..bags.formats import BagInfo, find_bags, read_bag
from ..bags.formats.source import SAME
from ..bags.join import Folders, one_folder
from ..bags.provenance import Encoding
from ..bags.survey import Survey, survey_all
from ..bags.tile_spec import TileSpec
from ..errors import FeatureError, LabelError
from ..tasks import choose_task, column_task, get_task
from ..tasks.terms import Values
from .audit import Audit, Entry, LeftOut, audit
from .covariates import Covariate, cell_text, covariates_of_bags
from .labels import COVARIATE, LabelTable, listed, patients_of, plain_labels, read_labels, slide_name, tcga_site
from .tables import is_unknown

OnProgress = Callable[[int, int], None]
T = TypeVar("T")
Target = int | float | tuple[float, ...]


class Columns(TypedDict, total=False):
    """Which columns to read: the options of `read_labels`."""

    slide_column: str | None
    patient_column: str | None
    label_column: str | None
    label_columns: str | None
    site_column: str | None
    slide_table: str | Path | None
    mpp_column: str | None
    sheet: str | None
    time_column: str | None
    event_column: str | None
    covariates: str | None


@dataclass(frozen=True)
class LabelledSlide:
    """label: target value of the task; of classes, the index of one of the cohort. path: None for a bag in memory.
    site: where the slide was made. placed: whether its features have coordinates. survey: what its files held when the
    cohort was read."""

    slide_id: str
    patient_id: str
    label: Target
    path: Path | None
    patches: int
    site: str | None = None
    placed: bool = True
    survey: Survey | None = field(default=None, repr=False, compare=False)
    covariates: tuple[str, ...] = ()  # cells of the clinical columns


@dataclass(frozen=True, eq=False)
class Cohort:
    """Slides that have a label and features. classes: their names by index; of two, the last is the positive one. Of a
    task that predicts no class, the names of what it predicts.

    left_out: what the table or the folder had beside these slides, with the reason. notes: what the audit remarked.

    Example: `Cohort.read("labels.csv", "features/", positive="tumour")`
    """

    slides: tuple[LabelledSlide, ...]
    classes: tuple[str, ...]
    task: str  # name of it
    dim: int
    encoder: str | None
    patch_um: float | None  # edge of a patch in microns, where the files agree on one
    tiles: TileSpec | None  # how the slides were cut, where every file says the same
    encoding: Encoding | None  # how the encoder was applied, likewise
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    read_slide: Callable[[LabelledSlide], Bag] = field(repr=False)
    covariates: tuple[Covariate, ...] = ()  # clinical columns
    label_columns: Mapping[str, str] = field(default_factory=dict)  # options of `read` that name those of the label
    guessed: bool = False  # nobody named the positive class

    @classmethod
    def read(
        cls,
        labels: str | Path | LabelTable,
        features: Folders,
        *,
        positive: str | None = None,
        ordinal: bool = False,
        task: str | None = None,
        mpp: float | None = None,
        patch_size: float | None = None,
        unit: Unit | None = None,
        features_key: str | None = None,
        coords_key: str | None = None,
        skip_missing: bool = False,
        skip_bad: bool = False,
        allow_similar: bool = False,
        verify: bool = False,
        progress: OnProgress | None = None,
        **columns: Unpack[Columns],
    ) -> "Cohort":
        """Join a label table to a folder of features; everything that is wrong is raised together.

        features: a folder, or those of several encoders on the same patches, whose columns are joined (see
        `join_features`). positive: of two classes, the one whose probability is reported. task: one of
        `jigsawmil.tasks.TASKS`; None: binary for two classes, multiclass for more. ordinal: short for task="ordinal",
        grades in their order.
        mpp, patch_size, unit, features_key, coords_key: what the feature files leave open, see `read_bag`; a column of
        the table may state the mpp of each slide (mpp_column). skip_bad, allow_similar, verify: see
        docs/labels.md.
        """
        report = check(
            labels, features,
            mpp=mpp, patch_size=patch_size, unit=unit, features_key=features_key, coords_key=coords_key,
            skip_missing=skip_missing, skip_bad=skip_bad, allow_similar=allow_similar, verify=verify,
            progress=progress, positive=positive, ordinal=ordinal, task=task, **columns,
        )  # fmt: skip
        report.raise_errors()

        def read(slide: LabelledSlide) -> Bag:
            assert slide.path is not None
            assert slide.survey is not None
            bag = read_bag(
                slide.path, mpp=slide.survey.info.mpp, patch_size=patch_size, unit=unit, features_key=features_key,
                coords_key=coords_key,
            )  # fmt: skip
            slide.survey.refuse_change()
            return replace(bag, slide_id=slide.slide_id)

        return _build(report, report.entries, positive, ordinal, task, read)

    @classmethod
    def from_bags(
        cls,
        bags: Sequence[Bag],
        labels: Sequence[object],
        patients: Sequence[object] | None = None,
        *,
        positive: str | None = None,
        ordinal: bool = False,
        task: str | None = None,
        allow_similar: bool = False,
    ) -> "Cohort":
        """A cohort of bags in memory, in their order. patients: None = from TCGA barcodes, or each slide its own.

        positive, ordinal, task, allow_similar: as for `read`.
        """
        kept = {bag.slide_id: bag for bag in bags}
        for what, given in (("labels", labels), ("patients", labels if patients is None else patients)):
            if len(given) != len(bags):
                raise LabelError(f"{len(bags)} bags and {len(given)} {what}; expected one for each bag, in order.")
        if len(kept) < len(bags):
            raise LabelError(f"{len(bags)} bags have {len(kept)} different slide ids. Give each bag its own.")
        kind, notes = column_task(task, ()), list[str]()
        values = ["" if v is None or is_unknown(str(v)) else kind.text_of(v) for v in labels]
        if kind.of_classes:  # of several targets, as they were given
            values, notes = plain_labels(values)
        whose, note = (
            patients_of(list(kept), "No patients given", "give patients=")
            if patients is None
            else ([str(patient) for patient in patients], "")
        )
        rows = pd.DataFrame({"slide_id": list(kept), "patient_id": whose, "label": values, "line": range(len(bags))})
        rows["site"] = [tcga_site(slide_id) for slide_id in kept]
        for name in covariates_of_bags(bags):
            rows[COVARIATE + name] = [cell_text((bag.covariates or {}).get(name)) for bag in bags]
        table = LabelTable(rows, "bags and labels", "slide", {"label": "labels"}, tuple(filter(None, [*notes, note])))
        surveys = {slide_id: Survey(info=_info(bag)) for slide_id, bag in kept.items()}
        report = audit(table, dict.fromkeys(kept), surveys, allow_similar=allow_similar, ordinal=ordinal, task=task)
        report.raise_errors()
        if report.left_out:  # a bag without a label: the caller counts on the order of the others
            names = listed([item.name for item in report.left_out])
            raise LabelError(
                f"{len(report.left_out)} of {len(bags)} bags have no label: {names}. Expected one for each bag: leave "
                "out those bags, or label them."
            )
        entry_of = {entry.slide_id: entry for entry in report.entries}
        entries = [entry_of[slide_id] for slide_id in kept]
        return _build(report, entries, positive, ordinal, task, lambda slide: kept[slide.slide_id])

    def __len__(self) -> int:
        return len(self.slides)

    @property
    def slide_ids(self) -> NDArray[np.str_]:
        return np.array([slide.slide_id for slide in self.slides], dtype=str)

    @property
    def labels(self) -> Values:
        """(slide,) index of the class, or (slide,) or (slide, several) numbers of another target."""
        values = np.array([slide.label for slide in self.slides])
        return values if len(values) else values.astype(np.int64)

    @property
    def strata(self) -> NDArray[np.int64]:
        """(slide,) what a split spreads evenly: the classes, unless the task has it otherwise."""
        return get_task(self.task).strata(self.labels)

    @property
    def stratum_names(self) -> list[str]:
        """(slide,) the same by name."""
        names = get_task(self.task).stratum_names(self.classes)
        return [names[index] for index in self.strata]

    def rows_of(self, slide_ids: Sequence[str]) -> list[int]:
        """The row of each of these slides."""
        row_of = {slide: row for row, slide in enumerate(self.slide_ids)}
        return [row_of[slide] for slide in slide_ids]

    def for_split(self, slide_ids: Sequence[str]) -> dict[str, Any]:
        """What `inner_split` and `member_splits` have to know of these slides."""
        rows = self.rows_of(slide_ids)
        names = get_task(self.task).stratum_names(self.classes)
        return {"patients": list(self.patients[rows]), "labels": list(self.strata[rows]), "names": names}

    def label_of(self, slide: LabelledSlide) -> str:
        """The label as tables have it."""
        return get_task(self.task).label(slide.label, self.classes)

    @property
    def patients(self) -> NDArray[np.str_]:
        """(slide,) patient ids: what a split may not separate."""
        return np.array([slide.patient_id for slide in self.slides], dtype=str)

    @property
    def sites(self) -> NDArray[np.str_]:
        """(slide,) sites, "" where unknown."""
        return np.array([slide.site or "" for slide in self.slides], dtype=str)

    @property
    def unplaced(self) -> list[str]:
        """Slides whose features have no coordinates."""
        return [slide.slide_id for slide in self.slides if not slide.placed]

    def bag(self, index: int) -> Bag:
        """The bag of one slide, read from its file if it is not in memory."""
        slide = self.slides[index]
        bag = self.read_slide(slide)
        return replace(bag, covariates=self.known_of(slide)) if self.covariates else bag

    def known_of(self, slide: LabelledSlide) -> dict[str, str]:
        """The clinical covariates of a slide's patient, by name."""
        return {column.name: cell for column, cell in zip(self.covariates, slide.covariates, strict=True)}

    def digest(self, index: int) -> str:
        """Of what the features of one slide hold, see `content_digest`."""
        return content_digest(self.bag(index).features)

    def for_model(self, task: str, classes: Sequence[str]) -> "Cohort":
        """The same slides, their labels meaning what they mean to a trained model; an error names those it does not
        know. Classes that the cohort lacks stay in their place."""
        names = [self.label_of(slide) for slide in self.slides]
        values = get_task(task).values_of(names, classes).tolist()
        slides = tuple(replace(slide, label=_target(value)) for slide, value in zip(self.slides, values, strict=True))
        return replace(self, slides=slides, classes=tuple(classes), task=task)

    def subset(self, indices: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_]) -> "Cohort":
        """Some of the slides, in the given order (or by a mask); with the same classes."""
        chosen = np.arange(len(self))[np.asarray(indices, dtype=None if len(indices) else np.int64)]
        return replace(self, slides=tuple(self.slides[i] for i in chosen))


def check(
    labels: str | Path | LabelTable,
    features: Folders,
    *,
    mpp: float | None = None,
    patch_size: float | None = None,
    unit: Unit | None = None,
    features_key: str | None = None,
    coords_key: str | None = None,
    skip_missing: bool = False,
    skip_bad: bool = False,
    allow_similar: bool = False,
    verify: bool = False,
    progress: OnProgress | None = None,
    positive: str | None = None,
    ordinal: bool = False,
    task: str | None = None,
    **columns: Unpack[Columns],
) -> Audit:
    """Check a label table and a folder of features: what they hold together, and what is wrong. Of large feature
    files samples are read.

    verify: read them whole.

    Example: `print(check("labels.csv", "features/").summary())`
    """
    choose_task((), task, ordinal)  # refuse an unknown task before files are read
    if isinstance(labels, LabelTable) and columns:
        raise LabelError(f"{', '.join(columns)}: the table has been read already. Pass the columns to read_labels.")
    table = labels if isinstance(labels, LabelTable) else read_labels(labels, task=task, **columns)
    found: dict[str, Path] = {}
    for stem, path in find_bags(one_folder(features), features_key=features_key).items():
        slide_id = slide_name(stem)  # `a.svs.h5` is the slide a, as in the table
        if slide_id in found:
            raise FeatureError(f"{found[slide_id].name} and {path.name} are both features of {slide_id}. Keep one.")
        found[slide_id] = path
    if table.needs_slides:
        table = table.for_slides(found)
    wanted = set(table.rows.loc[table.rows["label"] != "", "slide_id"])
    surveys = survey_all(
        {slide_id: path for slide_id, path in found.items() if slide_id in wanted},
        mpp=mpp, resolutions=_resolutions(table, mpp), whole=verify, progress=progress,
        patch_size=patch_size, unit=unit, features_key=features_key, coords_key=coords_key,
    )  # fmt: skip
    return audit(
        table, found, surveys,
        skip_missing=skip_missing, skip_bad=skip_bad, allow_similar=allow_similar, positive=positive, ordinal=ordinal,
        task=task,
    )  # fmt: skip


def _resolutions(table: LabelTable, mpp: float | None) -> Mapping[str, float]:
    """The mpp of slides as the table has it; what is stated for all must not contradict it."""
    found = table.resolutions
    if mpp is not None and (other := [name for name, own in found.items() if not math.isclose(own, mpp, rel_tol=SAME)]):
        raise LabelError(
            f"{table.source}: column {table.columns['mpp']!r} has another resolution than mpp={mpp} for {len(other)} "
            f"slides: {listed([f'{name} {found[name]:g}' for name in other], 3)}. Omit --slide-mpp (mpp=) to use the "
            "table's values."
        )
    return found


def _build(
    report: Audit,
    entries: Sequence[Entry],
    positive: str | None,
    ordinal: bool,
    task: str | None,
    read: Callable[[LabelledSlide], Bag],
) -> Cohort:
    labels = [entry.label for entry in entries]
    chosen = choose_task(labels, task, ordinal)
    classes, values = chosen.targets(labels, positive)
    slides = tuple(
        LabelledSlide(
            e.slide_id, e.patient_id, _target(value), e.path, e.info.n, e.site, e.info.placed, e.survey, e.covariates
        )
        for e, value in zip(entries, values.tolist(), strict=True)
    )
    encoder = next((entry.info.encoder for entry in entries if entry.info.encoder), None)
    notes = tuple(map(str, report.notes))
    infos = [entry.info for entry in entries]
    tiles, encoding = _common(info.tiles for info in infos), _common(info.encoding for info in infos)
    return Cohort(
        slides, classes, chosen.of(classes).name, infos[0].dim, encoder, _patch_um(infos), tiles, encoding,
        report.left_out, notes, read, report.covariates, report.label_columns, report.overview.guessed,
    )  # fmt: skip


def _target(value: Any) -> Target:
    return tuple(value) if isinstance(value, list) else value


def _common(values: Iterable[T]) -> T | None:
    """What all say; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _patch_um(infos: Sequence[BagInfo]) -> float | None:
    """The usual edge of a patch in microns; None where no file says, or files differ by more than scanners do."""
    known = [
        info.patch_size * scale
        for info in infos
        if info.patch_size and (scale := 1.0 if info.unit == "um" else info.mpp)
    ]
    if not known or max(known) > 1.1 * min(known):
        return None
    return float(np.median(known))


def _info(bag: Bag) -> BagInfo:
    return BagInfo(
        slide_id=bag.slide_id, path=Path(bag.slide_id), format=bag.source, n=len(bag), dim=bag.dim, dtype="float32",
        unit=bag.unit, patch_size=bag.patch_size, mpp=bag.mpp, encoder=bag.encoder, placed=bag.placed,
    )  # fmt: skip
