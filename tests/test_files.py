"""Files and folders appear whole or not at all."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from jigsawmil import files
from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.files import (
    DAY,
    alone_in,
    check_target,
    new_folder,
    remove,
    replacing,
    sweep,
    unguarded,
    write_csv,
    write_json,
    writing_to,
)
from jigsawmil.slides.extract_many import _read, write_account
from jigsawmil.slides.extract_one import Extracted
from jigsawmil.train.trained_on import TrainedSlide, read_trained_on, write_trained_on

from .fixtures.disk import full_disk

LEAVE = """
import sys
from pathlib import Path
from jigsawmil.files import new_folder, replacing
path = Path(sys.argv[1])
with new_folder(path) as folder, replacing(path.with_name("run.state")) as file:
    (folder / "half.txt").touch()
    file.touch()
    print("written", flush=True)
    sys.stdin.read()
"""


def write_and_fail(path: Path, fault: type[BaseException]) -> None:
    path.write_text("new")
    raise fault


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_seen_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        assert temporary.parent == path.parent  # a rename within one file system
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    for fault in (ValueError, KeyboardInterrupt):
        with pytest.raises(fault), replacing(path) as temporary:
            write_and_fail(temporary, fault)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_writing_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt"):
        pass
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.parametrize("name", ["a.txt", ".a.txt"])
def test_what_a_kill_leaves_is_hidden_and_tells_whose_it_is(tmp_path: Path, name: str) -> None:
    with replacing(tmp_path / name) as temporary:
        assert temporary.name.startswith(".a.txt.")
        assert temporary.name.endswith(".partial")
        temporary.touch()


def test_threads_that_write_one_file_do_not_mix_their_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    barrier = threading.Barrier(4)

    def write(letter: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(letter * 1000)
            barrier.wait(5)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in {letter * 1000 for letter in "abcd"}
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_seen_when_it_is_whole(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "run"
    if there:
        path.mkdir()
    with new_folder(path) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "a.txt").write_text("a")
        assert not path.exists() or not names(path)
    assert (path / "sub" / "a.txt").read_text() == "a"
    assert names(tmp_path) == ["run"]


def test_a_folder_that_fails_is_not_there(tmp_path: Path) -> None:
    for fault in (ValueError, KeyboardInterrupt):
        with pytest.raises(fault), new_folder(tmp_path / "run") as partial:
            write_and_fail(partial / "a.txt", fault)
    assert not names(tmp_path)


def test_a_folder_with_content_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old.txt").write_text("old")
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "run") as partial:
        (partial / "new.txt").write_text("new")
    assert names(tmp_path) == ["run"]
    assert names(tmp_path / "run") == ["old.txt"]


def test_parents_of_a_folder_are_made(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "b") as partial:
        (partial / "c").touch()
    assert (tmp_path / "a" / "b" / "c").exists()


def test_two_that_make_one_folder_at_once_leave_that_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="not empty"), new_folder(tmp_path / "run"), new_folder(tmp_path / "run") as early:
        (early / "a.txt").write_text("early")
    assert (tmp_path / "run" / "a.txt").read_text() == "early"
    assert names(tmp_path) == ["run"]


def test_an_empty_folder_that_another_one_takes_away_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    rmdir = Path.rmdir

    def twice(path: Path) -> None:
        rmdir(path)
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", twice)
    with new_folder(tmp_path / "run") as partial:
        (partial / "a.txt").touch()
    assert names(tmp_path / "run") == ["a.txt"]


# --- what is left behind


def test_names_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where another machine has a process of this number."""
    with replacing(tmp_path / "a.txt") as one, replacing(tmp_path / "a.txt") as two:
        assert one != two  # one process, one thread
        one.touch()
        two.touch()
    with monkeypatch.context() as patch, replacing(tmp_path / "a.txt") as here:
        here.touch()
        patch.setattr("socket.gethostname", lambda: "elsewhere")
        with replacing(tmp_path / "a.txt") as there:
            there.touch()
            assert here.name.split("-")[0] != there.name.split("-")[0]


@pytest.mark.skipif(sys.platform == "win32", reason="whether a process lives is not asked there")
def test_what_a_dead_process_left_is_swept_away_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, "-c", LEAVE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == b"written"
        begun = names(tmp_path)
        assert len(begun) == 2
        with new_folder(path) as own:
            sweep(path)
            assert names(tmp_path) == sorted([*begun, own.name])
        other.kill()
    sweep(tmp_path / "run1")  # another's
    assert names(tmp_path) == sorted([*begun, "run"])
    sweep(path)
    assert names(tmp_path) == ["run"]


def test_what_another_machine_left_is_swept_away_after_a_day(tmp_path: Path) -> None:
    left = tmp_path / f".run.0123456789-{os.getpid()}-00000000.partial"
    left.mkdir()
    sweep(tmp_path / "run")
    assert left.exists()
    os.utime(left, (time.time() - DAY - 60,) * 2)
    sweep(tmp_path / "run")
    assert not left.exists()


def test_what_vanishes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove(tmp_path / "nothing")
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [tmp_path / ".run.a-1-b.partial"])
    sweep(tmp_path / "run")
    monkeypatch.setattr(files, "_abandoned", lambda path: True)
    sweep(tmp_path / "run")


def test_json_has_null_for_what_is_no_number(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": [math.nan, (1.5, -math.inf)], "b": {"c": math.nan, "d": "nan"}})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, [1.5, None]], "b": {"c": None, "d": "nan"}}


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX systems")
def test_content_and_name_are_on_the_disk_when_a_write_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def look(file: int) -> None:
        there = {path.stat().st_ino: path.name.split(".")[-1] for path in [tmp_path, *tmp_path.rglob("*")]}
        done.append(there[os.fstat(file).st_ino])
        sync(file)

    def move(old: Path, new: Path) -> None:
        done.append("renamed")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", look)
    monkeypatch.setattr(os, "replace", move)
    with replacing(tmp_path / "model") as temporary:
        temporary.touch()
    assert done == ["partial", "renamed", tmp_path.name]
    done.clear()
    with new_folder(tmp_path / "job") as folder:
        (folder / "plots").mkdir()
        (folder / "plots" / "curve").touch()
    assert sorted(done[:3]) == ["curve", "partial", "plots"]
    assert done[3:] == ["renamed", tmp_path.name]


def test_a_full_disk_says_which_file_it_is_about(tmp_path: Path) -> None:
    with full_disk(after=100), pytest.raises(OSError, match="too large") as error, new_folder(tmp_path / "job") as job:
        write_json(job / "job.json", {"a": "b" * 200})
    assert error.value.filename == str(tmp_path / "job" / "job.json")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="modes of files are of POSIX systems")
def test_files_have_the_users_umask_whoever_wrote_them(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    with replacing(tmp_path / "weights") as temporary:
        temporary.write_text("x")
        temporary.chmod(0o600)  # as safetensors does
    with new_folder(tmp_path / "job") as folder:
        (folder / "attention").write_text("x")
        (folder / "attention").chmod(0o600)
    modes = {path.stat().st_mode & 0o777 for path in (other, tmp_path / "weights", tmp_path / "job/attention")}
    assert len(modes) == 1


def test_whatever_a_kill_left_in_a_folder_is_swept_when_it_is_written_to(tmp_path: Path) -> None:
    lines = [
        "import os, pathlib, sys",
        "from jigsawmil.files import replacing",
        "with replacing(pathlib.Path(sys.argv[1])) as temporary:",
        "    temporary.touch(); os.kill(os.getpid(), 9)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines), str(tmp_path / "map.csv")], check=False)
    [left] = tmp_path.iterdir()
    assert left.name.endswith(".partial")
    with writing_to(tmp_path):
        assert not list(tmp_path.iterdir())


def test_one_process_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    words = "another training is writing there"
    with alone_in(tmp_path, words), pytest.raises(StudyError, match=f"{words}. Wait"), alone_in(tmp_path, words):
        pass
    with alone_in(tmp_path, words):  # it is free again
        pass


def test_no_cell_is_a_formula_and_every_text_comes_back(tmp_path: Path) -> None:
    texts = [
        "=cmd|' /C calc'!A0",
        "@sum(1)",
        "-2+3",
        "+49 30",
        "'=x",
        "''=x",
        "\tx",
        "plain",
        "-1",
        "+",
        "-",
        "+2.5",
        "'",
    ]
    write_csv(pd.DataFrame({"slide_id": texts, "p": -0.5}), tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
    assert [text for text in table["slide_id"] if text[0] in "=@+-\t"] == ["-1", "+", "-", "+2.5"]
    assert list(table["slide_id"].map(unguarded)) == texts
    assert set(table["p"]) == {"-0.5"}


def test_ids_that_look_like_formulas_come_back_from_every_table(tmp_path: Path) -> None:
    name = "=cmd|' /C calc'!A0"
    write_trained_on([TrainedSlide(name, name, 3)], tmp_path / "training_slides.csv")
    assert read_trained_on(tmp_path / "training_slides.csv") == (TrainedSlide(name, name, 3),)
    for status in ("failed", "no tissue"):  # the second is found beside the first
        write_account(Extracted(name, status), tmp_path)
    assert list(_read(tmp_path / "extracted.csv")["slide"]) == [name]
    for table in tmp_path.glob("*.csv"):
        assert f",{name}" not in table.read_text()
        assert f"\n{name}" not in table.read_text()


def test_a_table_is_no_workbook(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found '.xlsx', expected .csv"):
        check_target(tmp_path / "p.xlsx")
