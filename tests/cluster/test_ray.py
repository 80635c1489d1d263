"""A Ray cluster as seen from the driver: nodes that come and go, a head that answers or not, other releases."""

import socket
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from jigsawmil.cluster import ray as cluster
from jigsawmil.cluster.ray import Needs, Watch, check_release, fits, release
from jigsawmil.errors import StudyError, summarize_error

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")


def test_a_job_needs_one_node_that_has_everything() -> None:
    some = [{"CPU": 4, "memory": 8e9}, {"CPU": 64, "memory": 2e9}]
    assert fits(Needs(4, 0, int(8e9)), some)
    for need in (Needs(8, 0, int(4e9)), Needs(1, 1, 1), Needs(1, 0, int(9e9))):
        assert not fits(need, some)


def test_nodes_may_join_late_and_leave_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = ({"Alive": True, "Resources": {"CPU": 1, "memory": size}} for size in (1e9, 8e9))
    found: list[dict[str, Any]] = [small]
    have = {"CPU": 1.0}
    ray = SimpleNamespace(nodes=lambda: found, cluster_resources=lambda: have)
    monkeypatch.setattr(cluster, "get_ray", lambda: ray)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Watch([Needs(1, 0, int(4e9)), Needs(1, 0, int(1e8))], lambda words: None)

    def after(seconds: float) -> list[int]:
        now[0] += seconds
        return watch.unplaceable([0, 1])

    assert after(0) == after(cluster.PATIENCE / 2) == []
    found.append(large)  # in time
    assert after(cluster.PATIENCE) == []
    found.remove(large)
    assert after(cluster.LOOK) == []
    assert after(cluster.PATIENCE) == [0]
    assert "4.0 GB" in watch.why(0)
    assert "the largest memory is 1.0 GB" in watch.why(0)


def test_a_head_that_answers_with_a_traceback_is_quoted_by_its_last_line() -> None:
    said = "Initialization failure from server:\nTraceback (most recent call last):\n  File x\nRuntimeError: no room\n"
    assert summarize_error(ConnectionAbortedError(said)) == "Initialization failure from server: RuntimeError: no room"
    assert summarize_error(ConnectionError("ray client connection timeout")) == "ray client connection timeout"
    assert summarize_error(ConnectionError()) == "ConnectionError"


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nosuch.invalid:6379", "127.0.0.1:99999"])
def test_where_nobody_answers_is_told_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself waits a quarter of an hour."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(ray, "init", lambda **given: pytest.fail("asked"))
    with pytest.raises(StudyError, match="no Ray cluster at"), cluster.ray_cluster(address.format(port)):
        pass


def test_who_answers_is_asked_by_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        for address in (f"127.0.0.1:{head.getsockname()[1]}", f"ray://127.0.0.1:{head.getsockname()[1]}", "auto"):
            cluster.check_reachable(address)


@pytest.mark.parametrize(("failures", "words"), [(2, ""), (3, "no Ray cluster at")])
def test_a_head_whose_process_for_us_died_is_asked_again(
    failures: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [failures]

    def init(**given: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise ConnectionAbortedError("Initialization failure from server:\nStarting Ray client server failed.")

    monkeypatch.setattr(cluster, "check_reachable", lambda address: None)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(cluster, "describe", lambda: "joined")
    with pytest.raises(StudyError, match=words) if words else nullcontext(), cluster.ray_cluster("ray://h:1") as said:
        assert said == "joined"
    assert left == [0]


def test_builds_of_one_release_work_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver without a GPU and nodes with one have torch's +cpu and +cu126."""
    have = {"jigsawmil": "0.1.0", "torch": "2.13.0+cpu"}
    monkeypatch.setattr(cluster, "version", have.__getitem__)
    driver = release()
    have["torch"] = "2.13.0+cu126"
    check_release(driver)
    have["torch"] = "2.6.0"
    with pytest.raises(StudyError, match=r"has jigsawmil 0\.1\.0, torch 2\.6\.0; the driver has .*torch 2\.13\.0"):
        check_release(driver)
