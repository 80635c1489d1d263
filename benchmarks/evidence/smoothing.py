"""What averaging over graph neighbours leaves of a slide: `python -m benchmarks.evidence.smoothing`.

Nothing is trained. On the first slides of every cohort of `small_cohorts.py`, and of the first cohort of each kind
drawn with more patches per slide:

- *averaged*: the features after two weighted means over a patch's neighbours and itself (Eq. 5), for k = 8 and k = 50.
  *reach*: the share of a slide's patches that enter one state. *left*: the variance between the patches of a slide,
  as a share of that of the features. *between*: the share of the variance of all states that lies between the means
  of slides.
- *untrained*: `between` of the states of untrained encoders, mean over SEEDED: their attention is not even (over 50
  neighbours it is worth half as many in the first layer), and SAGE has a term of its own for each patch.

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

from jigsawmil.graph import SpatialGraph
from jigsawmil.graph_config import GraphConfig
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import build_model
from jigsawmil.nn.sparse import degree, neighbour_sum
from jigsawmil.synthetic.phantom import phantom_slides
from jigsawmil.synthetic.phantom_options import PhantomSpec

from .. import RESULTS, provenance, write
from .small_cohorts import PATCHES, RUNS, SEEDS, cell

COMMAND = "python -m benchmarks.evidence.smoothing"
NEIGHBOURS = (8, 50)
ENCODERS: dict[str, tuple[int, dict[str, Any]]] = {  # name -> k, and what builds the model
    "no graph": (NEIGHBOURS[0], {"method": "abmil"}),
    "GAT, k = 8": (8, {"method": "graph-abmil"}),
    "GAT, k = 50": (50, {"method": "graph-abmil"}),
    "SAGE, k = 50": (50, {"method": "graph-abmil", "conv": "sage"}),
}
SEEDED = range(3)
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
    batches = {k: [Batch.of(bag, GraphConfig(k=k)) for bag in bags] for k in NEIGHBOURS}
    within, between = spread([batch.features for batch in batches[NEIGHBOURS[0]]])
    found: dict[str, Any] = {
        "kind": spec.kind,
        "seed": spec.seed,
        "patches": spec.patches,
        "slide_effect": spec.slide_effect,
        "features": {"between": between / (within + between)},
    }
    for k, own in batches.items():
        graphs = [batch.graph for batch in own if batch.graph is not None]
        left, other = spread([averaged(batch.features, graph) for batch, graph in zip(own, graphs, strict=True)])
        found[f"k {k}"] = {
            "reach": float(np.mean([reach(graph) for graph in graphs])),
            "left": left / within,
            "between": other / (left + other),
        }
    found["untrained"] = {name: untrained(batches[k], options) for name, (k, options) in ENCODERS.items()}
    return found


@torch.inference_mode()
def untrained(batches: Sequence[Batch], options: dict[str, Any]) -> float:
    """Share of the variance of an untrained encoder's states that lies between slides."""
    shares = []
    for seed in SEEDED:
        model = build_model(in_dim=batches[0].features.shape[1], seed=seed, **options).eval()
        within, between = spread([model(batch).hidden for batch in batches])
        shares.append(between / (within + between))
    return float(np.mean(shares))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="What averaging over neighbours leaves of a slide.")
    parser.add_argument("--out", type=Path, default=RESULTS / "smoothing.json")
    options = parser.parse_args(arguments)
    about = provenance()
    cohorts = [of_cohort(cell(kind, run).spec, SLIDES) for kind in SEEDS for run in range(len(RUNS))]
    larger = [
        of_cohort(replace(cell(kind, 0).spec, patches=size), SLIDES_OF_LARGER) for size in SIZES for kind in SEEDS
    ]
    found = {"command": COMMAND, "neighbours": NEIGHBOURS, "encoders": list(ENCODERS)}
    found |= {"slides": {"cohort": SLIDES, "larger": SLIDES_OF_LARGER}, "cohorts": cohorts, "larger": larger}
    write(options.out, json.dumps({**found, **about}, indent=1))
    for row in cohorts + larger:
        print(row)


if __name__ == "__main__":
    main()
