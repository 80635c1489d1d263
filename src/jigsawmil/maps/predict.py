"""From slides, or their features, to predictions and maps on disk."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..bags.names import slide_name
from ..cohort.labels import listed, patients_of, read_known, read_patients
from ..errors import ConfigError, FeatureError, LabelError
from ..files import check_target, write_csv, writing_to
from ..slides.extract_one import Extracted, check_masks
from ..slides.slide import open_slide
from ..tasks import get_task
from ..train.answers import Answers
from ..train.apply import Known, apply_groups, check_known, covariates_of_card, groups_of, notes_on
from ..train.checkpoint import load_model
from ..train.covariates import added_by_covariates
from ..train.from_slides import Extraction, SlideOptions, sort_inputs
from ..train.infer import Seen
from ..train.new_slides import look_over
from .heatmap import write_heatmap
from .patch_maps import PatchMaps, seen_maps


class SlidePredictions(NamedTuple):
    """table: slide_id (patient_id, if the model pools patients), prediction at the threshold that training fixed,
    probabilities, of an ensemble logit_std, the standard deviation of the logit over its members, and what each
    clinical covariate adds to the logit if the model uses some. extracted: what became of each slide that features had
    to be made of; those that failed are not in the table. patients: the same per patient, by the mean logit of its
    slides; None if it is not known whose the slides are. failed: slides whose features are bad, cannot be read or
    answered, or do not fit the model, and why; they are not in the table either. left_out: bad slides that were to be
    left out, and why. notes: on slides that were predicted."""

    table: pd.DataFrame
    extracted: list[Extracted]
    patients: pd.DataFrame | None = None
    failed: dict[str, str] = {}  # noqa: RUF012
    left_out: dict[str, str] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()


def predict_slides(
    model: str | Path,
    inputs: str | Path | Iterable[str | Path],
    *,
    out: str | Path = "predictions.csv",
    heatmap: str | Path | None = None,
    attention: str | Path | None = None,
    target: str | None = None,
    attribution: bool = False,
    device: str = "auto",
    patch_size: float | None = None,
    unit: str | None = None,
    features_key: str | None = None,
    coords_key: str | None = None,
    labels: str | Path | None = None,
    patient_column: str | None = None,
    slide_column: str | None = None,
    skip_bad: bool = False,
    **options: Any,
) -> SlidePredictions:
    """Apply a model to slides, or to feature files, and write what `jigsawmil predict` writes.

    model: folder of a trained model. inputs: slides, feature files, or folders of either. out: CSV to write; features
    of slides are kept in a folder beside it. heatmap: folder for one picture per slide. attention: folder for one CSV
    per slide: x, y, attention. target: whose maps are drawn, of several. attribution: the pictures also show that of
    the input patches. patch_size, unit, features_key, coords_key: as in `read_bag`. labels: table that says whose each
    slide is, with the names of its columns; TCGA barcodes say it themselves. One row per patient is then written beside
    `out`. skip_bad: leave out slides whose features cannot be read or are bad, as `Cohort.read` does. options: of
    `SlideOptions`.

    Example: `predict_slides("model", "slides", heatmap="maps").table`
    """
    given = [inputs] if isinstance(inputs, str | Path) else inputs
    predictor = SlidePredictor(
        Path(model), given, out=Path(out), heatmap=heatmap, attention=attention, target=target,
        attribution=attribution, device=device, patch_size=patch_size, unit=unit,
        features_key=features_key, coords_key=coords_key, options=SlideOptions(**options),
        patients=patient_table(labels, patient_column=patient_column, slide_column=slide_column),
        labels=labels, slide_column=slide_column, skip_bad=skip_bad,
    )  # fmt: skip
    extracted = list(predictor.extraction.run()) if predictor.extraction else []
    for _ in predictor.run():
        pass
    by_patient = pd.DataFrame(predictor.patient_rows) if predictor.patient_rows else None
    failed = {name: str(error) for name, error in predictor.failed.items()}
    return SlidePredictions(
        pd.DataFrame(predictor.rows), extracted, by_patient, failed, predictor.left_out,
        (*predictor.notes, *predictor.remarks),
    )  # fmt: skip


def patient_table(path: str | Path | None, **columns: str | None) -> dict[str, str] | None:
    """Slide -> patient from a table, see `read_patients`; None without one."""
    if path is not None:
        return read_patients(path, **columns)
    if given := [f"--{name.replace('_', '-')}" for name, value in columns.items() if value]:
        raise ConfigError(f"{' and '.join(given)}: no table for these columns. Give it with --labels.")
    return None


class SlidePredictor:
    """`predict_slides` in two steps, `extraction.run()` and `run()`, for a caller that shows how far it is.

    What can be refused is refused when it is made. rows: the predictions so far. patient_rows: one per patient, at the
    end, if it is known whose the slides are: by `patients`, or by TCGA barcodes. failed: slides (or patients) that
    are bad, cannot be read or answered, or do not fit, and why; an error is raised only if all of them fail. left_out:
    bad slides under `skip_bad`, and why. remarks: on slides that were predicted. notes: on their covariates.
    """

    def __init__(
        self,
        model: Path,
        inputs: Iterable[str | Path],
        *,
        out: Path,
        heatmap: str | Path | None = None,
        attention: str | Path | None = None,
        target: str | None = None,
        attribution: bool = False,
        device: str = "auto",
        patch_size: float | None = None,
        unit: str | None = None,
        features_key: str | None = None,
        coords_key: str | None = None,
        options: SlideOptions,
        patients: Mapping[str, str] | None = None,
        labels: str | Path | None = None,
        slide_column: str | None = None,
        skip_bad: bool = False,
    ) -> None:
        self._model, self.card = load_model(model)
        self.inputs = sort_inputs(inputs)
        slides, mpp = self.inputs.slides, options.slide_mpp
        check_target(out)
        if slides and (patch_size or unit or features_key or coords_key or (self.inputs.features and mpp)):
            raise ConfigError(
                "--patch-size, --unit, --features-key and --coords-key apply to feature files, --slide-mpp also to "
                "slides, and both were given. Predict slides and feature files in two commands."
            )
        if attribution and heatmap is None:
            raise ConfigError("--attribution is drawn in the pictures of --heatmap. Give --heatmap FOLDER.")
        if heatmap is not None or target is not None:
            get_task(self.card.model.task).find_target(self.card.classes, target)
        check_masks(options.masks, slides)
        cache = out.with_name(f"{out.stem}-features")
        self.extraction = Extraction(self.card, slides, cache, options, device) if slides else None
        self._answers = Answers(self.card)
        self.task, self.rows = self._answers.task, list[dict[str, Any]]()
        self.patient_rows = list[dict[str, Any]]()
        self.failed, self.left_out, self.remarks = dict[str, FeatureError](), dict[str, str](), list[str]()
        self._skip_bad = skip_bad
        self.patient_of = self._whose([*self.inputs.features, *slides], patients)
        self._known = self._covariates(labels, slide_column)
        names = [slide_name(file.name) for file in [*self.inputs.features, *slides]]
        self.notes = check_known(self.card, [(name, self._known.get(name)) for name in names])
        self._reading = {
            "mpp": None if slides else mpp, "patch_size": patch_size, "unit": unit, "features_key": features_key,
            "coords_key": coords_key,
        }  # fmt: skip
        self._out, self._heatmap, self._attention, self._attribution = out, heatmap, attention, attribution
        self._target = target
        self._device, self._mpp, self._words = device, mpp, f"{self.card.title}, model {model.name}"

    @property
    def files(self) -> list[Path]:
        """Feature files: those given, and those that were made."""
        return [*self.inputs.features, *(self.extraction.files if self.extraction else ())]

    def _covariates(self, labels: str | Path | None, slide_column: str | None) -> Known:
        names = [column.name for column in covariates_of_card(self.card)]
        if names and labels is None:
            raise ConfigError(f"The model uses {', '.join(names)}. Give the table that has these columns: --labels.")
        return read_known(labels, names, slide_column=slide_column) if names and labels is not None else {}

    def run(self) -> Iterator[Seen]:
        """What the model made of each; all files but the tables are written on the way, the tables at the end."""
        whose = self.patient_of
        every = groups_of(self.files, self.card, whose or None)
        look = look_over(
            every, self.card, self._fail, patient_of=whose, skip_bad=self._skip_bad, **self._reading
        )  # fmt: skip
        self.left_out = look.left_out
        if self.failed and not look.groups:
            raise next(iter(self.failed.values()))
        self.remarks = [*look.notes, *notes_on(look.infos, self.card)]
        found = apply_groups(
            self._model, self.card, look.groups, device=self._device, known=self._known, on_failure=self._fail,
            **self._reading,
        )  # fmt: skip
        for seen in found:
            patient = {"patient_id": whose[seen.name]} if seen.name in whose else {}
            added = added_by_covariates(self._model, seen)
            case = {"patient_id" if self.card.level == "patient" else "slide_id": seen.name}
            self.rows.append({**case, **patient, **self._answers.add(seen), **added})
            if self._attention is not None:
                write_attention(seen, Path(self._attention))
            if self._heatmap is not None:
                for maps in seen_maps(self._model, self.card, seen, attribution=self._attribution):
                    self._draw(maps.of_target(self._target), Path(self._heatmap))
            yield seen
        if self.failed and not self.rows:
            raise next(iter(self.failed.values()))
        if self.rows and whose and self.card.level == "slide":
            names, rows = self._answers.of_patients(whose)
            counts = Counter(whose[name] for name in self._answers.names)
            self.patient_rows = [
                {"patient_id": name, "slides": counts[name], **row} for name, row in zip(names, rows, strict=True)
            ]
            write_csv(pd.DataFrame(self.patient_rows), self.patients_out)
        if self.rows:
            write_csv(pd.DataFrame(self.rows), self._out)

    def _fail(self, name: str, error: FeatureError) -> None:
        self.failed[name] = error

    @property
    def patients_out(self) -> Path:
        """The table of patients, beside that of slides."""
        return self._out.with_name(f"{self._out.stem}-patients{self._out.suffix}")

    @staticmethod
    def _whose(files: Iterable[Path], table: Mapping[str, str] | None) -> dict[str, str]:
        """Slide -> patient; empty if nobody says."""
        names = [slide_name(file.name) for file in files]
        if table is None:
            found, _ = patients_of(names)
            return {} if found == names else dict(zip(names, found, strict=True))
        if missing := [name for name in names if name not in table]:
            raise LabelError(
                f"No patient for {len(missing)} of {len(names)} slides: {listed(missing, 5)}; expected a row for each "
                "in the table of --labels. Add them, or leave --labels out."
            )
        return {name: table[name] for name in names}

    def _draw(self, maps: PatchMaps, folder: Path) -> None:
        """One picture: over the slide if it was given, else over its patches."""
        slide_id = maps.bag.slide_id
        file = next(file for file in self.files if slide_name(file.name) == slide_id)
        slides = self.extraction.files if self.extraction else {}
        given = open_slide(slides[file]) if file in slides else None
        if given is not None and not given.says_mpp:
            given.mpp = self._mpp  # stated for those slides that do not say
        with writing_to(folder), given or nullcontext():
            write_heatmap(maps, folder / f"{slide_id}.png", slide=given, features=file, model=self._words)


def write_attention(seen: Seen, folder: Path) -> None:
    """`<slide>.csv` with x, y, attention, in the order of the slide's feature file."""
    for bag, values in zip(seen.bags, seen.attention, strict=True):
        places = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
        write_csv(places, folder / f"{bag.slide_id}.csv")
