"""Where a model came from."""

import subprocess
from pathlib import Path
from typing import Any

from jigsawmil.train import origin as module
from jigsawmil.train.origin import origin


def test_the_origin_names_our_commit_or_none(tmp_path: Path, monkeypatch: Any) -> None:
    """Installed below another project's repository, the commit of that project is not ours."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
    commit = ["commit", "-q", "--allow-empty", "-m", "theirs"]
    subprocess.run(["git", "-C", str(tmp_path), *identity, *commit], check=True)
    (tmp_path / "site").mkdir()
    monkeypatch.setattr(module, "__file__", str(tmp_path / "site" / "origin.py"))
    assert origin()["commit"] is None
    (tmp_path / "site" / "origin.py").write_text("")
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *identity, *commit], check=True)
    head = subprocess.run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert origin()["commit"] == head.stdout.strip()
