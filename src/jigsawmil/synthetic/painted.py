"""A cohort of painted slides on disk: slides, labels, and the truth beside them."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..config import choose
from ..errors import ConfigError
from ..files import new_folder, writing_to
from ..slides.slide import write_picture
from .painter import COARSE, INKS, MPP, Plan, paint, write_slide
from .phantom import phantom_slides
from .phantom_options import TYPES, PhantomSpec, phantom_spec
from .phantom_slide import PATCH_LEVEL0


@dataclass(frozen=True)
class PlannedSlide:
    """A slide to be painted, with what the label table says of it."""

    slide_id: str
    patient: str
    label: str
    plan: Plan


def paint_cohort(
    out: str | Path,
    slides: int = 20,
    kind: str = "composition",
    *,
    seed: int = 0,
    patches: int = 100,
    artefacts: bool = False,
    follow: Callable[[Iterable[PlannedSlide]], Iterable[PlannedSlide]] = iter,
) -> Path:
    """Write a cohort of synthetic slides with known labels. kind: what the label says, composition or arrangement.
    patches: median number of tiles per slide. artefacts: as in `write_painted`. follow: sees the slides as they are
    painted.

    Example: `paint_cohort("painted", 20)`
    """
    choose("--kind", kind, ("composition", "arrangement"))
    # compartments of 5 tiles, for a slide is about 12 across; the features of the phantom are not used
    spec = phantom_spec(kind, slides=slides, seed=seed, patches=patches, spread=0.15, clump=5, dim=16)
    with writing_to(Path(out)):
        return write_painted(follow(plans(spec)), Path(out), seed=seed, artefacts=artefacts)


def plans(spec: PhantomSpec) -> Iterator[PlannedSlide]:
    """The phantom's slides with their types as a plan for the painter."""
    for slide in phantom_slides(spec):
        corners = slide.bag.coords.numpy()
        cells = np.rint((corners - corners.min(axis=0)) / PATCH_LEVEL0).astype(np.int64)
        yield PlannedSlide(slide.bag.slide_id, slide.patient, slide.label, Plan(cells, slide.types, TYPES[spec.kind]))


def write_painted(slides: Iterable[PlannedSlide], out: Path, *, seed: int = 0, artefacts: bool = False) -> Path:
    """Write `out/slides/<slide>.tif`, `out/labels.csv` and the truth; the folder appears whole or not at all.

    The truth: `out/truth/<slide>_tissue.png` (255 on tissue), `<slide>_types.png` (0 on glass, 1 + type on tissue) and
    `truth.json` (names of the types, level-0 pixels a pixel of these pictures).
    artefacts: a pen stroke on about every third slide, a black frame on about every fourth, whatever its label.
    """
    out = out.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: exists already; painted slides need a new or empty folder. Choose another one.")
    with new_folder(out) as partial:
        for folder in ("slides", "truth"):
            (partial / folder).mkdir()
        with open(partial / "labels.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["slide_id", "patient_id", "label"])
            for slide in _painted(slides, partial, seed, artefacts):
                table.writerow([slide.slide_id, slide.patient, slide.label])
    return out


def _painted(slides: Iterable[PlannedSlide], out: Path, seed: int, artefacts: bool) -> Iterator[PlannedSlide]:
    for i, slide in enumerate(slides):
        rng = np.random.default_rng((seed, i))  # apart from the plan's: only the plan knows the label
        pen, frame, colour = rng.random() < 1 / 3, rng.random() < 1 / 4, str(rng.choice(list(INKS)))
        painting = paint(slide.plan, rng, ink=colour if artefacts and pen else None, border=artefacts and bool(frame))
        write_slide(painting.image, out / "slides" / f"{slide.slide_id}.tif")
        write_picture(painting.tissue.astype(np.uint8) * 255, out / "truth" / f"{slide.slide_id}_tissue.png")
        write_picture(painting.types, out / "truth" / f"{slide.slide_id}_types.png")
        if i == 0:
            truth = {"types": slide.plan.names, "scale": COARSE, "mpp": MPP}
            (out / "truth" / "truth.json").write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")
        yield slide
