"""`make fuzz` and `make chaos`: a short form of the second, and long runs that are cut and resumed."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

fuzz: Any = importlib.import_module("tools.fuzz.__main__")
parts: Any = importlib.import_module("tools.parts")
trust_page: Any = importlib.import_module("tools.trust_page")
ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="verbs run in forks")
def test_a_training_that_is_killed_again_and_again_ends_with_the_bytes_of_an_undisturbed_one() -> None:
    command = [sys.executable, "-m", "tools.chaos", "--kills", "4", "--only", "train"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stdout + run.stderr
    kills, runs, *faults = run.stdout.splitlines()[-2].split()[1:]
    assert (int(kills) >= 4, int(runs) >= 1, {*faults}) == (True, True, {"0"}), run.stdout


def test_a_run_that_was_cut_is_resumed_where_it_ended(tmp_path, monkeypatch, capsys) -> None:
    asked: list[tuple[int, int]] = []

    def run(files: int, seed: int, first: int = 0, only: list[str] | None = None) -> Any:
        assert seed == 7
        asked.append((first, files))
        table = fuzz.Table()
        for number in range(first, first + (files if len(asked) > 2 else 3)):  # Ctrl-C in the first two
            table.add({"target": "a" if number % 2 else "b", "number": number}, "equal", "")
        return table

    monkeypatch.setattr(fuzz, "run", run)
    out = tmp_path / "fuzz.json"
    for options in (["--seed", "7"], ["--resume"], ["--resume", "--seed", "7"], ["--resume"]):
        assert fuzz.main(["--files", "10", "--out", str(out), *options]) == 0
    assert asked == [(0, 10), (3, 7), (6, 4)]
    [part] = json.loads(out.read_text())["parts"]  # of one commit
    assert (part["files"], part["counts"]) == (10, {"a": {"equal": 5}, "b": {"equal": 5}})
    assert part["commit"] is None or len(part["commit"]) == 40
    assert "seed 7, 10 files" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds seed 7"):
        fuzz.main(["--files", "10", "--seed", "8", "--out", str(out), "--resume"])


def test_parts_of_several_commits_stay_apart_and_add_up(tmp_path, monkeypatch) -> None:
    commits = iter("aab")
    monkeypatch.setattr(parts, "provenance", lambda: {"commit": next(commits), "dirty": False})
    run = parts.Parts(tmp_path / "r.json", 1, resume=False)
    for verb in ("train", "export", "train"):
        run.add({"counts": {verb: {"kills": 2}}, "said": [verb]})
    again = parts.Parts(tmp_path / "r.json", 1, resume=True)
    assert [one["commit"] for one in again.done] == ["a", "b"]
    assert again.total("counts") == {"train": {"kills": 4}, "export": {"kills": 2}}
    assert again.total("said") == ["train", "export", "train"]


def test_the_page_has_the_figures_of_the_long_runs() -> None:
    text = trust_page.PAGE.read_text()
    assert trust_page.page(text) == text
