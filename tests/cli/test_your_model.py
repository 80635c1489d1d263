"""The page on models of one's own: its module and its commands, as they stand there."""

import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from jigsawmil import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "your-model.md"
SHORT = {verb: ["--epochs", "2", "--patience", "0"] for verb in ("compare", "train")}


def test_the_page_does_what_it_says(jigsawmil, cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (tmp_path / "my_models.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    for name in ("labels.csv", "features"):
        (tmp_path / name).symlink_to(cohort / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setenv("JIGSAWMIL_METHODS", "my_models")
    commands = [shlex.split(line) for line in re.findall(r"^jigsawmil (.*)$", text, re.MULTILINE)]
    assert [command[0] for command in commands] == ["compare", "report", "heatmap", "train", "predict", "export"]
    try:
        for command in commands:
            ran = jigsawmil(*command, *SHORT.get(command[0], []))
            assert ran.code == 0, f"{command}: {ran.err}"
    finally:
        METHODS._imported.clear()
        sys.modules.pop("my_models", None)
    assert set(pd.read_csv("run/summary.csv")["variant"]) == {"abmil", "mean-lr", "my_models SmoothMax"}
    assert "made by my_models:SmoothMax with width = 32" in Path("run/report.html").read_text()
    assert pd.read_csv("maps/0001.csv")["attention"].nunique() > 1
    assert Path("fold-map.png").stat().st_size > 0
