"""Jobs on a Ray cluster: each is one task that runs the very function that the local processes run.

Job folders lie on storage that driver and workers share; a worker that does not see it sends the finished files back
through Ray, and the driver writes them. Either way a folder appears whole or not at all, so a node that dies costs the
time of its jobs and nothing else: Ray runs them again elsewhere.
"""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from ..cohort.cohort import Cohort
from ..errors import StudyError
from ..files import new_folder
from ..train.fit import Epoch
from ..train.settings import Settings
from .executors import Event, Listener, attempt
from .run import Job

BASE = 0.6e9  # bytes of a process that has imported everything
RETRIES = 5  # of a job whose worker or node died
TOKEN = ".shared-with-workers"
POLL = 0.25  # seconds between two looks at the cluster


class Outcome(NamedTuple):
    """error: None, or what went wrong. files: of a job whose folder the driver cannot see."""

    error: str | None
    files: dict[str, bytes] | None


@dataclass(frozen=True)
class Needs:
    """What one job asks of a node. memory: bytes."""

    cpus: int
    gpus: float
    memory: int


@contextmanager
def ray_cluster(address: str | None) -> Iterator[str]:
    """Join a cluster (or the one that RAY_ADDRESS names, or start one on this machine) and say what it has."""
    ray = _ray()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=_dashboard(address))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise StudyError(
            f"no Ray cluster at {address or 'this machine'} ({str(error).splitlines()[0]}). Expected ray://host:10001, "
            "host:6379, or auto on a node of the cluster; leave --address out to start Ray here."
        ) from error
    try:
        yield describe()
    finally:
        ray.shutdown()


def describe() -> str:
    ray = _ray()
    have = ray.cluster_resources()
    nodes = sum(node["Alive"] for node in ray.nodes())
    memory = have.get("memory", 0) / 1e9
    return (
        f"Ray: {nodes} node{'s' * (nodes != 1)}, {have.get('CPU', 0):.0f} CPUs, {have.get('GPU', 0):.0f} GPUs, "
        f"{memory:.0f} GB"
    )


def run_on_ray(
    jobs: Sequence[Job], cohorts: Mapping[str, Cohort], out: Path, listen: Listener, *, cpus: int = 1
) -> None:
    """Run jobs on the cluster that was joined. One that fails is told and does not stop the rest; Ctrl-C cancels what
    runs, and what is done stays. cpus: threads of a job."""
    ray = _ray()
    gpus = 1.0 if ray.cluster_resources().get("GPU", 0) >= 1 else 0.0
    needs = [Needs(cpus, _gpus(job.settings, gpus), job_memory(job, cohorts[job.cohort])) for job in jobs]
    check_feasible(needs, [node["Resources"] for node in ray.nodes() if node["Alive"]])
    token = _leave_token(out)
    board = _actor(_Board)
    task = ray.remote(max_retries=RETRIES, retry_exceptions=False)(_work)
    waiting = list(enumerate(jobs))
    running: dict[Any, Job] = {}
    try:
        while waiting or running:
            room = _window(ray.cluster_resources(), cpus) - len(running)
            for index, job in waiting[: max(0, room)]:
                need = needs[index]
                asked = task.options(num_cpus=need.cpus, num_gpus=need.gpus, memory=need.memory, name=job.name)
                running[asked.remote(job, index, cpus, str(out), token, board)] = job
            waiting = waiting[max(0, room) :]
            done, _ = ray.wait(list(running), num_returns=len(running), timeout=POLL)
            for index, epoch in _news(board):
                listen(Event(jobs[index], epoch))
            for ref in done:
                listen(Event(job := running.pop(ref), error=_outcome(ref, job)))
    except BaseException:
        for ref in running:
            ray.cancel(ref, force=True)
        raise
    finally:
        (out / TOKEN).unlink(missing_ok=True)


def job_memory(job: Job, cohort: Cohort) -> int:
    """Bytes that a job takes at its peak: the process, the slides it keeps, and a step on the largest slide with the
    next ones being read. The figures are those of benchmarks/results/step.json, which a test compares."""
    counts = [slide.patches for slide in cohort.slides]
    patch, step = patch_bytes(job.settings, cohort.dim), step_bytes(job.settings)
    kept = min(job.memory_gb * 1e9, sum(counts) * patch)
    return int(BASE + kept + max(counts) * (2 * patch + step))


def patch_bytes(settings: Settings, dim: int) -> int:
    """A prepared patch: its features, its edges (index, weight, reverse) and its place."""
    edges = 1.3 * settings.k + 6 if settings.needs_graph else 0  # ties, and neighbours that only the other one chose
    return int(4 * dim + 12 * edges + 24)


def step_bytes(settings: Settings) -> int:
    """What a training step holds of a patch: hidden states and their gradients, attention of the edges."""
    edges = 1.3 * settings.k + 6 if settings.needs_graph else 0
    return int(4 * (6 * settings.hidden * settings.layers + settings.attention_dim) + 8 * edges * settings.layers)


def check_feasible(needs: Sequence[Needs], nodes: Sequence[Mapping[str, float]]) -> None:
    """Ray would wait for ever for a node that can take such a job."""
    for need in needs:
        wanted = {"CPU": need.cpus, "GPU": need.gpus, "memory": need.memory}
        if not any(all(node.get(name, 0) >= value for name, value in wanted.items()) for node in nodes):
            largest = max((node.get("memory", 0) for node in nodes), default=0) / 1e9
            raise StudyError(
                f"a job asks for {need.cpus} CPUs, {need.gpus:g} GPUs and {need.memory / 1e9:.1f} GB; no node of the "
                f"cluster has all of it (the largest memory is {largest:.1f} GB). Lower memory_gb, or add a node."
            )


def _work(job: Job, index: int, threads: int, out: str, token: str, board: Any) -> Outcome:
    """The task, on a worker."""
    torch.set_num_threads(threads)

    def tell(epoch: Epoch) -> None:
        board.put.remote(index, epoch)  # nobody waits for the answer

    seen = Path(out) / TOKEN
    if seen.is_file() and seen.read_text() == token:
        error = None if job.done else attempt(job, tell)
        return Outcome(None if job.done else error, None)  # done by an attempt that was thought dead: as good
    with TemporaryDirectory() as scratch:
        own = replace(job, folder=Path(scratch) / job.folder.name)
        error = attempt(own, tell)
        files = {} if error else {file.name: file.read_bytes() for file in own.folder.iterdir()}
        return Outcome(error, files)


def _outcome(ref: Any, job: Job) -> str | None:
    ray = _ray()
    try:
        outcome = ray.get(ref)
    except ray.exceptions.RayError as error:  # out of memory, or dead more often than RETRIES
        return f"Ray gave the job up: {str(error).strip().splitlines()[0]}"
    if outcome.files and not job.done:
        with new_folder(job.folder) as folder:
            for name, content in outcome.files.items():
                (folder / name).write_bytes(content)
    return outcome.error


class _Board:
    """The newest epoch of every running job; asked by the driver, so that no worker ever waits for it."""

    def __init__(self) -> None:
        self._epochs: dict[int, Epoch] = {}

    def put(self, index: int, epoch: Epoch) -> None:
        self._epochs[index] = epoch

    def take(self) -> list[tuple[int, Epoch]]:
        news, self._epochs = list(self._epochs.items()), {}
        return news


def _news(board: Any) -> list[tuple[int, Epoch]]:
    ray = _ray()
    try:
        return ray.get(board.take.remote(), timeout=5)
    except ray.exceptions.RayError:  # restarting; the figures are for the eye only
        return []


def _actor(kind: type) -> Any:
    """An actor on the driver's node, which lives as long as the study."""
    ray = _ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(kind).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()


def _window(resources: Mapping[str, float], cpus: int) -> int:
    """Tasks handed to Ray at a time: enough that no worker waits, few enough that a large study floods nothing."""
    return 2 * max(1, int(resources.get("CPU", 1) // cpus)) + 2


def _gpus(settings: Settings, default: float) -> float:
    return 0.0 if settings.device == "cpu" else default


def _leave_token(out: Path) -> str:
    token = f"{uuid.uuid4()} {time.time()}"
    (out / TOKEN).write_text(token)
    return token


def _dashboard(address: str | None) -> bool | None:
    return None if address else False  # the cluster's own, or none


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise StudyError("--executor ray needs Ray, which is not installed: pip install 'jigsawmil[ray]'.") from error
    return ray
