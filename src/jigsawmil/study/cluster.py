"""A Ray cluster: joined, described, and watched for nodes that come and go."""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import StudyError

LOOK = 5.0  # seconds between two looks at the nodes
PATIENCE = 60.0  # seconds in which no node could take a job before it is given up


def get_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise StudyError("--executor ray needs Ray, which is not installed: pip install 'jigsawmil[ray]'.") from error
    return ray


@dataclass(frozen=True)
class Needs:
    """What one job asks of a node. memory: bytes."""

    cpus: int
    gpus: float
    memory: int


@contextmanager
def ray_cluster(address: str | None) -> Iterator[str]:
    """Join a cluster (or the one that RAY_ADDRESS names) or start one on this machine, and say what it has."""
    ray = get_ray()
    address = address or os.environ.get("RAY_ADDRESS")
    # Left to itself Ray joins whatever runs on this machine, such as another study's, which takes it down when it ends.
    where: dict[str, Any] = {"address": address} if address else {"address": "local", "include_dashboard": False}
    try:
        ray.init(**where, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise StudyError(
            f"no Ray cluster at {address or 'this machine'} ({gist(error)}). Expected ray://host:10001, "
            "host:6379, or auto on a node of the cluster (RAY_AUTH_MODE=token where it asks for one); leave "
            "--address out to start Ray on this machine."
        ) from error
    try:
        yield describe()
    finally:
        ray.shutdown()


def gist(error: Exception) -> str:
    """The first line says what was tried; where a head answers with a traceback, only its last says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else type(error).__name__


def describe() -> str:
    ray = get_ray()
    have = ray.cluster_resources()
    nodes = sum(node["Alive"] for node in ray.nodes())
    memory = have.get("memory", 0) / 1e9
    return (
        f"Ray: {nodes} node{'s' * (nodes != 1)}, {have.get('CPU', 0):.0f} CPUs, {have.get('GPU', 0):.0f} GPUs, "
        f"{memory:.0f} GB"
    )


class Watch:
    """A look at the nodes now and then: nodes join late, and the only one that could take a job may die."""

    def __init__(self, needs: Sequence[Needs], on_cluster: Callable[[str], None]) -> None:
        self.needs, self.on_cluster = needs, on_cluster
        self._last, self._words = -math.inf, ""
        self._largest = 0.0
        self._homeless: dict[int, float] = {}  # job -> since when no node could take it

    def stranded(self, indices: Iterable[int]) -> list[int]:
        """Jobs that no node could have taken for too long; Ray would wait for ever."""
        now = time.monotonic()
        if now - self._last < LOOK:
            return []
        self._last = now
        nodes = [node["Resources"] for node in get_ray().nodes() if node["Alive"]]
        words = describe()
        if words != self._words:
            self._words = words
            self.on_cluster(words)
        self._largest = max((node.get("memory", 0) for node in nodes), default=0)
        fit = {need: fits(need, nodes) for need in set(self.needs)}
        self._homeless = {i: self._homeless.get(i, now) for i in indices if not fit[self.needs[i]]}
        return [index for index, since in self._homeless.items() if now - since >= PATIENCE]

    def why(self, index: int) -> str:
        need = self.needs[index]
        return (
            f"the job asks for {need.cpus} CPUs, {need.gpus:g} GPUs and {need.memory / 1e9:.1f} GB; for "
            f"{PATIENCE:.0f} s no node of the cluster had all of it (the largest memory is {self._largest / 1e9:.1f} "
            "GB). Lower memory_gb, or add a node, and run the same command again."
        )


def fits(need: Needs, nodes: Sequence[Mapping[str, float]]) -> bool:
    wanted = {"CPU": need.cpus, "GPU": need.gpus, "memory": need.memory}
    return any(all(node.get(name, 0) >= value for name, value in wanted.items()) for node in nodes)
