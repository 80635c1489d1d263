"""Where the verbs print and write."""

from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from jigsawmil.cli.show import check_target, console, tracked, write_csv
from jigsawmil.errors import StudyError


def test_a_hundred_columns_where_there_is_no_terminal(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 100
    monkeypatch.setenv("COLUMNS", "72")
    assert console().width == 72


def test_work_is_announced_and_passed_on(capsys) -> None:
    screen = Console(width=80)
    assert list(tracked(iter("abc"), 3, "Reading 3 slides", screen, quiet=False)) == ["a", "b", "c"]
    assert capsys.readouterr().out == "Reading 3 slides\n"
    assert list(tracked(iter("abc"), 3, "Reading 3 slides", screen, quiet=True)) == ["a", "b", "c"]
    assert capsys.readouterr().out == ""
    terminal = Console(width=80, force_terminal=True)
    assert list(tracked(iter("abc"), 3, "Reading 3 slides", terminal, quiet=False)) == ["a", "b", "c"]
    assert "100%" in capsys.readouterr().out


def test_a_table_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "new" / "table.csv"
    write_csv(pd.DataFrame({"a": [1]}), path)

    def broken(self, target, **_: object) -> None:
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", broken)
    with pytest.raises(StudyError, match=r"cannot be written \(No space left on device\)"):
        write_csv(pd.DataFrame({"a": [2]}), path)
    assert path.read_text() == "a\n1\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_target_is_looked_at_before_the_work(tmp_path: Path) -> None:
    check_target(tmp_path / "new" / "p.csv")
    with pytest.raises(StudyError, match="found a folder, expected a file"):
        check_target(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be written"):
        check_target(tmp_path / "file" / "p.csv")
