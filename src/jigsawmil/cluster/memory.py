"""How much memory a job takes at its peak, so that a cluster can place it: from N, d and k, as a test measures it."""

import math
from collections.abc import Sequence
from heapq import nlargest

from ..cohort.cohort import Cohort
from ..nn.jigsaws import JIGSAWS
from ..nn.options import METHODS
from ..study.job import Job
from ..train.feed import cohort_groups

BASE = 0.7e9  # bytes of a process that has imported everything, and compiled the kernels, as on a node that is new
ALIVE = 6  # batches at a time: four read ahead, one on its way, one at work
TWICE = 1.5  # of a step: tasks that run the encoder a second time
SPARE = 1.05
EDGE = 128.0  # microns of a patch, where nobody says


def job_memory(job: Job, cohort: Cohort, bags: Sequence[int]) -> int:
    """Bytes: the process, the slides that it keeps, batches on their way, and a step on the largest batch.

    bags: patches of each bag, as `bag_sizes` gives them.
    """
    settings, batch = job.settings, job.settings.train.batch_size
    patch, step = patch_bytes(job, cohort), step_bytes(job, cohort)
    kept = min(job.memory_gb * 1e9, sum(bags) * patch)
    ahead, largest = sum(nlargest(ALIVE * batch, bags)), sum(nlargest(batch, bags))
    if METHODS[settings.method].jigsaw and JIGSAWS[settings.model.jigsaw].encodes_twice:
        step *= TWICE
    return int(SPARE * (BASE + kept + ahead * patch + largest * step))


def bag_sizes(cohort: Cohort, level: str) -> list[int]:
    """Patches of each slide, or of each patient where its slides are one bag."""
    return [sum(cohort.slides[index].patches for index in members) for _, members in cohort_groups(cohort, level)]


def patch_bytes(job: Job, cohort: Cohort) -> float:
    """A prepared patch: its features, its edges (index, weight, reverse), bin, order and coordinates."""
    return 4 * cohort.dim + 12 * edges(job, cohort) + 40


def step_bytes(job: Job, cohort: Cohort) -> float:
    """What a training step holds of a patch: hidden states and their gradients, attention of the edges."""
    model = job.settings.model
    own = edges(job, cohort) if job.settings.needs_graph else 0
    return 4 * (6 * model.hidden * model.layers + model.attention_dim) + 8 * own * model.layers


def edges(job: Job, cohort: Cohort) -> float:
    """Of a patch, with ties and with neighbours that only the other one chose; also where another method of the study
    needs the graph."""
    if job.graph is None:
        return 0.0
    if job.graph.kind == "knn":
        return 1.3 * job.graph.k + 6
    return math.pi * (job.graph.radius / (cohort.patch_um or EDGE)) ** 2 + 6
