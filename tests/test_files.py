"""Files and folders appear whole or not at all."""

import threading
from pathlib import Path

import pytest

from jigsawmil.files import new_folder, replacing


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
