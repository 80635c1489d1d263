"""A run kept at a URL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.errors import StudyError
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.storage import LAST, Mirror, is_url
from jigsawmil.study.study import Study, plan


def tree(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def run(mirror: Mirror, study: Study, most: int | None = None) -> int:
    """What is missing, up to `most` jobs; the number run."""
    missing = [job for job in plan(study, mirror.folder)[0] if not job.done][:most]
    run_local(missing, 1, mirror.sending(lambda event: None))
    mirror.send_tables()
    return len(missing)


def test_a_driver_elsewhere_fetches_what_is_done_and_does_the_rest(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    study, url = study_of(phantom), f"file://{tmp_path}/bucket/run"
    first = Mirror(url, tmp_path / "here")
    assert first.fetch() == 0
    assert run(first, study, most=3) == 3
    second = Mirror(url, tmp_path / "elsewhere")
    assert second.fetch() == 3
    assert run(second, study) == 1
    assert tree(tmp_path / "bucket" / "run") == tree(tmp_path / "elsewhere")
    assert second.fetch() == 0  # nothing twice


def test_half_a_job_is_no_job(phantom: Path, study_of: Callable[..., Study], tmp_path: Path) -> None:
    study, url = study_of(phantom, methods=("abmil",)), f"file://{tmp_path}/run"
    run(Mirror(url, tmp_path / "here"), study)
    cut = next((tmp_path / "run").rglob(LAST))
    cut.unlink()  # as if the driver had died before its last file
    again = Mirror(url, tmp_path / "again")
    assert again.fetch() == 1
    assert not (again.folder / cut.parent.relative_to(tmp_path / "run")).exists()


def test_the_file_that_says_whole_goes_last(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(f"file://{tmp_path}/run", tmp_path / "here")
    sent: list[str] = []
    monkeypatch.setattr(Mirror, "_put", lambda self, file: sent.append(file.name))
    run_local(plan(study_of(phantom, methods=("abmil",)), mirror.folder)[0][:1], 1, mirror.sending(lambda event: None))
    assert sent[-1] == LAST
    assert sent.count(LAST) == 1


def test_a_job_that_failed_is_not_sent(tmp_path: Path) -> None:
    mirror = Mirror(f"file://{tmp_path}/run", tmp_path / "here")
    told: list[Any] = []
    event = Event(job=None, error="it failed")  # type: ignore[arg-type]
    mirror.sending(told.append)(event)
    assert told == [event]
    assert not (tmp_path / "run").exists()


def test_a_storage_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="nosuchkind://bucket/run: the storage failed"):
        Mirror("nosuchkind://bucket/run", tmp_path)
    (tmp_path / "file").touch()
    mirror = Mirror(f"file://{tmp_path}/file/run", tmp_path / "here")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "summary.csv").touch()
    with pytest.raises(StudyError, match="What is done is in"):
        mirror.send_tables()


def test_urls_have_copies_of_their_own(tmp_path: Path) -> None:
    copies = {Mirror.of(url, tmp_path).folder for url in ("file:///a/run", "file:///a/run/", "file:///b/run")}
    assert len(copies) == 2
    assert is_url("s3://bucket/run")
    assert not is_url("runs/one")
