"""A real Ray cluster of two nodes on this machine: the same files as locally, whatever dies."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.cohort.cohort import Cohort
from jigsawmil.errors import StudyError
from jigsawmil.study import on_ray
from jigsawmil.study.executors import Event, run_local
from jigsawmil.study.on_ray import Needs, check_feasible, job_memory, patch_bytes, run_on_ray, step_bytes
from jigsawmil.study.run import Job
from jigsawmil.study.study import Study, plan
from jigsawmil.train.settings import Settings

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1, resources={"second": 1})
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


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
    assert not (tmp_path / on_ray.TOKEN).exists()


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
    assert "changed after the study was planned" in str(errors.pop(bad.name))
    assert set(errors.values()) == {None}
    assert jobs[2].done
    assert not bad.done


def test_a_node_that_dies_has_its_jobs_run_elsewhere(cluster: Any, study: Study, local: Path, tmp_path: Path) -> None:
    longer = {name: replace(settings, epochs=40) for name, settings in study.variants.items()}
    slow = replace(study, variants=longer)
    jobs, cohorts = plan(slow, tmp_path)
    node = cluster.add_node(num_cpus=1)
    first = threading.Event()
    told: list[Event] = []

    def listen(event: Event) -> None:
        told.append(event)
        first.set()

    def kill() -> None:
        first.wait(60)
        time.sleep(0.3)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    run_on_ray(jobs, cohorts, tmp_path, listen)
    killer.join()
    assert [event.error for event in told if event.ended] == [None] * len(jobs)
    assert all(job.done for job in jobs)
    again = tmp_path / "local"
    run_local(plan(slow, again)[0], 1, lambda event: None)
    same_files(jobs, again, tmp_path)


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


def test_a_job_that_no_node_can_take_is_refused_at_once() -> None:
    nodes = [{"CPU": 4, "memory": 8e9}, {"CPU": 64, "memory": 2e9}]
    check_feasible([Needs(4, 0, int(8e9))], nodes)
    for need in (Needs(8, 0, int(4e9)), Needs(1, 1, 1), Needs(1, 0, int(9e9))):
        with pytest.raises(StudyError, match="no node of the cluster"):
            check_feasible([need], nodes)


@pytest.mark.parametrize("size", ["1000", "3278", "12050", "50000"])
@pytest.mark.parametrize("method", ["abmil", "graph-abmil+jigsaw"])
def test_the_memory_asked_for_is_what_was_measured(size: str, method: str) -> None:
    """At most half as much again, never less: peak of a process that trains on one slide of 1024 columns."""
    measured = json.loads((ROOT / "benchmarks" / "results" / "step.json").read_text())["sizes"][size][method]["peak"]
    settings = Settings(method=method)
    patches = int(size)
    asked = on_ray.BASE + patches * (patch_bytes(settings, 1024) + step_bytes(settings))
    assert measured <= asked * 1.05
    assert asked <= 1.5 * measured


def test_kept_slides_are_part_of_the_memory(phantom: Path, study: Study, tmp_path: Path) -> None:
    jobs, cohorts = plan(study, tmp_path)
    cohort: Cohort = cohorts["c"]
    none, some = (job_memory(replace(jobs[0], memory_gb=gb), cohort) for gb in (0.0, 1e-5))
    assert some - none == pytest.approx(1e4, abs=1)
    everything = sum(slide.patches for slide in cohort.slides) * patch_bytes(jobs[0].settings, cohort.dim)
    assert job_memory(replace(jobs[0], memory_gb=100), cohort) - none == pytest.approx(everything, abs=1)
