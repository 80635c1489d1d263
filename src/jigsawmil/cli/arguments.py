"""Arguments and options that several verbs share, which need nothing but their words."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

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
class ReadingOptions:
    """What feature files may leave open."""

    mpp: SlideMpp = None
    patch_size: PatchSize = None
    unit: Unit = None

    @property
    def reading(self) -> dict[str, Any]:
        return {"mpp": self.mpp, "patch_size": self.patch_size, "unit": self.unit}
