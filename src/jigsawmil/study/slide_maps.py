"""Maps of single slides, by a model or out of fold by a run, and their exports for other programs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..bags.names import slide_name
from ..config import choose
from ..errors import ConfigError, FeatureError, SlideError, StudyError
from ..files import writing_to
from ..maps.geometry import Squares, check_slide, level0_squares
from ..maps.patch_maps import PatchMaps, explain, explain_each
from ..maps.qupath import write_geojson
from ..maps.tables import write_h5ad, write_maps_csv
from ..slides.find import only_file, slides_below
from ..slides.slide import open_slide
from ..train.checkpoint import CARD, load_model
from ..train.from_slides import feature_files
from .cases import case_maps, cases, run_maps
from .run import Run, is_run, open_run

FORMATS = ("geojson", "csv", "h5ad")


class SlideMaps(NamedTuple):
    """The maps of one slide. features: its file. model: which model made them, in words."""

    maps: PatchMaps
    features: Path
    model: str


def maps_of(
    source: Path,
    item: str,
    *,
    variant: str | None = None,
    cohort: str | None = None,
    features: Path | None = None,
    target: str | None = None,
    device: str = "auto",
    attribution: bool = False,
    **reading: Any,
) -> SlideMaps:
    """The maps of one slide, by its id in a run or by its feature file.

    source: folder of a model or of a run. variant, cohort: of a run. features: folder, if the files were moved.
    target: which one, of several.
    attribution: also of the input patches, 30 to 60 times the time of a prediction.
    reading: options of `read_bag`, for a model.
    """
    path = Path(item)
    if is_run(source):
        _as_studied(reading)
        run, slide_id = open_run(source).for_target(target), slide_name(path.name) if path.exists() else item
        folder = path.parent if path.exists() else features
        of_run: dict[str, Any] = {"variant": variant, "cohort": cohort, "features": folder}
        maps = run_maps(run, slide_id, **of_run, device=device, attribution=attribution)
        file = run.features_of(slide_id, cohort=cohort, folder=folder)
        rows = run.slides[
            (run.slides["slide_id"] == slide_id) & (run.slides["cohort"] == run.cohort_of(slide_id, cohort))
        ]
        label = "".join(f"true label: {label}; " for label in rows["label"][:1])
        return SlideMaps(maps, file, label + _words(run, slide_id, variant, cohort) + _about(target))
    model, card = load_model(_model_folder(source, variant, cohort, features))
    if not path.exists():
        raise FeatureError(
            f"{item}: no such file. Expected the feature file of a slide; slide ids work only with a run."
        )
    [maps] = explain(model, card, path, device=device, attribution=attribution, **reading)
    alone = "; it pools patients, and sees this slide alone" if card.level == "patient" else ""
    return SlideMaps(maps.of_target(target), path, f"{card.title}, model {source.name}{alone}{_about(target)}")


def every_map(
    source: Path,
    which: Sequence[str] = (),
    *,
    variant: str | None = None,
    cohort: str | None = None,
    features: Path | None = None,
    target: str | None = None,
    device: str = "auto",
    attribution: bool = False,
    **reading: Any,
) -> tuple[int, Iterator[SlideMaps]]:
    """How many slides, and the maps of each, as `maps_of`. which: slides of a run (none: all), or feature files."""
    wanted_maps = {"neighbours": False, "attribution": attribution}
    if is_run(source):
        _as_studied(reading)
        run = open_run(source).for_target(target)
        name = the_cohort(run, cohort)
        for slide_id in which:
            run.cohort_of(slide_id, name)  # refuses what is no slide of it
        wanted = set(which)
        chosen = [case for case in cases(run, name, variant=variant) if not wanted or wanted & {*case.slides}]
        total = len(wanted) or sum(len(case.slides) for case in chosen)

        def of_run() -> Iterator[SlideMaps]:
            for case in chosen:
                for maps in case_maps(run, case, features=features, device=device, **wanted_maps):
                    slide_id = maps.bag.slide_id
                    if not wanted or slide_id in wanted:
                        file = run.features_of(slide_id, cohort=name, folder=features)
                        yield SlideMaps(maps, file, _words(run, slide_id, variant, name) + _about(target))

        return total, of_run()
    model, card = load_model(_model_folder(source, variant, cohort, features))
    if not which:
        raise ConfigError("A model needs feature files: jigsawmil export MODEL features --out maps. Runs know theirs.")
    files = {slide_name(path.name): path for path in feature_files([Path(item) for item in which])}
    found = explain_each(model, card, [*files.values()], device=device, **wanted_maps, **reading)
    words = f"{card.title}, model {source.name}{_about(target)}"
    return len(files), (SlideMaps(maps.of_target(target), files[maps.bag.slide_id], words) for maps in found)


def _as_studied(reading: dict[str, Any]) -> None:
    if reading.get("patch_size") or reading.get("unit"):
        raise ConfigError("--patch-size and --unit: features of a run are read as in its study. Leave them out.")


def _model_folder(source: Path, *of_runs: object) -> Path:
    if not (source / CARD).is_file():
        what = "neither a run (study.json) nor a model (model.json) is in it" if source.exists() else "no such folder"
        raise StudyError(
            f"{source}: {what}. Give the folder that `jigsawmil compare`, `study` or `train` wrote to (--out)."
        )
    if any(of_runs):
        raise ConfigError(f"--variant, --cohort and --features belong to a run, and {source} holds a single model.")
    return source


def the_cohort(run: Run, cohort: str | None) -> str:
    """The cohort that is meant; it must be named if a run has several."""
    if cohort is None and len(run.cohorts) > 1:
        raise ConfigError(f"{run.folder} has the cohorts {', '.join(run.cohorts)}. Name one of them with --cohort.")
    choose("--cohort", cohort or run.cohorts[0], run.cohorts)
    return cohort or run.cohorts[0]


def _words(run: Run, slide_id: str, variant: str | None, cohort: str | None) -> str:
    jobs = run.jobs_of(slide_id, variant=variant, cohort=cohort)
    job, what = jobs[0], "a model" if len(jobs) == 1 else f"{len(jobs)} models"
    return f"{job.variant}, seed {job.seed}, fold {job.fold}: {what} that never saw this slide"


def _about(target: str | None) -> str:
    return f"; target {target}" if target else ""


class MapExport:
    """Write maps of slides for QuPath (geojson), tables (csv) or scverse (h5ad); places in level-0 pixels.

    slides: folder of the slides, for their OpenSlide bounds and mpp. bounds: shift GeoJSON by these bounds, as QuPath
    crops MRXS and some other slides to them. shifted: how many were shifted so far.
    """

    def __init__(
        self, out: Path, format: str = "geojson", *, slides: Path | None = None, mpp: float | None = None,
        bounds: bool = True,
    ) -> None:  # fmt: skip
        choose("--format", format, FORMATS)
        self._out, self._format, self._mpp, self._bounds = out, format, mpp, bounds
        self._slides = None if slides is None else slides_below(slides)
        self.shifted = 0

    def write(self, item: SlideMaps) -> Path:
        """One file, named after the slide."""
        path = self._out / f"{item.maps.bag.slide_id}.{self._format}"
        squares, shift = _placed(item, self._slides, self._mpp)
        with writing_to(self._out):
            if self._format == "geojson":
                shift = shift if self._bounds else (0.0, 0.0)
                self.shifted += shift != (0.0, 0.0)
                write_geojson(item.maps, squares, path, shift=shift)
            elif self._format == "csv":
                write_maps_csv(item.maps, squares, path)
            else:
                write_h5ad(item.maps, squares, path, model=item.model)
        return path


def _placed(
    item: SlideMaps, slide_files: dict[str, list[Path]] | None, mpp: float | None
) -> tuple[Squares, tuple[float, float]]:
    """The patches in level-0 pixels, and the corner of the OpenSlide bounds if the slide was given."""
    bag = item.maps.bag
    if slide_files is None:
        return level0_squares(bag, mpp), (0.0, 0.0)
    if bag.slide_id not in slide_files:
        raise SlideError(
            f"No slide {bag.slide_id} among the {len(slide_files)} in the folder of --slides. Expected a file of that "
            "name; leave --slides out to do without its bounds."
        )
    with open_slide(only_file(bag.slide_id, slide_files), mpp) as slide:
        return check_slide(bag, slide, item.features), (float(slide.bounds.x), float(slide.bounds.y))
