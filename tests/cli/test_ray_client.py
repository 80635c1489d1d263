"""A cluster that was started elsewhere, driven through ray://."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")
pytest.importorskip("grpc", reason="Ray's client is not installed: pip install 'jigsawmil[ray]'")
OPEN = {
    **os.environ,
    "RAY_AUTH_MODE": "disabled",  # a token of this machine would be asked for
    "GRPC_ENABLE_FORK_SUPPORT": "0",  # else some of those servers die as they are forked
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "120",  # a server a client, which starts slowly beside other tests
}


@pytest.fixture
def head() -> Iterator[str]:
    """The address of a cluster of one node, whose working directory is not the driver's."""
    with socket.socket() as one, socket.socket() as two:
        for at in (one, two):
            at.bind(("127.0.0.1", 0))
        gcs, client = one.getsockname()[1], two.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of its sockets must be short
    ray = Path(sys.executable).with_name("ray")
    command = [ray, "start", "--head", f"--port={gcs}", f"--ray-client-server-port={client}", "--num-cpus=2"]
    command += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}", "--block"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(list(map(str, command)), cwd=folder, env=OPEN, **quiet)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", client)) == 0:
                    break
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{client}"
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(sys.platform == "win32", reason="starts Ray as POSIX does")
def test_a_cluster_elsewhere_takes_relative_paths(head: str, given: list, tmp_path: Path) -> None:
    """What is typed is relative to the driver's folder, and no other process stands there."""
    relative = [os.path.relpath(part, tmp_path) if isinstance(part, Path) else str(part) for part in given]
    quick = ["--methods", "abmil", "--folds", "2", "--epochs", "1", "--patience", "0", "--cpus", "2"]
    where = ["--out", "run", "--executor", "ray", "--address", head]
    command = [sys.executable, "-c", "from jigsawmil.cli import main; main()", "compare", *relative, *quick, *where]
    ran = subprocess.run(command, cwd=tmp_path, env=OPEN, capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Ray: 1 node, 2 CPUs" in ran.stdout
    assert len(list((tmp_path / "run" / "jobs").rglob("job.json"))) == 2
    assert not pd.read_csv(tmp_path / "run" / "predictions.csv").empty
