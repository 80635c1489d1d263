"""Features of many slides by a Ray cluster: actors that each hold an encoder, and a slide at a time for each.

Slides and features must be at the same paths on every node. Memory stays bounded: one actor a GPU, or one for every
`workers` CPUs of a node, and no more than fit into its memory by what the first ones took. A slide whose actor died is
given to another; where no encoder can be loaded, no slide goes.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..config import choose
from ..errors import ConfigError, SlideError, summarize_error
from ..slides.encoders import encode, encoder_spec, load_encoder
from ..slides.extract_many import write_account
from ..slides.extract_one import Extracted, ExtractSettings, extract_slide, features_folder, keep_memory
from .ray import PATIENCE, check_release, get_ray, release

TRIES = 3  # workers that a slide may lose before it is given up
FALSE_STARTS = 3  # encoders in a row that a node could not load before it is left alone
YOUNG = 30.0  # seconds in which an actor is counted on; one that waits longer, for a node that others use, is not
POLL = 1.0  # seconds between two looks at the cluster
SLIDE = 1.3e9  # bytes of the features of 100,000 tiles with 1,536 columns, while they are joined
FIRST = 2e9  # bytes asked of Ray for an actor before any has told what it takes


def extract_on_ray(
    slides: Sequence[Path], out: Path, load: dict[str, Any], settings: ExtractSettings
) -> Iterator[Extracted]:
    """The files that `extract_here` writes, from the cluster that was joined. load: arguments of `load_encoder`."""
    crew, waiting, lost, again = _Crew(out, load, settings), deque(slides), Counter[Path](), set[Path]()
    try:
        while waiting or crew.running:
            crew.hire(len(waiting))
            crew.give(waiting)
            for slide, found, why in crew.news():
                if found is not None and found.status == "elsewhere" and slide not in again:
                    again.add(slide)
                    waiting.append(slide)
                    continue
                if found is None:
                    lost[slide] += 1
                    if lost[slide] < TRIES:
                        waiting.appendleft(slide)
                        continue
                    error = f"{slide.name}: {TRIES} workers failed on this slide; the last: {why}"
                    found = Extracted(slide.stem, "failed", error=error)
                write_account(found, features_folder(out, encoder_spec(load["name"]).name, settings))
                yield found
    finally:
        crew.dismiss()


class News(NamedTuple):
    """What became of a slide; found: None where its worker was lost."""

    slide: Path
    found: Extracted | None
    why: str = ""


class Worker(NamedTuple):
    """since: when it was asked for."""

    actor: Any
    node: str
    since: float


class _Crew:
    """Actors whose encoder is loading, those that wait for a slide, and those at work."""

    def __init__(self, out: Path, load: dict[str, Any], settings: ExtractSettings) -> None:
        ray = get_ray()
        self._gpu = _wants_gpu(settings.device, ray.cluster_resources().get("GPU", 0))
        self._cpus = 1 if self._gpu else settings.workers
        self._kind: Any = ray.remote(num_cpus=self._cpus, num_gpus=int(self._gpu), max_restarts=0, max_task_retries=0)(
            _Extractor
        )
        self._given = (out, load, replace(settings, device="cuda" if self._gpu else "cpu"), release())
        self._starting: dict[Any, Worker] = {}
        self._idle: list[Worker] = []
        self.running: dict[Any, tuple[Worker, Path]] = {}
        self._memory = 0.0  # bytes that an actor takes; 0 until the first is there
        self._false_starts, self._why, self._fit_at = Counter[str](), "", time.monotonic()

    def hire(self, waiting: int) -> None:
        """Start actors where nodes have room and slides wait; nodes come and go."""
        nodes = alive()
        self._idle = [worker for worker in self._idle if worker.node in nodes]
        self._starting = {ref: worker for ref, worker in self._starting.items() if worker.node in nodes}
        rooms = {node: room(have, self._cpus, self._gpu, self._memory) for node, have in nodes.items()}
        staff = Counter(worker.node for worker in self._staff())
        usable = [node for node in rooms if self._false_starts[node] < FALSE_STARTS]
        places = sorted((nth, node) for node in usable for nth in range(staff[node], rooms[node]))  # nodes fill evenly
        now = time.monotonic()
        expected = len(self._idle) + sum(now - worker.since < YOUNG for worker in self._starting.values())
        for _, node in places[: max(0, waiting - expected)]:
            self._start(node, nodes[node])
        if any(rooms.values()):
            self._fit_at = time.monotonic()
            if not self._staff() and not places:
                raise SlideError(f"the encoder could not be loaded on any node: {self._why}")
        elif time.monotonic() - self._fit_at > PATIENCE:
            raise SlideError(
                f"no node of the cluster has the {self._cpus} CPUs{' and a GPU' * self._gpu} that the encoder "
                "needs. Give fewer --workers, or add a node; finished slides are kept."
            )

    def _start(self, node: str, have: Mapping[str, float]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        there = NodeAffinitySchedulingStrategy(node, soft=False)
        memory = min(self._memory or FIRST, have.get("memory", 0.0))  # told to Ray, which has others to serve
        actor = self._kind.options(scheduling_strategy=there, memory=int(memory)).remote(*self._given)
        self._starting[actor.ready.remote()] = Worker(actor, node, time.monotonic())

    def _staff(self) -> list[Worker]:
        return [*self._idle, *self._starting.values(), *(worker for worker, _ in self.running.values())]

    def give(self, waiting: deque[Path]) -> None:
        while waiting and self._idle:
            slide, worker = waiting.popleft(), self._idle.pop()
            self.running[worker.actor.extract.remote(slide)] = (worker, slide)

    def dismiss(self) -> None:
        """Give their CPUs and GPUs back now, not when Python forgets the last of them."""
        for worker in self._staff():
            get_ray().kill(worker.actor)

    def news(self) -> Iterator[News]:
        """Slides that ended since the last look; waits a little for the first."""
        ray = get_ray()
        known = [*self._starting, *self.running]
        if not known:
            time.sleep(POLL)
        for ref in ray.wait(known, timeout=POLL)[0] if known else ():
            if ref in self._starting:
                self._started(ref)
                continue
            worker, slide = self.running.pop(ref)
            try:
                yield News(slide, ray.get(ref))
            except ray.exceptions.RayTaskError as error:  # raised by our own code on the worker
                if isinstance(error.cause, ConfigError):
                    raise error.cause from error
                yield News(slide, Extracted(slide.stem, "failed", error=f"{slide.name}: {error.cause}"))
            except ray.exceptions.RayError as error:  # the actor is gone, or out of reach, and its node perhaps
                ray.kill(worker.actor)
                self._leave(worker.node)
                yield News(slide, None, summarize_error(error))
                continue
            self._idle.append(worker)

    def _leave(self, node: str) -> None:
        """Dismiss who waits on a node that lost a worker: if it is dead, which is known only later, each would cost the
        slide a try; if it is not, others are hired there."""
        for worker in [worker for worker in self._idle if worker.node == node]:
            self._idle.remove(worker)
            get_ray().kill(worker.actor)

    def _started(self, ref: Any) -> None:
        ray = get_ray()
        worker = self._starting.pop(ref)
        try:
            self._memory = max(self._memory, ray.get(ref))
            self._idle.append(worker)
            self._false_starts[worker.node] = 0
        except ray.exceptions.ActorUnschedulableError:  # a node that joined or left and is not known to all yet
            time.sleep(POLL)
        except ray.exceptions.RayError as error:
            if worker.node in alive():  # else it is the node's end, not the encoder's
                self._false_starts[worker.node] += 1
                self._why = summarize_error(error)


class _Extractor:
    """An encoder, loaded once, on a worker."""

    def __init__(self, out: Path, load: dict[str, Any], settings: ExtractSettings, driver: str) -> None:
        """driver: its release."""
        check_release(driver)
        torch.set_num_threads(settings.workers)
        if settings.device == "cpu":
            keep_memory()
        self.out, self.settings = out, settings
        self.encoder = load_encoder(**load, device=settings.device)
        blank = torch.zeros(settings.at_once, settings.tiles.patch, settings.tiles.patch, 3, dtype=torch.uint8)
        encode(self.encoder, blank, settings.device, settings.precision)

    def ready(self) -> float:
        """Answers when the encoder is loaded and has encoded a batch, with the bytes that such an actor takes."""
        ahead = (2 * self.settings.workers + 2) * self.settings.at_once * 3 * self.settings.tiles.patch**2
        return _peak() + ahead + SLIDE

    def extract(self, slide: Path) -> Extracted:
        if not self.out.exists():
            raise SlideError(f"{self.out}: not visible from this node. Extraction needs storage that all nodes share.")
        return extract_slide(slide, self.out, self.encoder, self.settings)


def _peak() -> float:
    """Bytes of memory that this process has held."""
    if sys.platform == "win32":
        return 0.0  # not to be had without a further package
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else most * 1024)


def alive() -> dict[str, dict[str, float]]:
    """Nodes and what they have."""
    return {node["NodeID"]: node["Resources"] for node in get_ray().nodes() if node["Alive"]}


def room(node: Mapping[str, float], cpus: int, gpu: bool, memory: float) -> int:
    """Actors that fit on a node; memory: bytes of each, or 0 where none has told yet, and one goes ahead."""
    fit = int(node.get("CPU", 0) // cpus)
    fit = min(fit, int(node.get("GPU", 0))) if gpu else fit
    return min(fit, max(1, int(node.get("memory", 0) // memory)) if memory else 1)


def _wants_gpu(device: str, gpus: float) -> bool:
    choose("--device on Ray", device, ("auto", "cpu", "cuda"))  # a worker has the GPU that it was given, by no number
    if device == "cuda" and gpus < 1:
        raise ConfigError("--device cuda: the cluster has no GPU. Use auto or cpu.")
    return device != "cpu" and gpus >= 1
