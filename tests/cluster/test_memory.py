"""The memory that a job asks a cluster for, beside what it takes."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jigsawmil.cluster.memory import bag_sizes, edges, job_memory
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.settings import Settings

ONE_JOB = """
import json, sys
from pathlib import Path
from jigsawmil.study.job import run_job
from jigsawmil.cluster.memory import bag_sizes, job_memory
from jigsawmil.study.plan import plan
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train.settings import Settings
cohort, out, memory_gb, settings = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
source = cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})
variants = {"v": Settings.from_flat({"epochs": 1, "patience": 0, **settings})}
jobs, cohorts = plan(Study(cohorts={"c": source}, variants=variants, folds=2, memory_gb=memory_gb), out)
run_job(jobs[0])
asked = job_memory(jobs[0], cohorts["c"], bag_sizes(cohorts["c"], jobs[0].settings.level))
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([asked, 1024 * int(peak)]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight slides of about 4,000 x 1,024."""
    slides = make_phantom("composition", slides=8, dim=1024, patches=4000, seed=3)
    return write_phantom(slides, tmp_path_factory.mktemp("large") / "c")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux states the peak of a process, and not its parent's")
@pytest.mark.parametrize(
    ("memory_gb", "settings"),
    [(0.0, {}), (4.0, {"method": "abmil"}), (0.0, {"batch_size": 4, "jigsaw": "consistency"})],
    ids=["plain", "kept", "batch"],
)
def test_a_job_takes_what_it_asks_for(
    large: Path, memory_gb: float, settings: dict[str, object], tmp_path: Path
) -> None:
    """Never more, and not much less."""
    command = [sys.executable, "-c", ONE_JOB, str(large), str(tmp_path), str(memory_gb), json.dumps(settings)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    asked, taken = json.loads(ran.stdout)
    assert taken <= asked <= 1.6 * taken


def test_what_makes_a_job_larger_is_asked_for(phantom: Path, study_of: Callable[..., Study], tmp_path: Path) -> None:
    study = study_of(phantom, methods=("abmil", "graph-abmil+jigsaw"), folds=3, memory_gb=0.0)
    jobs, cohorts = plan(study, tmp_path)
    cohort = cohorts["c"]
    abmil = next(job for job in jobs if job.variant == "abmil")
    graph = next(job for job in jobs if job.variant == "graph-abmil+jigsaw")

    def asked(job: object, level: str = "slide") -> int:
        return job_memory(job, cohort, bag_sizes(cohort, level))  # type: ignore[arg-type]

    assert edges(abmil, cohort) > 0  # the slides are prepared with the graph that its neighbour needs
    assert asked(replace(abmil, graph=None)) < asked(abmil) < asked(graph)
    for more in ({"batch_size": 4}, {"jigsaw": "equivariance"}, {"hidden": 64}):
        assert asked(replace(graph, settings=graph.settings.replace(**more))) > asked(graph)  # type: ignore[arg-type]
    assert asked(replace(graph, memory_gb=1.0)) > asked(graph)
    assert asked(replace(graph, memory_gb=1.0)) == asked(replace(graph, memory_gb=100.0))  # there is no more to keep
    assert asked(graph, "patient") > asked(graph)  # some patients have two slides


def test_bags_are_slides_or_patients(phantom: Path) -> None:
    source = cohort_spec({"labels": phantom / "labels.csv", "features": phantom / "features"})
    study = Study(cohorts={"c": source}, variants={"a": Settings.from_flat({"method": "abmil"})})
    cohort = next(iter(study.cohorts.values())).read()
    slides, patients = bag_sizes(cohort, "slide"), bag_sizes(cohort, "patient")
    assert sum(slides) == sum(patients)
    assert len(patients) == len(set(cohort.patients)) < len(slides)
