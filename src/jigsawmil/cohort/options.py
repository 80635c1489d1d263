"""How a label table and its features are read: each option with its default and help, in one place.

The keys of a cohort in a study file and the options of the command line are made from these fields; a test holds
them equal to the parameters of `Cohort.read`.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..config import setting

READING = ("mpp", "patch_size", "unit", "features_key", "coords_key")  # options of `read_bag`
TARGET = ("positive", "ordinal", "task")  # what the labels mean
PATH_OPTIONS = ("slide_table",)
FOLDS = 5  # of a cross-validation, where nobody says otherwise


@dataclass(frozen=True, kw_only=True)
class CohortOptions:
    slide_column: str | None = setting(None, "Column of slide ids.")
    patient_column: str | None = setting(None, "Column of patient ids.")
    label_column: str | None = setting(None, "Column of labels.")
    label_columns: str | None = setting(None, "Columns of labels, one per target of multilabel: er,her2.")
    site_column: str | None = setting(None, "Column of sites.")
    slide_table: str | None = setting(None, "STAMP's second table: patient id and slide file name.")
    mpp_column: str | None = setting(None, "Column of microns per level-0 pixel of each slide.")
    sheet: str | None = setting(None, "Sheet of an XLSX file.")
    covariates: str | None = setting(
        None, "Clinical columns of the label table for models that use them, comma separated: age,sex,stage."
    )
    mpp: float | None = setting(None, "Microns per level-0 pixel, if not stored in the files.")
    patch_size: float | None = setting(None, "Edge of a patch in level-0 pixels, if not stored in the files.")
    unit: str | None = setting(None, "Unit of coordinates, px or um, if not stored in the files.")
    features_key: str | None = setting(
        None, "Name of the feature array in the files, or of the model in a LazySlide store."
    )
    coords_key: str | None = setting(None, "Name of the coordinate array in the files.")
    skip_missing: bool = setting(False, "Leave out labelled slides without features, and record them.")
    skip_bad: bool = setting(
        False,
        "Leave out slides whose features cannot be read or are bad (NaN, all 0, misplaced), and record them.",
    )
    verify: bool = setting(
        False, "Read whole feature files, not samples of them, to find faults and to detect changes on resuming."
    )
    allow_similar: bool = setting(
        False,
        "Treat patients and sites whose ids differ only in spelling as different, and accept the same features under "
        "two patients.",
    )
    positive: str | None = setting(None, "The positive class of two. Default: the last in sorted order.")
    ordinal: bool = setting(False, "Labels are grades, such as ISUP 0 to 5.")
    task: str | None = setting(
        None,
        "Task: binary, multiclass or ordinal; regression (--label-column age); survival (--time-column "
        "OS_MONTHS --event-column OS_STATUS); multilabel, several targets at once (--label-columns er,her2). Default: "
        "binary for two classes, multiclass for more.",
    )
    time_column: str | None = setting(None, "Column of times (task survival).")
    event_column: str | None = setting(None, "Column that says whether the event was seen (task survival).")

    def given(self) -> dict[str, Any]:
        """What differs from the defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def only(self, names: tuple[str, ...]) -> "CohortOptions":
        """These options as they are, the others by default."""
        return CohortOptions(**{name: getattr(self, name) for name in names})

    @property
    def reading(self) -> dict[str, Any]:
        """The options of `read_bag`."""
        return {name: getattr(self, name) for name in READING}

    def in_folder(self, folder: str | Path) -> "CohortOptions":
        """The same with its paths relative to a folder."""
        given = {name: getattr(self, name) for name in PATH_OPTIONS}
        moved: dict[str, Any] = {name: str(Path(folder) / path) for name, path in given.items() if path}
        return replace(self, **moved)
