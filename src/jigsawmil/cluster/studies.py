"""Jobs on a Ray cluster: each is one task that runs the very function that the local processes run.

Job folders lie on storage that driver and workers share; a worker that does not see it sends the finished files back
through Ray, and the driver writes them. Either way a folder appears whole or not at all, so a node that dies costs the
time of its jobs and nothing else: Ray runs them again elsewhere.
"""

import math
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from ..cohort.cohort import Cohort
from ..errors import COLOURS, StudyError, summarize_error
from ..files import new_folder
from ..study.executors import Event, Listener, attempt
from ..study.job import Job, Worker
from ..study.run_folder import RunFolder
from ..train.progress import Epoch
from .memory import bag_sizes, job_memory
from .ray import Needs, Watch, check_release, get_ray, release

RETRIES = 5  # of a job whose worker or node died
POLL = 0.25  # seconds between two looks at the jobs
SEEN = 120.0  # seconds in which what a worker wrote is seen here: NFS may know of nothing new for a minute
TELL = 0.5  # seconds between two epochs that a job tells of
NOT_SEEN = "{}: written by a worker, but not visible to the driver. Do both use the same storage? Then run again."


class Outcome(NamedTuple):
    """error: None, or what went wrong. files: of a job whose folder the driver cannot see."""

    error: str | None
    files: dict[str, bytes] | None


def run_on_ray(
    jobs: Sequence[Job],
    cohorts: Mapping[str, Cohort],
    out: Path,
    listen: Listener,
    *,
    cpus: int = 1,
    on_cluster: Callable[[str], None] = lambda words: None,
) -> None:
    """Run jobs on the cluster that was joined. One that fails is reported and does not stop the rest; Ctrl-C cancels
    what runs, and what is done stays. cpus: threads of a job. on_cluster: is given what the cluster has, when it
    changes."""
    ray = get_ray()
    needs = needs_of(jobs, cohorts, cpus, ray.cluster_resources().get("GPU", 0) >= 1)
    token, own = _leave_token(out), release()
    board = _board()
    asked = board.take.remote()
    task = ray.remote(max_retries=RETRIES, retry_exceptions=False)(_work)
    waiting = deque(range(len(jobs)))
    running: dict[Any, int] = {}
    unseen: dict[int, float] = {}  # done by a worker -> since when
    watch = Watch(needs, on_cluster)
    try:
        while waiting or running or unseen:
            for index in watch.unplaceable([*waiting, *running.values()]):
                _drop(index, waiting, running)
                listen(Event(jobs[index], error=watch.why(index)))
            room = _window(ray.cluster_resources(), cpus) - len(running)
            for index in [waiting.popleft() for _ in range(min(room, len(waiting)))]:
                need, job = needs[index], jobs[index]
                fitted = task.options(num_cpus=need.cpus, num_gpus=need.gpus, memory=need.memory, name=job.name)
                running[fitted.remote(everywhere(job), index, cpus, str(out.absolute()), token, board, own)] = index
            done, _ = ray.wait(list(running), num_returns=len(running), timeout=POLL) if running else ([], None)
            if ray.wait([asked], timeout=0)[0]:  # never waited for: a board may be slow to start, or restarting
                at_work = set(running.values())
                for index, epoch in _news(asked):
                    if index in at_work:  # of a job that has ended its last words come too late
                        listen(Event(jobs[index], epoch, begun=True))
                asked = board.take.remote()
            for ref in done:
                index = running.pop(ref)
                error = _outcome(ref, jobs[index])
                if error is None:
                    unseen[index] = time.monotonic()
                else:
                    listen(Event(jobs[index], error=error))
            for index, since in list(unseen.items()):
                job, seen = jobs[index], jobs[index].done
                if seen or time.monotonic() - since > SEEN:
                    del unseen[index]
                    listen(Event(job, error=None if seen else NOT_SEEN.format(job.folder)))
            if not running:
                time.sleep(POLL)
    except BaseException:
        for ref in running:
            ray.cancel(ref, force=True)
        raise
    finally:
        RunFolder(out).token.unlink(missing_ok=True)


def needs_of(jobs: Sequence[Job], cohorts: Mapping[str, Cohort], cpus: int, gpu: bool) -> list[Needs]:
    sizes: dict[tuple[str, str], list[int]] = {}
    needs = []
    for job in jobs:
        cohort, level = cohorts[job.cohort], job.settings.level
        if (job.cohort, level) not in sizes:
            sizes[job.cohort, level] = bag_sizes(cohort, level)
        memory = job_memory(job, cohort, sizes[job.cohort, level])
        needs.append(Needs(cpus, float(gpu and job.settings.train.device != "cpu"), memory))
    return needs


def everywhere(job: Job) -> Job:
    """The same job with whole paths: another node has another working directory."""
    source = replace(
        job.source,
        labels=_whole(job.source.labels),
        features=_whole(job.source.features),
        options=job.source.options.in_folder(Path.cwd()),
    )
    return replace(job, source=source, folder=job.folder.absolute())


def _whole(path: str) -> str:
    return str(Path(path).absolute())  # not resolved: links such as /data mean the same on every node


def _drop(index: int, waiting: deque[int], running: dict[Any, int]) -> None:
    if index in waiting:
        waiting.remove(index)
        return
    ref = next(ref for ref, at in running.items() if at == index)
    get_ray().cancel(ref, force=True)
    del running[ref]


@lru_cache(maxsize=1)
def _worker(token: str) -> Worker:
    """Of this process. token: of the study that it works for; another one needs a new worker, for files may differ."""
    return Worker()


def _work(job: Job, index: int, threads: int, out: str, token: str, board: Any, driver: str) -> Outcome:
    """The task, on a worker. driver: its release."""
    check_release(driver)
    torch.set_num_threads(threads)

    last_sent = -math.inf

    def tell(epoch: Epoch | None) -> None:
        """Nobody waits for the answer, but sending takes its time too: of short epochs some are passed over."""
        nonlocal last_sent
        if time.monotonic() - last_sent >= TELL or epoch is None:
            last_sent = time.monotonic()
            board.put.remote(index, epoch and asdict(epoch))

    tell(None)
    seen = RunFolder(Path(out)).token
    if seen.is_file() and seen.read_text() == token and os.access(out, os.W_OK):
        error = None if job.done else attempt(job, tell, _worker(token))
        return Outcome(None if job.done else error, None)  # done by an attempt that was thought dead: as good
    with TemporaryDirectory() as scratch:
        own = replace(job, folder=Path(scratch) / job.folder.name)
        error = attempt(own, tell, _worker(token))
        files = {} if error else {file.name: file.read_bytes() for file in own.folder.iterdir()}
        return Outcome(error, files)


def _outcome(ref: Any, job: Job) -> str | None:
    ray = get_ray()
    try:
        outcome = ray.get(ref)
    except ray.exceptions.RayError as error:  # out of memory, or dead more often than RETRIES
        if isinstance(error, ray.exceptions.RayTaskError):  # raised by no job: its node would fail whatever it is given
            kind = "" if isinstance(error.cause, StudyError) else f"{type(error.cause).__name__}: "
            raise StudyError(
                f"a node cannot run jobs: {kind}{summarize_error(error.cause)}. Run the same command again once this "
                "is fixed; finished jobs are kept."
            ) from error
        return f"Ray stopped the job: {COLOURS.sub('', str(error)).strip()}"
    if outcome.files and not job.done:
        with new_folder(job.folder) as folder:
            for name, content in outcome.files.items():
                (folder / name).write_bytes(content)
    return outcome.error


def _board() -> Any:
    """An actor on the driver's node: the newest epoch of every running job, so that no worker waits for the driver.

    The class stands in here because Ray then sends it whole: the actor's process imports nothing of ours and starts at
    once, where it would take a core for seconds beside the first jobs.
    """
    ray = get_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Board:
        def __init__(self) -> None:
            self.epochs: dict[int, dict[str, Any] | None] = {}

        def put(self, index: int, epoch: dict[str, Any] | None) -> None:
            self.epochs[index] = epoch

        def take(self) -> list[tuple[int, dict[str, Any] | None]]:
            news, self.epochs = list(self.epochs.items()), {}
            return news

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()


def _news(asked: Any) -> list[tuple[int, Epoch | None]]:
    """Jobs and their newest epoch; None where a job has begun and not got so far."""
    ray = get_ray()
    try:
        return [(index, Epoch(**epoch) if epoch else None) for index, epoch in ray.get(asked)]
    except ray.exceptions.RayError:  # the board's process died; the figures are for the eye only
        return []


def _window(resources: Mapping[str, float], cpus: int) -> int:
    """Tasks handed to Ray at a time: enough that no worker waits, few enough that a large study floods nothing."""
    return 2 * max(1, int(resources.get("CPU", 1) // cpus)) + 2


def _leave_token(out: Path) -> str:
    token = f"{uuid.uuid4()} {time.time()}"
    RunFolder(out).token.write_text(token)
    return token
