"""One thread in every process, a browser, and Ray clusters of this machine, one of whose nodes may be killed."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .fixtures.outcomes import outcome_cohort, outcome_given, outcome_options  # noqa: F401

os.environ["OMP_NUM_THREADS"] = "1"  # small tensors on several threads spend their time waiting for one another
os.environ["JIGSAWMIL_CACHE_GB"] = "0"  # prepared slides are kept on disk in the tests of that
# Ray's own 15 leaves a worker about 1 % of a core beside tests that compute
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
# five looks in vain, and a node is dead: Ray's 3,000 would be most of the time of a test that kills one
os.environ["RAY_health_check_period_ms"] = "500"  # noqa: SIM112
# what is started in the background of a script is deaf to Ctrl-C, and so would be whatever a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one per process: Playwright cannot be started twice in one."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on the PATH")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync"]
    with sync_api.sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield chrome
        chrome.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster of one node, to which a test may add; joined."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def kill_node() -> Callable[[Any, Any], None]:
    def kill(cluster: Any, node: Any) -> None:
        """As if its power were cut; over when the cluster knows."""
        import ray

        cluster.remove_node(node, allow_graceful=False)
        end = time.monotonic() + 60
        while any(one["Alive"] and one["NodeID"] == node.node_id for one in ray.nodes()) and time.monotonic() < end:
            time.sleep(0.1)

    return kill


class Doomed(NamedTuple):
    """begin: called on a worker with a name for what begins. cut: what began there -> on how many other nodes."""

    begin: Callable[[str], None]
    cut: Callable[[], dict[str, int]]


@pytest.fixture
def doomed(cluster: Any, kill_node: Callable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    """A further node, which is killed while it works."""
    import ray

    node = cluster.add_node(num_cpus=1)
    begun, victim = tmp_path_factory.mktemp("begun"), node.node_id

    def there() -> list[Path]:
        return list(begun.glob(f"* {victim}"))

    def wait() -> None:
        end = time.monotonic() + 120
        while not there() and time.monotonic() < end:
            time.sleep(0.05)

    def begin(name: str) -> None:
        """Never ends on the node that will be killed; elsewhere waits for it, lest it come too late for any work."""
        here = ray.get_runtime_context().get_node_id()
        (begun / f"{name} {here}").touch()
        if here == victim:
            time.sleep(600)
        wait()

    def kill() -> None:
        wait()
        kill_node(cluster, node)

    def cut() -> dict[str, int]:
        names = [mark.name.split()[0] for mark in there()]
        return {name: len(list(begun.glob(f"{name} *"))) - 1 for name in names}

    killer = threading.Thread(target=kill)
    killer.start()
    yield Doomed(begin, cut)
    killer.join()
