"""A run kept at a URL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from jigsawmil.cluster import storage
from jigsawmil.cluster.storage import LAST, Mirror, is_url
from jigsawmil.errors import StudyError
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PAUSES", (0.0, 0.0))


class Faulty:
    """Fails where a file system is asked for a path that holds `word`, as often as told; counts what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verb: str, word: str, faults: float) -> None:
        self.faults, self.asked = faults, 0
        real = getattr(LocalFileSystem, verb)

        def asked(files: LocalFileSystem, source: str, target: str, **options: Any) -> None:
            real(files, source, target, **options)
            if word in source:
                self.asked += 1
                if self.faults > 0:
                    self.faults -= 1
                    Path(target).write_bytes(Path(source).read_bytes()[:7])  # cut
                    raise ConnectionError("reset by peer")

        monkeypatch.setattr(LocalFileSystem, verb, asked)


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
    for url in ("nosuchkind://bucket/run", "memory://run"):
        with pytest.raises(StudyError, match=rf"{url}: .*such as s3://bucket/run"):
            Mirror(url, tmp_path)
    (tmp_path / "file").touch()
    mirror = Mirror(f"file://{tmp_path}/file/run", tmp_path / "here")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "summary.csv").touch()
    with pytest.raises(StudyError, match="Finished jobs are in"):
        mirror.send_tables()


def test_a_storage_that_takes_nothing_is_told_before_any_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(f"file://{tmp_path}/run", tmp_path / "here")
    mirror.check_writable()
    assert list((tmp_path / "run").iterdir()) == []

    def refuse(*given: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(LocalFileSystem, "pipe_file", refuse)
    with pytest.raises(StudyError, match="PermissionError: not yours"):
        mirror.check_writable()


def test_no_bucket_is_made_of_a_typing_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores make a bucket where they are asked for its folders."""
    monkeypatch.setattr(storage, "OBJECT_STORES", {"file"})
    mirror = Mirror(f"file://{tmp_path}/nobucket/run", tmp_path / "here")
    with pytest.raises(StudyError, match="FileNotFoundError"):
        mirror.check_writable()
    assert not (tmp_path / "nobucket").exists()


def test_urls_have_copies_of_their_own(tmp_path: Path) -> None:
    copies = {Mirror.of(url, tmp_path).folder for url in ("file:///a/run", "file:///a/run/", "file:///b/run")}
    assert len(copies) == 2
    assert is_url("s3://bucket/run")
    assert not is_url("runs/one")


# --- a storage that fails


def test_a_job_that_could_not_be_sent_is_sent_by_the_next_run(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, url = study_of(phantom, methods=("abmil",)), f"file://{tmp_path}/run"
    first = Mirror(url, tmp_path / "here")
    first.fetch()
    ended: list[str] = []
    with monkeypatch.context() as patch:
        Faulty(patch, "put_file", "seed0-fold0/model", faults=9e9)
        jobs = plan(study, first.folder)[0]
        run_local(jobs, 1, first.sending(lambda event: ended.append(event.job.name) if event.ended else None))
        assert ended == [job.name for job in jobs]  # the storage's fault is no job's
        with pytest.raises(StudyError, match=r"reset by peer\)\. Finished jobs are in .*run the same command again"):
            first.send_missing()
    assert len(list((tmp_path / "run").rglob(LAST))) == 1
    second = Mirror(url, tmp_path / "here")
    assert second.fetch() == 0
    assert second.send_missing() == 1
    assert tree(tmp_path / "run" / "jobs") == tree(tmp_path / "here" / "jobs")
    assert second.send_missing() == 0  # nothing twice


def test_what_the_storage_has_or_is_half_done_is_not_sent(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    study, url = study_of(phantom, methods=("abmil",)), f"file://{tmp_path}/run"
    run(Mirror(url, tmp_path / "here"), study)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob(LAST)}
    mirror = Mirror(url, tmp_path / "here")
    half = tmp_path / "here" / "jobs" / "c" / "abmil" / ".seed0-fold7.a-1-b.partial"
    half.mkdir()
    (half / LAST).touch()
    mirror.fetch()
    assert mirror.send_missing() == 0
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob(LAST)} == before


def test_a_passing_fault_is_not_noticed(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, url = study_of(phantom, methods=("abmil",)), f"file://{tmp_path}/run"
    mirror = Mirror(url, tmp_path / "here")
    up = Faulty(monkeypatch, "put_file", "seed0-fold1/predictions.csv", faults=2)
    run(mirror, study)
    assert up.asked == 3
    assert mirror.send_missing() == 0
    down = Faulty(monkeypatch, "get_file", LAST, faults=2)
    assert Mirror(url, tmp_path / "again").fetch() == 2
    assert down.asked == 4
    assert tree(tmp_path / "run") == tree(tmp_path / "here") == tree(tmp_path / "again")


def test_pauses_grow_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    slept: list[float] = []
    monkeypatch.setattr(storage.time, "sleep", slept.append)
    faulty = Faulty(monkeypatch, "put_file", "summary.csv", faults=9e9)
    mirror = Mirror(f"file://{tmp_path}/run", tmp_path)
    (tmp_path / "summary.csv").touch()
    with pytest.raises(StudyError, match="reset by peer"):
        mirror.send_tables()
    assert faulty.asked == len(slept) + 1 > 2
    assert slept == sorted(set(slept))
    assert sum(slept) < 20  # a driver waits meanwhile


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("word", [LAST, "model.safetensors", "folds.json"])
def test_what_is_cut_on_its_way_down_is_not_there(
    phantom: Path,
    study_of: Callable[..., Study],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    told: bool,
) -> None:
    """Also where the file system does not notice."""
    study, url = study_of(phantom, methods=("abmil",)), f"file://{tmp_path}/run"
    run(Mirror(url, tmp_path / "here"), study)
    again = Mirror(url, tmp_path / "again")

    def cut(files: LocalFileSystem, source: str, target: str) -> None:
        content = Path(source).read_bytes()
        Path(target).write_bytes(content[:7] if word in source else content)
        if word in source and told:
            raise KeyboardInterrupt("7 bytes of it came")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "get_file", cut)
        with pytest.raises((KeyboardInterrupt, StudyError), match=r"7 .*bytes of .* came"):
            again.fetch()
    left = tree(again.folder)
    assert not [name for name in left if word in name]
    assert not any(part.startswith(".") for name in left for part in Path(name).parts)
    again.fetch()
    assert tree(again.folder) == tree(tmp_path / "here")


def test_phantoms_are_drawn_not_sent(tmp_path: Path) -> None:
    mirror = Mirror(f"file://{tmp_path}/run", tmp_path / "here")
    for name in ("standins/c/features/0001.h5", "control/control.csv", "summary.csv", ".lock", "plots/.half/a.png"):
        (mirror.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror.folder / name).touch()
    mirror.send_tables()
    assert sorted(tree(tmp_path / "run")) == ["control/control.csv", "summary.csv"]
