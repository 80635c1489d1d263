"""Maps of a run are out of fold, and pool what the run pooled."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from jigsawmil.errors import ConfigError, StudyError
from jigsawmil.study.cases import case_bags, case_maps, case_model, cases, run_maps
from jigsawmil.study.run import Run, open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.train.settings import Settings

SMALL = {"hidden": 8, "attention_dim": 4, "grid": 3, "k": 4, "epochs": 1, "patience": 0, "lr": 1e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 slides of 8 patients in `cohort`; a run by slide and a run by patient."""
    home = tmp_path_factory.mktemp("maps")
    cohort = write_phantom(make_phantom("composition", slides=12, dim=16, patches=20, two_slides=0.5), home / "cohort")
    for level in ("slide", "patient"):
        study = Study(
            cohorts={"c": cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})},
            variants={
                "half": Settings(method="graph-abmil+jigsaw", level=level, precision="bfloat16", **SMALL),
                "ensemble": Settings(method="graph-abmil+jigsaw", level=level, members=3, **SMALL),
                **{name: Settings(method=name, level=level, **SMALL) for name in ("abmil", "graph-abmil+jigsaw")},
            },
            folds=2,
        )
        assert not cross_validate(study, home / level).failed
    return home


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Run]:
    return {level: open_run(folder / level) for level in ("slide", "patient")}


@pytest.mark.parametrize("level", ["slide", "patient"])
@pytest.mark.parametrize("variant", ["half", "ensemble", "abmil", "graph-abmil+jigsaw"])
def test_probabilities_are_those_of_the_run_to_the_bit(runs: dict[str, Run], level: str, variant: str) -> None:
    """Every case once, by the model of the fold that left it out: the run's own prediction comes out again."""
    run = runs[level]
    table = run.predictions[run.predictions["variant"] == variant].set_index("slide_id")
    found = cases(run, "c", variant=variant)
    assert sorted(case.name for case in found) == sorted(table.index)
    for case in found:
        for maps in case_maps(run, case):
            assert maps.name == case.name
            assert maps.probabilities[1] == table.loc[case.name, "probability"]


def test_models_are_those_of_this_run_not_of_another_at_the_same_path(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def method() -> str:
        return case_model(cases(open_run("run"), "c", variant="abmil")[0])[1].title

    def put(variant: str) -> None:
        """In place of all jobs of abmil."""
        shutil.rmtree("run/jobs/c/abmil")
        shutil.copytree(folder / "slide" / "jobs" / "c" / variant, "run/jobs/c/abmil")
        for path in Path("run/jobs/c/abmil").glob("*/job.json"):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"variant": "abmil"}))

    for name in ("first", "second"):
        shutil.copytree(folder / "slide", tmp_path / name / "run")
    monkeypatch.chdir(tmp_path / "first")
    assert method() == "abmil"
    monkeypatch.chdir(tmp_path / "second")
    put("graph-abmil+jigsaw")
    assert method() == "graph-abmil+jigsaw"
    put("abmil")
    assert method() == "abmil"


def test_a_patient_has_all_its_slides(runs: dict[str, Run]) -> None:
    run = runs["patient"]
    found = cases(run, "c", variant="abmil")
    assert sorted(slide for case in found for slide in case.slides) == sorted(run.slides["slide_id"])
    double = next(case for case in found if len(case.slides) == 2)
    maps = case_maps(run, double)
    assert [one.bag.slide_id for one in maps] == list(double.slides)
    assert sum(one.attention.sum() for one in maps) == pytest.approx(1, abs=1e-5)
    assert (run_maps(run, double.slides[1], variant="abmil").evidence == maps[1].evidence).all()
    assert [len(bag) for bag in case_bags(run, double)] == [len(one) for one in maps]


def test_one_slide_by_its_id(runs: dict[str, Run]) -> None:
    """By the last method of the study, unless another is named."""
    maps = run_maps(runs["slide"], "0003")
    case = next(case for case in cases(runs["slide"], "c") if case.name == "0003")
    assert case_model(case)[1].model.method == "graph-abmil+jigsaw"
    assert (maps.evidence == case_maps(runs["slide"], case)[0].evidence).all()
    assert maps.neighbours(0) is not None
    assert run_maps(runs["slide"], "0003", variant="abmil").neighbours(0) is None


def test_moved_features_are_found_in_their_new_folder(runs: dict[str, Run], folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "elsewhere"
    new.mkdir()
    (new / "0003.h5").write_bytes((folder / "cohort" / "features" / "0003.h5").read_bytes())
    there = run_maps(runs["slide"], "0003", features=new)
    assert np.array_equal(there.evidence, run_maps(runs["slide"], "0003").evidence)


def test_unknown_names_are_refused(runs: dict[str, Run]) -> None:
    with pytest.raises(StudyError, match="nobody: no slide of"):
        run_maps(runs["slide"], "nobody")
    with pytest.raises(ConfigError, match="Did you mean 'abmil'"):
        cases(runs["slide"], "c", variant="abml")
    with pytest.raises(ConfigError, match="cohort"):
        cases(runs["slide"], "d")
