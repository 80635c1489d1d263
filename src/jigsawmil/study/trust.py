"""Can the maps of a run be trusted? Deletion and insertion curves of some of its slides."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..files import write_csv, write_json, writing_to
from ..maps.faithfulness import Curves, curves_of, faithfulness
from .cases import Case, case_bags, case_model, cases
from .run import Run


def chosen_cases(run: Run, cohort: str, variant: str, at_most: int, seed: int) -> list[Case]:
    """At most so many slides (or patients) of a variant, drawn at random, in the order of slides.csv."""
    known = cases(run, cohort, variant=variant)
    if not known:
        raise StudyError(f"{run.folder}: {variant} has no predictions on {cohort}. Run the study to its end.")
    chosen = np.random.default_rng(seed).choice(len(known), min(at_most, len(known)), replace=False)
    return [known[i] for i in sorted(chosen)]


def case_curves(
    run: Run, case: Case, seed: int, features: Path | None, device: str, attribution: bool = False
) -> Curves:
    """The random orders of a slide are the same for every variant."""
    rng = np.random.default_rng([seed, *case.name.encode()])
    bags = case_bags(run, case, features)
    target = run.target or None
    return curves_of(*case_model(case), case.name, bags, rng, device=device, attribution=attribution, target=target)


def _rows(curves: list[Curves]) -> Iterator[dict[str, Any]]:
    for one in curves:
        areas = {kind: one.areas(kind) for kind in ("deletion", "insertion")}
        for ranking in one.insertion:
            row = {f"{kind}_area": values[ranking] for kind, values in areas.items()}
            yield {"slide_id": one.name, "patches": one.patches, "ranking": ranking, **row}


def trust_file(run: Run, cohort: str, variant: str, suffix: str) -> Path:
    """In the run folder; one per target if there are several."""
    return run.files.faithfulness(cohort, f"{variant}{f', {run.target}' if run.target else ''}.{suffix}")


def write_trust(run: Run, cohort: str, variant: str, curves: list[Curves], *, seed: int, sentence: str) -> None:
    """`faithfulness/COHORT/VARIANT.json` and `.csv` in the run folder, which the report shows."""
    figures = {"cohort": cohort, "variant": variant, "seed": seed, "sentence": sentence, **faithfulness(curves)}
    with writing_to(run.files.faithfulness(cohort)):
        write_json(trust_file(run, cohort, variant, "json"), figures)
    write_csv(pd.DataFrame(_rows(curves)), trust_file(run, cohort, variant, "csv"))
