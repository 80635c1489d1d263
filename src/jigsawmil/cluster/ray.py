"""A Ray cluster: joined, described, and watched for nodes that come and go. What studies and extraction share."""

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from ..errors import StudyError, summarize_error

LOOK = 5.0  # seconds between two looks at the nodes
PATIENCE = 300.0  # seconds in which no node could take a job or an encoder before it is given up
ANSWER = 5.0  # seconds in which a head takes a connection
CONNECTS = 3  # tries at ray://


def get_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise StudyError("--executor ray needs Ray, which is not installed: pip install 'jigsawmil[ray]'.") from error
    return ray


def release() -> str:
    """What decides the results beside the settings. Builds of torch for other devices count as the same."""
    return ", ".join(f"{name} {version(name).partition('+')[0]}" for name in ("jigsawmil", "torch"))


def check_release(driver: str) -> None:
    """On a worker: refuse to work for a driver with another package, whose results would be other ones."""
    if release() != driver:
        raise StudyError(
            f"{socket.gethostname()} has {release()}; the driver has {driver}. Install the same on every node"
        )


@dataclass(frozen=True)
class Needs:
    """What one job asks of a node. memory: bytes."""

    cpus: int
    gpus: float
    memory: int

    def __str__(self) -> str:
        return f"{self.cpus} CPUs, {self.gpus:g} GPUs and {self.memory / 1e9:.1f} GB"


@contextmanager
def ray_cluster(address: str | None) -> Iterator[str]:
    """Join a cluster (or the one that RAY_ADDRESS names) or start one on this machine, and say what it has."""
    ray = get_ray()
    address = address or os.environ.get("RAY_ADDRESS")
    # Left to itself Ray joins whatever runs on this machine, such as another study's, which takes it down when it ends.
    where: dict[str, Any] = {"address": address} if address else {"address": "local", "include_dashboard": False}
    try:
        if address:
            check_reachable(address)
        for left in reversed(range(CONNECTS)):
            try:
                ray.init(**where, log_to_driver=False, logging_level="ERROR")
                break
            except ConnectionAbortedError:  # the head's process for us, which may die at birth (Ray's issue 63202)
                if not left:
                    raise
    except (OSError, ValueError, RuntimeError) as error:
        raise StudyError(
            f"no Ray cluster at {address or 'this machine'} ({summarize_error(error)}). Expected ray://host:10001, "
            "host:6379, or auto on a node of the cluster; if it was started with a token, RAY_AUTH_MODE=token and "
            "that token. Leave --address out to start Ray on this machine."
        ) from error
    try:
        yield describe()
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Fail at once if nobody answers at host:port, for which Ray itself would wait a quarter of an hour."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        if int(port) > 65535:
            raise ValueError(f"no port {port}")
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()


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
        self._unplaced: dict[int, float] = {}  # job -> since when no node could take it

    def unplaceable(self, indices: Iterable[int]) -> list[int]:
        """Jobs that no node could have taken for too long; Ray would wait for ever."""
        now = time.monotonic()
        if now - self._last < LOOK:
            return []
        self._last = now
        nodes = [node["Resources"] for node in get_ray().nodes() if node["Alive"]]
        self._largest = max((node.get("memory", 0) for node in nodes), default=0)
        fit = {need: fits(need, nodes) for need in set(self.needs)}
        self._unplaced = {i: self._unplaced.get(i, now) for i in indices if not fit[self.needs[i]]}
        words = describe() + self._waiting()
        if words != self._words:
            self._words = words
            self.on_cluster(words)
        return [index for index, since in self._unplaced.items() if now - since >= PATIENCE]

    def _waiting(self) -> str:
        """In words, the jobs for which a node would have to join."""
        if not self._unplaced:
            return ""
        count = len(self._unplaced)
        asked = self.needs[next(iter(self._unplaced))]
        jobs = f"{count} job{'s' * (count != 1)} wait{'s' * (count == 1)}"
        return f"; {jobs} for a node with {asked}, {PATIENCE / 60:g} min at most"

    def why(self, index: int) -> str:
        return (
            f"the job asks for {self.needs[index]}; in {PATIENCE:.0f} s no node of the cluster offered all of it (the "
            f"largest memory is {self._largest / 1e9:.1f} GB). Lower memory_gb, or add a node, and run the same "
            "command again."
        )


def fits(need: Needs, nodes: Sequence[Mapping[str, float]]) -> bool:
    wanted = {"CPU": need.cpus, "GPU": need.gpus, "memory": need.memory}
    return any(all(node.get(name, 0) >= value for name, value in wanted.items()) for node in nodes)
