"""Where the verbs print and write."""

from pathlib import Path

import pandas as pd
import pytest
from fsspec.implementations.local import LocalFileSystem
from rich.console import Console

from jigsawmil.cli.screen import console, tracked
from jigsawmil.cli.show import run_folder
from jigsawmil.cluster import storage
from jigsawmil.errors import StudyError
from jigsawmil.files import check_target, write_csv


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


@pytest.mark.parametrize("word", ["seed0-fold0", "summary.csv"])
def test_all_of_it_is_at_the_url_only_when_it_is(compare, given, tmp_path: Path, monkeypatch, word: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage, "PAUSES", ())
    url, put = f"file://{tmp_path}/bucket/run", LocalFileSystem.put_file

    def full(files, source: str, target: str, **options: object) -> None:
        if word in source:
            raise ConnectionError("reset by peer")
        put(files, source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "put_file", full)
        ran = compare(*given, "--out", url)
    assert ran.code == 1
    assert "the storage failed (ConnectionError: reset by peer)" in ran.err
    assert ran.out.count("done    ") == 2  # and no job was stopped by it
    assert "All results are at" not in ran.out
    again = compare(*given, "--out", url)
    assert again.code == 0, again.err
    assert "2 of 2 jobs are done already" in again.out
    assert ("1 finished jobs of an earlier run were uploaded" in again.out) == (word == "seed0-fold0")
    assert f"All results are at {url}" in again.out
    copy = next((tmp_path / ".jigsawmil").iterdir())
    local = {str(file.relative_to(copy)) for file in copy.rglob("*") if file.is_file() and file.name != ".lock"}
    assert {str(file.relative_to("bucket/run")) for file in Path("bucket/run").rglob("*") if file.is_file()} == local


def test_jobs_that_failed_are_told_also_where_the_storage_fails(compare, given, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storage, "PAUSES", ())

    def broken(*_: object, **__: object) -> None:
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(LocalFileSystem, "put_file", broken)
    url = f"file://{tmp_path}/bucket/run"
    foreign = run_folder(url) / "jobs" / "cohort" / "graph-mil" / "seed0-fold1" / "foreign.txt"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    ran = compare(*given, "--methods", "abmil,graph-mil", "--out", url)
    assert ran.code == 1
    assert "is not empty; a job needs a new folder" in ran.err
    assert "the storage failed" in ran.err
