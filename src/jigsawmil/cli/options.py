"""Options that several verbs share, in groups: a verb takes a group as one argument."""

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..cohort.options import TARGET
from ..config import choose, settings_of
from ..errors import ConfigError
from ..nn.options import METHODS
from ..train.presets import DEFAULT_PRESET, PAPER
from ..train.settings import Settings, unused
from .arguments import Address, ExecutorName, TableOptions, Threads, with_cohort_options

if TYPE_CHECKING:
    from ..study.study import CohortSpec


@dataclass(frozen=True)
class WhereOptions:
    """Where jobs run."""

    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of worker processes; CPU cores are split between them. Default: one per GPU if the device is "
            "auto or cuda, else 1.",
        ),
    ] = None
    threads: Threads = None
    executor: ExecutorName = "local"
    address: Address = None
    cpus: Annotated[int, typer.Option(min=1, help="CPUs (and threads) per job on Ray.")] = 1

    def __post_init__(self) -> None:
        choose("--executor", self.executor, ("local", "ray"))
        if self.executor == "local" and (self.address is not None or self.cpus != 1):
            raise ConfigError("--address and --cpus apply to Ray only. Add --executor ray, or leave them out.")
        if self.executor == "ray" and self.threads is not None:
            raise ConfigError(f"--threads {self.threads} applies to this machine. With --executor ray, give --cpus.")
        if self.executor == "ray" and self.jobs is not None:
            raise ConfigError(
                f"--jobs {self.jobs} with --executor ray: --jobs counts processes on this machine; Ray starts as many "
                "jobs as its nodes have room for. Leave --jobs out."
            )

    def processes(self, devices: Iterable[str]) -> int:
        """Of this machine: as many as asked for, or one for each GPU that the jobs' devices leave open."""
        from ..study.executors import open_gpus

        return self.jobs or (max(1, open_gpus(devices)) if self.executor == "local" else 1)

    def check_device(self, name: str) -> None:
        """Refuse a device that jobs cannot have, before anything is read. What a Ray worker has, only it knows."""
        from ..train.devices import pick_device, read_device

        if self.executor == "local":
            pick_device(name)
        elif (device := read_device(name)).type == "cuda" and device.index is not None:
            raise ConfigError(
                f"device: found {name!r}, expected auto, cpu or cuda with --executor ray: a job sees only the GPU that "
                'Ray gives it. Use --device cuda, or device = "cuda" in a study file.'
            )


HERE = WhereOptions()


@dataclass(frozen=True)
@with_cohort_options(TARGET)
class TargetOptions:
    """What the labels mean."""

    def given(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}

    def source(self, table: TableOptions) -> "CohortSpec":
        from ..study.study import cohort_spec

        return cohort_spec({**table.given(), **self.given()})


C = TypeVar("C")


def with_settings(cls: type[C]) -> type[C]:
    """Give a group of options a field for each setting that has an option of its own, after its first field.

    An option that is not given is None: then the preset decides."""
    fields_of: dict[str, Any] = {}
    for setting in settings_of(Settings):
        if setting.option:
            textual = setting.kind == str | float  # the command line has text only, see `Settings.from_flat`
            name = setting.name.rstrip("_").replace("_", "-")
            on = any(row.settings.get(setting.name) is True for row in METHODS.values())  # in a method: it can be off
            flag = f"--{name}/--no-{name}" if on else f"--{name}"
            paper = PAPER.get(setting.name, setting.default)
            values = f"{setting.default}" + (f" ({paper} with --preset paper)" if paper != setting.default else "")
            default = f" Default: {values}." if values else ""  # empty: it depends on the task, and the help says how
            option = typer.Option(flag, help=f"{setting.help}{default}")
            fields_of[setting.name] = Annotated[(str if textual else setting.kind) | None, option]
            setattr(cls, setting.name, None)
    first, *rest = cls.__annotations__.items()
    cls.__annotations__ = dict([first, *fields_of.items(), *rest])
    return cls


@dataclass(frozen=True)
@with_settings
class MethodOptions:
    """The method and its training."""

    preset: Annotated[
        str,
        typer.Option(
            help="Settings to start from: default (recommended), or paper (arXiv 2603.20386, see docs/paper.md). Other "
            "options override them."
        ),
    ] = DEFAULT_PRESET
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other setting: --set heads=4 --set hidden=128. docs/settings.md lists them. An unknown name "
            "prints the valid ones.",
        ),
    ] = None
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="Option of a model from outside this package (package.module:factory), such as --option heads=4.",
        ),
    ] = None

    def each(self, methods: Iterable[str], where: WhereOptions = HERE) -> dict[str, Settings]:
        """Settings of several methods, by names that a folder can have. What is given and some method does not use is
        for the others; what none uses is refused."""
        names = list(methods)
        given = key_values(self.own or [], "--option")
        takes = {name: options_taken(name, given) for name in names}
        for option in given:
            if not any(option in taken for taken in takes.values()):
                return {name: self.settings(name, where) for name in names}  # which says what is wrong
        for_none = set.intersection(*(unused(name) for name in names))
        return {folder_name(name): self.settings(name, where, takes[name], unused(name) - for_none) for name in names}

    def settings(
        self, method: str, where: WhereOptions = HERE, taken: Iterable[str] | None = None, others: Iterable[str] = ()
    ) -> Settings:
        """taken: of the options of a model from elsewhere, those that are for this method; None: all. others: settings
        that are for other methods, and left out here."""
        options = asdict(self)
        given = key_values(options.pop("own") or [], "--option")
        given = {name: value for name, value in given.items() if taken is None or name in taken}
        more = key_values(options.pop("more") or [])
        own = {name.rstrip("_") for name in (*options, "method")}
        values = {name: value for name, value in options.items() if value is not None}
        for key in more:
            if key in own:  # two ways to say one thing can contradict each other
                raise ConfigError(
                    f"--set {key}: this setting has an option of its own. Use --{key.replace('_', '-')}, see --help."
                )
            choose("--set", key, [s.name for s in settings_of(Settings) if s.name.rstrip("_") not in own])
        flat = {**values, **more, **({"options": given} if given else {}), "method": method}
        settings = Settings.from_flat({name: value for name, value in flat.items() if name.rstrip("_") not in others})
        where.check_device(settings.train.device)  # before anything is read
        return settings


def options_taken(method: str, options: Iterable[str]) -> set[str]:
    """Which of some options the factory of a method takes; none if the method is ours."""
    factory = METHODS[method].factory
    names, more = factory.options if factory is not None else ([], False)
    return {option for option in options if more or option in names}


def folder_name(method: str) -> str:
    """A variant's name for a method, which may be `package.module:factory`."""
    return method.replace(":", " ")


def key_values(pairs: list[str], flag: str = "--set") -> dict[str, Any]:
    """KEY=VALUE read as TOML, so that 4, 0.5, true and words are what they look like."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign:
            raise ConfigError(f"{flag} {pair}: expected KEY=VALUE, such as {flag} heads=4.")
        try:
            values[key.strip()] = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = text.strip()
    return values
