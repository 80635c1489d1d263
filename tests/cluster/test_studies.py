"""A real Ray cluster of two nodes on this machine: the same files as locally, whatever dies."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.cluster import ray as nodes
from jigsawmil.cluster import studies as on_ray
from jigsawmil.cluster.studies import everywhere, run_on_ray
from jigsawmil.cohort.options import CohortOptions
from jigsawmil.errors import StudyError
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.job import Job
from jigsawmil.study.plan import plan
from jigsawmil.study.run_folder import RunFolder
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study
from jigsawmil.train.choice import Choice

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")


@pytest.fixture(scope="module", autouse=True)
def second(cluster: Any) -> None:
    """The cluster's second node."""
    cluster.add_node(num_cpus=1)


@pytest.fixture(scope="module")
def study(phantom: Path, study_of: Callable[..., Study]) -> Study:
    return study_of(phantom, methods=("abmil", "graph-abmil+jigsaw"), folds=3, attention=True, memory_gb=0.1)


@pytest.fixture(scope="module")
def local(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("local")
    run_local(plan(study, out)[0], 1, lambda event: None)
    return out


def same_files(jobs: list[Job], local: Path, out: Path) -> None:
    for job in jobs:
        folder = local / job.folder.relative_to(out)
        names = {file.name for file in folder.iterdir()}
        assert {file.name for file in job.folder.iterdir()} == names, job.name
        for name in names - {"job.json", "trace.csv", "model.json"}:  # these hold seconds, or the number of threads
            assert (job.folder / name).read_bytes() == (folder / name).read_bytes(), (job.name, name)
        specs = [json.loads((f / "job.json").read_text())["spec"] for f in (job.folder, folder)]
        assert specs[0] == specs[1]


def test_ray_writes_what_local_processes_write(cluster: Any, study: Study, local: Path, tmp_path: Path) -> None:
    jobs, cohorts = plan(study, tmp_path)
    events: list[Event] = []
    run_on_ray(jobs, cohorts, tmp_path, events.append)
    assert [event.error for event in events if event.ended] == [None] * len(jobs)
    same_files(jobs, local, tmp_path)
    assert not RunFolder(tmp_path).token.exists()
    for job in jobs:  # nothing is said of a job that has ended
        assert [event.ended for event in events if event.job is job].index(True) == sum(
            e.job is job for e in events
        ) - 1


def test_ensembles_and_choices_are_the_same_on_ray(
    cluster: Any, phantom: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    plain = study_of(phantom, methods=("abmil",), folds=2)
    members = plain.variants["abmil"].replace(members=2)
    choice = Choice(options={"hidden": [4, 8]}, folds=2, repeats=1)
    study = replace(plain, variants={"pair": members, "chosen": members}, choices={"chosen": choice})
    on_ray, here = (
        cross_validate(study, tmp_path / name, executor=by) for name, by in (("ray", run_on_ray), ("a", None))
    )
    for table in ("predictions", "summary"):
        name = f"{table}.csv"
        assert (on_ray.folder / name).read_bytes() == (here.folder / name).read_bytes()
    chosen = [run.choices.drop(columns="seconds") for run in (on_ray, here)]
    assert chosen[0].equals(chosen[1])


def test_without_shared_storage_the_files_come_back_through_ray(
    cluster: Any, study: Study, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, cohorts = plan(study, tmp_path)
    monkeypatch.setattr(on_ray, "_leave_token", lambda out: "a token that no worker finds")
    run_on_ray(jobs, cohorts, tmp_path, lambda event: None)
    same_files(jobs, local, tmp_path)


def test_a_job_that_fails_is_told_and_the_rest_go_on(cluster: Any, study: Study, tmp_path: Path) -> None:
    jobs, cohorts = plan(study, tmp_path)
    bad = replace(jobs[1], fingerprint="another cohort")
    events: list[Event] = []
    run_on_ray([jobs[0], bad, jobs[2]], cohorts, tmp_path, events.append)
    errors = {event.job.name: event.error for event in events if event.ended}
    assert "changed after the study started" in str(errors.pop(bad.name))
    assert set(errors.values()) == {None}
    assert jobs[2].done
    assert not bad.done


def test_a_node_that_dies_has_its_jobs_run_elsewhere(
    doomed: Any, study: Study, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = doomed.begin

    def work(job: Job, *given: Any) -> Any:
        from jigsawmil.cluster.studies import _work

        begin(f"{job.variant}-{job.fold}")
        return _work(job, *given)

    monkeypatch.setattr(on_ray, "_work", work)
    monkeypatch.setattr(nodes, "LOOK", 0.5)
    jobs, cohorts = plan(study, tmp_path)
    told: list[Event] = []
    words: list[str] = []
    run_on_ray(jobs, cohorts, tmp_path, told.append, on_cluster=words.append)
    assert [event.error for event in told if event.ended] == [None] * len(jobs)
    same_files(jobs, local, tmp_path)
    assert list(doomed.cut().values()) == [1]  # it began there, and again on another node
    assert words[0].startswith("Ray: 3 nodes, 3 CPUs")


def test_a_job_that_no_node_can_take_is_told_and_the_rest_go_on(
    cluster: Any, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, cohorts = plan(study, tmp_path)
    real = on_ray.job_memory
    monkeypatch.setattr(on_ray, "job_memory", lambda job, *given: int(1e13) if job is jobs[1] else real(job, *given))
    monkeypatch.setattr(nodes, "LOOK", 0.2)
    monkeypatch.setattr(nodes, "PATIENCE", 1.0)
    told: list[Event] = []
    said: list[str] = []
    run_on_ray(jobs[:3], cohorts, tmp_path, told.append, on_cluster=said.append)
    errors = {event.job.name: event.error for event in told if event.ended}
    assert "asks for 1 CPUs, 0 GPUs and 10000.0 GB" in str(errors.pop(jobs[1].name))
    assert any("; 1 job waits for a node with 1 CPUs, 0 GPUs and 10000.0 GB" in words for words in said)
    assert list(errors.values()) == [None, None]


def test_a_node_that_can_run_no_job_stops_the_study(
    cluster: Any, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fail one job after the other, and quickly."""
    jobs, cohorts = plan(study, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(on_ray, "release", lambda: "jigsawmil 99")
        with pytest.raises(StudyError, match=r"a node cannot run jobs: .* has jigsawmil .*, torch .*; the driver has"):
            run_on_ray(jobs, cohorts, tmp_path, lambda event: None)

    def work(*given: Any) -> Any:
        raise ImportError("\x1b[36mno module\x1b[39m named jigsawmil on this node")  # Ray colours what it quotes

    monkeypatch.setattr(on_ray, "_work", work)
    with pytest.raises(StudyError, match=r"ImportError: no module named jigsawmil on this node\. Run the same") as told:
        run_on_ray(jobs, cohorts, tmp_path, lambda event: None)
    assert "\x1b" not in str(told.value)


def test_an_interrupt_cancels_what_runs_and_leaves_what_is_done(cluster: Any, study: Study, tmp_path: Path) -> None:
    jobs, cohorts = plan(study, tmp_path)

    def interrupt(event: Event) -> None:
        if event.ended:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_ray(jobs, cohorts, tmp_path, interrupt)
    assert any(job.done for job in jobs)
    missing = [job for job in jobs if not job.done]
    run_on_ray(missing, cohorts, tmp_path, lambda event: None)  # a driver that is started again
    assert all(job.done for job in jobs)


def test_another_node_has_another_working_directory(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job, *_] = plan(study, tmp_path)[0]
    monkeypatch.chdir(tmp_path)
    source = replace(job.source, labels="l.csv", features="f", options=CohortOptions(mpp=0.5, slide_table="s.csv"))
    sent = everywhere(replace(job, source=source, folder=Path("run/jobs/a")))
    assert sent.source.labels == str(tmp_path / "l.csv")
    assert sent.source.features == str(tmp_path / "f")
    assert sent.source.options.given() == {"mpp": 0.5, "slide_table": str(tmp_path / "s.csv")}
    assert sent.folder == tmp_path / "run/jobs/a"


def test_what_a_worker_wrote_and_the_driver_does_not_see_is_told(
    cluster: Any, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*given: Any) -> Any:
        from jigsawmil.cluster.studies import Outcome

        return Outcome(None, None)

    monkeypatch.setattr(on_ray, "_work", work)
    monkeypatch.setattr(on_ray, "SEEN", 0.5)
    jobs, cohorts = plan(study, tmp_path)
    told: list[Event] = []
    run_on_ray(jobs[:1], cohorts, tmp_path, told.append)
    assert "not visible to the driver" in str(next(event.error for event in told if event.ended))
