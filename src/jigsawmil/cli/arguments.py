"""Arguments and options that several verbs share, which need nothing but their words."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..cohort.options import PATH_OPTIONS, TARGET, CohortOptions
from ..config import settings_of

SlidesArgument = Annotated[list[Path], typer.Argument(help="Slides, or folders of slides.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
RunOut = Annotated[str, typer.Option(help="Folder to write to, or an fsspec URL such as s3://bucket/run.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: accept a guessed positive class.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of worker processes; CPU cores are split between them.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="CPU threads, of all processes together. Default: one per core, or OMP_NUM_THREADS."),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of folds, initial weights and slide order.")]
Memory = Annotated[
    float, typer.Option(help="Gigabytes for slides kept between epochs: all processes together, or each job on Ray.")
]
ExecutorName = Annotated[str, typer.Option("--executor", help="local, or ray for a cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Ray cluster: ray://host:10001, host:6379 or auto. Default: Ray on this machine.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")]
COHORT = {setting.name: setting for setting in settings_of(CohortOptions)}
SlideMpp = Annotated[float | None, typer.Option("--slide-mpp", help=COHORT["mpp"].help)]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help=COHORT["skip_bad"].help)]
PatchSize = Annotated[float | None, typer.Option(help=COHORT["patch_size"].help)]
Unit = Annotated[str | None, typer.Option(help=COHORT["unit"].help)]
FeaturesKey = Annotated[str | None, typer.Option(help=COHORT["features_key"].help)]
CoordsKey = Annotated[str | None, typer.Option(help=COHORT["coords_key"].help)]

Masks = Annotated[
    Path | None, typer.Option(help="Your own outlines of the tissue: a folder of SLIDE.geojson files, or one file.")
]
TargetName = Annotated[
    str | None, typer.Option("--target", help="Target whose maps are drawn, if the model has several.")
]
Attribution = Annotated[
    bool,
    typer.Option(
        "--attribution",
        help="Add input attribution: what each input patch adds to the logit. Takes 30 "
        "to 60 times as long as a prediction.",
    ),
]
NoBoundsShift = Annotated[
    bool,
    typer.Option(
        "--no-bounds-shift",
        help="Leave GeoJSON in level-0 pixels, for viewers that do not crop to the OpenSlide bounds.",
    ),
]


FLAGS = {"mpp": ("--slide-mpp",), "verify": ("--verify", "--full")}  # others are called like the option
T = TypeVar("T")


def with_cohort_options(names: Iterable[str]) -> Callable[[type[T]], type[T]]:
    """Give a group the options of a cohort by these names, after its own fields."""

    def add(cls: type[T]) -> type[T]:
        for name in names:
            kind = Path | None if name in PATH_OPTIONS else COHORT[name].kind
            flags = FLAGS.get(name, (f"--{name.replace('_', '-')}",))
            cls.__annotations__[name] = Annotated[kind, typer.Option(*flags, help=COHORT[name].help)]
            setattr(cls, name, COHORT[name].default)
        return cls

    return add


@dataclass(frozen=True)
@with_cohort_options(name for name in COHORT if name not in TARGET)
class TableOptions:
    """The cohort: a label table and a folder of features."""

    labels: Annotated[Path, typer.Option(help="Label table: CSV, TSV or XLSX.")]
    features: Annotated[
        list[Path],
        typer.Option(
            help="Folder of feature files (TRIDENT, CLAM, STAMP, slideflow, ...). Repeat it to join the features of "
            "several encoders on the same patches."
        ),
    ]

    def given(self) -> dict[str, Any]:
        from ..bags.join import one_folder

        own = {**asdict(self), "features": one_folder(self.features)}
        values = {key: value for key, value in own.items() if value is not None and value is not False}
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


@dataclass(frozen=True)
class ReadingOptions:
    """If the feature files do not state it."""

    mpp: SlideMpp = None
    patch_size: PatchSize = None
    unit: Unit = None
    features_key: FeaturesKey = None
    coords_key: CoordsKey = None

    @property
    def reading(self) -> dict[str, Any]:
        return asdict(self)
