"""Features of many slides by a Ray cluster: actors that each hold an encoder, and a slide at a time for each.

Slides and features must be at the same paths on every node. Memory stays bounded: one actor a GPU, or one for every
`workers` CPUs of a node. A slide whose actor died is given to another; where no encoder can be loaded, no slide goes.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..config import choose
from ..errors import ConfigError, SlideError
from .encoders import load_encoder
from .extract import Extracted, ExtractSettings, extract_slide, keep_memory

TRIES = 3  # workers that a slide may lose before it is given up
FALSE_STARTS = 6  # encoders in a row that could not be loaded before no other is tried, until a node joins
PATIENCE = 300.0  # seconds in which no node could take an encoder
POLL = 1.0  # seconds between two looks at the cluster


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
                if found is not None:
                    yield found
                    continue
                lost[slide] += 1
                if lost[slide] < TRIES:
                    waiting.appendleft(slide)
                else:
                    yield Extracted(slide.stem, "failed", error=f"{slide.name}: lost {TRIES} workers, the last: {why}")
    finally:
        crew.dismiss()


class News(NamedTuple):
    """What became of a slide; found: None where its worker was lost."""

    slide: Path
    found: Extracted | None
    why: str = ""


class Worker(NamedTuple):
    actor: Any
    node: str


class _Crew:
    """Actors whose encoder is loading, those that wait for a slide, and those at work."""

    def __init__(self, out: Path, load: dict[str, Any], settings: ExtractSettings) -> None:
        import ray

        self._gpu = _wants_gpu(settings.device, ray.cluster_resources().get("GPU", 0))
        self._cpus = 1 if self._gpu else settings.workers
        made: Any = ray.remote(_Extractor)
        self._kind = made.options(num_cpus=self._cpus, num_gpus=int(self._gpu), max_restarts=0, max_task_retries=0)
        self._given = (out, load, replace(settings, device="cuda" if self._gpu else "cpu"))
        self._starting: dict[Any, Any] = {}
        self._idle: list[Worker] = []
        self.running: dict[Any, tuple[Worker, Path]] = {}
        self._false_starts, self._why, self._fit_at = 0, "", time.monotonic()
        self._nodes: set[str] = set()

    def hire(self, waiting: int) -> None:
        """Start actors where nodes have room and slides wait; nodes come and go."""
        import ray

        nodes = [node for node in ray.nodes() if node["Alive"]]
        known, self._nodes = self._nodes, {node["NodeID"] for node in nodes}
        if self._nodes - known:
            self._false_starts = 0
        self._idle = [worker for worker in self._idle if worker.node in self._nodes]
        staff = len(self._idle) + len(self._starting) + len(self.running)
        places = sum(room(node["Resources"], self._cpus, self._gpu) for node in nodes)
        if self._false_starts < FALSE_STARTS:
            for _ in range(min(places, waiting + len(self.running)) - staff):
                actor = self._kind.remote(*self._given)
                self._starting[actor.ready.remote()] = actor
        elif not staff:
            raise SlideError(f"the encoder could not be loaded on any node: {self._why}")
        if places:
            self._fit_at = time.monotonic()
        elif time.monotonic() - self._fit_at > PATIENCE:
            raise SlideError(
                f"no node of the cluster has {self._cpus} CPUs{' and a GPU' * self._gpu}, which an encoder asks for. "
                "Give fewer --workers, or add a node; what is done stays."
            )

    def give(self, waiting: deque[Path]) -> None:
        while waiting and self._idle:
            slide, worker = waiting.popleft(), self._idle.pop()
            self.running[worker.actor.extract.remote(slide)] = (worker, slide)

    def dismiss(self) -> None:
        """Give their CPUs and GPUs back now, not when Python forgets the last of them."""
        import ray

        workers = [*self._idle, *(worker for worker, _ in self.running.values())]
        for actor in [*self._starting.values(), *(worker.actor for worker in workers)]:
            ray.kill(actor)

    def news(self) -> Iterator[News]:
        """Slides that ended since the last look; waits a little for the first."""
        import ray

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
            except ray.exceptions.RayError as error:  # the actor is gone, and its node perhaps
                self._leave(worker.node)
                yield News(slide, None, _last_line(error))
                continue
            self._idle.append(worker)

    def _leave(self, node: str) -> None:
        """Dismiss who waits on a node that lost a worker: if it is dead, which is known only later, each would cost the
        slide a try; if it is not, others are hired there."""
        import ray

        for worker in [worker for worker in self._idle if worker.node == node]:
            self._idle.remove(worker)
            ray.kill(worker.actor)

    def _started(self, ref: Any) -> None:
        import ray

        actor = self._starting.pop(ref)
        try:
            self._idle.append(Worker(actor, ray.get(ref)))
            self._false_starts = 0
        except ray.exceptions.RayError as error:
            self._false_starts, self._why = self._false_starts + 1, _last_line(error)


class _Extractor:
    """An encoder, loaded once, on a worker."""

    def __init__(self, out: Path, load: dict[str, Any], settings: ExtractSettings) -> None:
        torch.set_num_threads(settings.workers)
        if settings.device == "cpu":
            keep_memory()
        self.out, self.settings = out, settings
        self.encoder = load_encoder(**load, device=settings.device)

    def ready(self) -> str:
        """Answers when the encoder is loaded, with its node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def extract(self, slide: Path) -> Extracted:
        if not self.out.exists():
            raise SlideError(f"{self.out}: not seen from this node. Extraction needs storage that all nodes share.")
        return extract_slide(slide, self.out, self.encoder, self.settings)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].strip()


def room(node: Mapping[str, float], cpus: int, gpu: bool) -> int:
    """Actors that fit on a node."""
    fit = int(node.get("CPU", 0) // cpus)
    return min(fit, int(node.get("GPU", 0))) if gpu else fit


def _wants_gpu(device: str, gpus: float) -> bool:
    choose("--device on Ray", device, ("auto", "cpu", "cuda"))  # a worker has the GPU that it was given, by no number
    if device == "cuda" and gpus < 1:
        raise ConfigError("--device cuda: the cluster has no GPU. Use auto or cpu.")
    return device != "cpu" and gpus >= 1
