"""What a model was trained on, so that a cohort that is to validate it can be held against that."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ..bags.spelling import plain_id
from ..cohort.cohort import Cohort
from ..cohort.labels import listed, patient_names
from ..errors import StudyError
from ..files import guarded, replacing, unguarded

TRAINED_ON = "training_slides.csv"  # in the folder of a model; it may be removed before a model is given away


class TrainedSlide(NamedTuple):
    """digest: of the features, see `content_digest`; "" if not known."""

    slide_id: str
    patient_id: str
    patches: int
    digest: str = ""


class Overlap(NamedTuple):
    """Names of slides and patients of a cohort that a model was trained on."""

    slides: tuple[str, ...]  # by id
    patients: tuple[str, ...]  # by id, or by the TCGA barcode of a slide
    content: tuple[str, ...]  # slides whose features are those of a training slide

    @property
    def words(self) -> str:
        """Empty if nothing is shared."""
        kinds = (
            ("{} by slide id", self.slides),
            ("{} by patient id", self.patients),
            ("{} by content (the features of a training slide under any name)", self.content),
        )
        parts = [f"{words.format(len(names))}: {listed(names, 5)}" for words, names in kinds if names]
        return "; ".join(parts)


def write_trained_on(slides: Iterable[TrainedSlide], path: Path) -> None:
    with replacing(path) as temporary:
        guarded(pd.DataFrame(slides, columns=TrainedSlide._fields)).to_csv(temporary, index=False)


def read_trained_on(path: Path) -> tuple[TrainedSlide, ...]:
    """Empty if there is no such file: the model is of an older version, or the file was removed."""
    if not path.is_file():
        return ()
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[list(TrainedSlide._fields)].map(unguarded)
        return tuple(TrainedSlide(a, b, int(c), d) for a, b, c, d in table.itertuples(index=False, name=None))
    except (ValueError, KeyError, OSError) as error:
        raise StudyError(
            f"{path}: not a table of training slides ({error}); expected the columns "
            f"{', '.join(TrainedSlide._fields)}. Restore it, or remove it: overlap is then not checked."
        ) from error


def find_overlap(cohort: Cohort, trained: Sequence[TrainedSlide]) -> Overlap:
    """Slides and patients of a cohort that are among the training slides. Features are read only of slides that have
    as many patches as a training slide."""
    ids = {plain_id(row.slide_id, barcode=False) for row in trained}
    people = {name for row in trained for name in patient_names(row.slide_id, row.patient_id)}
    digests: dict[int, set[str]] = {}
    for row in trained:
        if row.digest:
            digests.setdefault(row.patches, set()).add(row.digest)
    slides, patients, content = [], dict[str, None](), []
    for index, slide in enumerate(cohort.slides):
        if plain_id(slide.slide_id, barcode=False) in ids:
            slides.append(slide.slide_id)
        if people & patient_names(slide.slide_id, slide.patient_id):
            patients[slide.patient_id] = None
        if slide.patches in digests and cohort.digest(index) in digests[slide.patches]:
            content.append(slide.slide_id)
    return Overlap(tuple(slides), tuple(patients), tuple(content))
