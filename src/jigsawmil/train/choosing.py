"""Choose settings inside some training patients, in this process; a study does the same by jobs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..cohort.cohort import Cohort
from ..cohort.splits import Fold
from ..files import write_json
from .choice import Choice
from .decision import Decision, Inner, decide, inner_folds
from .feed import Feed
from .fit import evaluate
from .fold import fit_split
from .progress import Epoch
from .settings import Settings

if TYPE_CHECKING:
    from .train_model import Fit


def choose_settings(
    cohort: Cohort,
    split: Fold,
    settings: Settings,
    choice: Choice,
    seed: int,
    *,
    memory_gb: float,
    on_epoch: Callable[[Epoch], None] | None = None,
    fit: "Fit" = fit_split,
    kept: Path | None = None,
) -> Decision:
    """Train every candidate on inner folds of the training patients, and decide.

    kept: a file of the losses so far, from which an interrupted choice resumes."""
    losses: dict[str, float] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    candidates = {name: own.replace(members=1) for name, own in choice.candidates(settings).items()}
    parts = inner_folds(cohort, split, choice, seed, 0)
    for name, own in candidates.items():
        graph = own.graph if own.needs_graph else None
        feed = Feed(cohort, graph, own.model.raster, memory_gb=memory_gb, level=own.level)
        for (repeat, number), part in parts.items():
            inner = Inner(name, repeat, number)
            if str(inner) not in losses:
                model, _ = fit(feed, part, own, *inner.draws(seed, 0), on_epoch, None)
                losses[str(inner)] = evaluate(model, feed, feed.bags_of(part.test), own.train)[0]
                if kept is not None:
                    write_json(kept, losses)
    return decide({name: [losses[str(Inner(name, *part))] for part in parts] for name in candidates}, choice.folds)
