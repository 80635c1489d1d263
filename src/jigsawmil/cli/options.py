"""Options that several verbs share, in groups: a verb takes a group as one argument."""

import copy
import functools
import inspect
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from ..bags.tile_spec import DEFAULT_TILES, TileSpec
from ..config import choose, settings_of
from ..errors import ConfigError
from ..slides.encoders import EncoderSpec
from ..slides.extract import ExtractSettings
from ..study.executors import open_gpus
from ..study.job import CohortSpec
from ..study.study import cohort_spec
from ..train.devices import pick_device, read_device
from ..train.settings import Settings

SlidesArgument = Annotated[list[Path], typer.Argument(help="Slides, or folders of slides.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
RunOut = Annotated[str, typer.Option(help="Folder to write to, or an fsspec URL such as s3://bucket/run.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes; the cores are shared out among them.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides folds, weights and order.")]
Memory = Annotated[float, typer.Option(help="Memory for prepared slides: of all processes, or of each job on Ray.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="local, or ray for a cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Ray cluster: ray://host:10001, host:6379 or auto. Default: Ray on this machine.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")]
SlideMpp = Annotated[
    float | None, typer.Option("--slide-mpp", help="Microns per level-0 pixel, where the files do not say.")
]
PatchSize = Annotated[float | None, typer.Option(help="Edge of a patch in level-0 pixels, where the files do not say.")]
Unit = Annotated[str | None, typer.Option(help="Unit of coordinates, px or um, where the files do not say.")]

Masks = Annotated[
    Path | None, typer.Option(help="Your own outlines of the tissue: a folder of SLIDE.geojson files, or one file.")
]
NoBoundsShift = Annotated[
    bool, typer.Option("--no-bounds-shift", help="GeoJSON of viewers that do not crop to the OpenSlide bounds.")
]


@dataclass(frozen=True)
class WhereOptions:
    """Where jobs run."""

    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes; the cores are shared out among them. Default: one a GPU where the device is auto or "
            "cuda, else 1.",
        ),
    ] = None
    executor: ExecutorName = "local"
    address: Address = None
    cpus: Annotated[int, typer.Option(min=1, help="CPUs, and so threads, of a job on Ray.")] = 1

    def __post_init__(self) -> None:
        choose("--executor", self.executor, ("local", "ray"))
        if self.executor == "local" and (self.address is not None or self.cpus != 1):
            raise ConfigError("--address and --cpus are of a Ray cluster. Give --executor ray with them.")
        if self.executor == "ray" and self.jobs is not None:
            raise ConfigError(
                f"--jobs {self.jobs} with --executor ray: it counts processes of this machine, and Ray starts as many "
                "jobs as its nodes have room for. Leave --jobs out."
            )

    def processes(self, devices: Iterable[str]) -> int:
        """Of this machine: as many as asked for, or one for each GPU that the jobs' devices leave open."""
        return self.jobs or (max(1, open_gpus(devices)) if self.executor == "local" else 1)

    def check_device(self, name: str) -> None:
        """Refuse a device that jobs cannot have, before anything is read. What a Ray worker has, only it knows."""
        if self.executor == "local":
            pick_device(name)
        elif (device := read_device(name)).type == "cuda" and device.index is not None:
            raise ConfigError(
                f"device: found {name!r}, expected auto, cpu or cuda with --executor ray: a job sees only the GPU that "
                'Ray gives it. Say --device cuda, or device = "cuda" in a study file.'
            )


HERE = WhereOptions()


@dataclass(frozen=True)
class TileOptions:
    """Tissue and tiles."""

    patch: Annotated[
        int | None, typer.Option(help="Edge of a tile in pixels. Default: what the encoder asks for, mostly 256.")
    ] = None
    mpp: Annotated[
        float | None, typer.Option(help="Microns a pixel of a tile. Default: what the encoder asks for, mostly 0.5.")
    ] = None
    overlap: Annotated[int, typer.Option(help="Pixels shared with the next tile.")] = DEFAULT_TILES.overlap
    share: Annotated[float, typer.Option(help="Share of a tile that must be tissue.")] = DEFAULT_TILES.share
    slide_mpp: SlideMpp = None
    masks: Masks = None
    no_bounds_shift: NoBoundsShift = False

    def settings(self, encoder: EncoderSpec | None = None, **others: Any) -> ExtractSettings:
        asked = encoder or DEFAULT_TILES
        tiles = TileSpec(
            patch=asked.patch if self.patch is None else self.patch,
            mpp=asked.mpp if self.mpp is None else self.mpp,
            overlap=self.overlap,
            share=self.share,
            drawn=self.masks is not None,
        )
        shift = not self.no_bounds_shift
        return ExtractSettings(tiles=tiles, slide_mpp=self.slide_mpp, masks=self.masks, shift=shift, **others)


@dataclass(frozen=True)
class TableOptions:
    """The cohort: a label table and a folder of features."""

    labels: Annotated[Path, typer.Option(help="Label table: CSV, TSV or XLSX.")]
    features: Annotated[Path, typer.Option(help="Folder of feature files (TRIDENT, CLAM, STAMP, slideflow, ...).")]
    slide_column: Annotated[str | None, typer.Option(help="Column of slide ids.")] = None
    patient_column: Annotated[str | None, typer.Option(help="Column of patient ids.")] = None
    label_column: Annotated[str | None, typer.Option(help="Column of labels.")] = None
    site_column: Annotated[str | None, typer.Option(help="Column of sites.")] = None
    slide_table: Annotated[Path | None, typer.Option(help="STAMP's second table, patient to slide file.")] = None
    sheet: Annotated[str | None, typer.Option(help="Sheet of an XLSX file.")] = None
    mpp: SlideMpp = None
    patch_size: PatchSize = None
    unit: Unit = None
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out labelled slides without features, and record them.")
    ] = False

    def given(self) -> dict[str, Any]:
        values = {key: value for key, value in asdict(self).items() if value is not None and value is not False}
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


@dataclass(frozen=True)
class TargetOptions:
    """What the labels mean."""

    positive: Annotated[
        str | None, typer.Option(help="The positive class of two. Default: the last in sorted order.")
    ] = None
    ordinal: Annotated[bool, typer.Option("--ordinal", help="Labels are grades, such as ISUP 0 to 5.")] = False

    def source(self, table: TableOptions) -> CohortSpec:
        target = {key: value for key, value in asdict(self).items() if value}
        return cohort_spec({**table.given(), **target})


C = TypeVar("C")


def with_settings(cls: type[C]) -> type[C]:
    """Give a group of options a field for each setting that has an option of its own, before its other fields."""
    fields_of: dict[str, Any] = {}
    for setting in settings_of(Settings):
        if setting.option:
            textual = setting.kind == str | float  # the command line has text only, see `Settings.from_flat`
            flag = f"--{setting.name.rstrip('_').replace('_', '-')}"
            fields_of[setting.name] = Annotated[str if textual else setting.kind, typer.Option(flag, help=setting.help)]
            setattr(cls, setting.name, str(setting.default) if textual else setting.default)
    cls.__annotations__ = {**fields_of, **cls.__annotations__}
    return cls


@dataclass(frozen=True)
@with_settings
class MethodOptions:
    """The method and its training."""

    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other setting: --set heads=4 --set gated=true. docs/settings.md lists them; so does the error "
            "for an unknown name.",
        ),
    ] = None

    def settings(self, method: str, where: WhereOptions = HERE) -> Settings:
        values = asdict(self)
        more = key_values(values.pop("more") or [])
        own = {name.rstrip("_") for name in (*values, "method")}
        for key in more:
            if key in own:  # two ways to say one thing can contradict each other
                raise ConfigError(f"--set {key}: this setting has an option of its own, see --help. Use that one.")
            choose("--set", key, [s.name for s in settings_of(Settings) if s.name.rstrip("_") not in own])
        where.check_device(values["device"])  # before anything is read
        return Settings.from_flat({**values, **more, "method": method})


def key_values(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE read as TOML, so that 4, 0.5, true and words are what they look like."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign:
            raise ConfigError(f"--set {pair}: expected KEY=VALUE, such as --set heads=4.")
        try:
            values[key.strip()] = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    return values


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb take a group of options as one argument: its fields become the verb's, in a panel of --help."""
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        group = hints[name]
        if not (isinstance(group, type) and is_dataclass(group)):
            parameters.append(parameter.replace(annotation=group))
            continue
        groups[name] = group
        inner = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            shown = _in_panel(inner[field.name], (group.__doc__ or "").rstrip("."))
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, keyword, default=default, annotation=shown))

    @functools.wraps(verb)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    ordered = sorted(parameters, key=lambda p: p.kind is inspect.Parameter.KEYWORD_ONLY)
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in ordered}
    return call


def _in_panel(annotation: Any, title: str) -> Any:
    """The same option, shown under a title; a copy, for verbs share options."""
    kind, option = get_args(annotation)
    option = copy.copy(option)
    option.rich_help_panel = title
    return Annotated[kind, option]
