"""What averaging over graph neighbours leaves of a slide: `python -m benchmarks.evidence.smoothing`.

Nothing is trained. The weighted mean over a patch's neighbours and itself (Eq. 5), taken twice: what two layers of
graph attention do to features while they attend to all neighbours alike, as they nearly do before training. On the
first slides of every cohort of `small_cohorts.py`, and of the first cohort of each kind drawn with more patches per
slide, for k = 8 and k = 50.

- *reach*: the share of a slide's patches that enter the state of one patch.
- *left*: the variance between the patches of a slide that is left, as a share of that of the features.
- *between slides*: the share of the variance of all states that lies between the means of slides.

It was written after the results of `small_cohorts.py` were known, to see whether their explanation by averaging holds
in numbers. It shows what the graph does to features, not that this is why a training fails.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from jigsawmil.graph import SpatialGraph, knn_graph
from jigsawmil.nn.sparse import degree, neighbour_sum
from jigsawmil.synthetic.phantom import phantom_slides
from jigsawmil.synthetic.phantom_options import PhantomSpec

from .. import RESULTS, provenance, write
from .small_cohorts import PATCHES, RUNS, SEEDS, cell

COMMAND = "python -m benchmarks.evidence.smoothing"
NEIGHBOURS = (8, 50)
SIZES = (PATCHES, 1_000, 3_278, 12_050)  # patches of a slide; the last two are the paper's mean and most (UNI)
SLIDES, SLIDES_OF_LARGER = 10, 4  # of a cohort; of the first cohort of a kind, at every size


def averaged(x: Tensor, graph: SpatialGraph, layers: int = 2) -> Tensor:
    """(patch, d): the mean over neighbours and the patch itself, by the weights of the graph."""
    for _ in range(layers):
        x = neighbour_sum(x, graph) / degree(graph, x)
    return x


def reach(graph: SpatialGraph, layers: int = 2) -> float:
    """Share of the patches that are at most so many steps away, mean over patches."""
    one = csr_array((np.ones(graph.edges, np.float32), graph.indices.numpy(), graph.indptr.numpy()))
    whole = one
    for _ in range(layers - 1):
        whole = whole @ one
    return float(whole.nnz / len(graph) ** 2)


def spread(states: Sequence[Tensor]) -> tuple[float, float]:
    """Variance within slides and between their means, both summed over columns; each slide counts the same."""
    means = torch.stack([x.mean(dim=0) for x in states])
    within = float(np.mean([float(x.var(dim=0, correction=0).sum()) for x in states]))
    return within, float(means.var(dim=0).sum())


def of_cohort(spec: PhantomSpec, slides: int) -> dict[str, Any]:
    bags = [slide.bag for slide in islice(phantom_slides(spec), slides)]
    features = [bag.features.float() for bag in bags]
    within, between = spread(features)
    found: dict[str, Any] = {
        "kind": spec.kind,
        "seed": spec.seed,
        "patches": spec.patches,
        "slide_effect": spec.slide_effect,
        "features": {"between": between / (within + between)},
    }
    for k in NEIGHBOURS:
        graphs = [knn_graph(bag.coords, k=k) for bag in bags]
        states = [averaged(x, graph) for x, graph in zip(features, graphs, strict=True)]
        own, other = spread(states)
        found[f"k {k}"] = {
            "reach": float(np.mean([reach(graph) for graph in graphs])),
            "left": own / within,
            "between": other / (own + other),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="What averaging over neighbours leaves of a slide.")
    parser.add_argument("--out", type=Path, default=RESULTS / "smoothing.json")
    options = parser.parse_args(arguments)
    about = provenance()
    cohorts = [of_cohort(cell(kind, run).spec, SLIDES) for kind in SEEDS for run in range(len(RUNS))]
    larger = [
        of_cohort(replace(cell(kind, 0).spec, patches=size), SLIDES_OF_LARGER) for size in SIZES for kind in SEEDS
    ]
    slides = {"cohort": SLIDES, "larger": SLIDES_OF_LARGER}
    found = {"command": COMMAND, "neighbours": NEIGHBOURS, "slides": slides, "cohorts": cohorts, "larger": larger}
    write(options.out, json.dumps({**found, **about}, indent=1))
    for row in cohorts + larger:
        print(row)


if __name__ == "__main__":
    main()
