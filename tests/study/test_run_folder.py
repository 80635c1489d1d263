"""A run folder read back."""

import ast
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import ConfigError, FeatureError, StudyError
from jigsawmil.study import run_folder
from jigsawmil.study.run import Run, is_run, open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study

from ..fixtures.runs import without_digests


@pytest.fixture(scope="module")
def done(phantom: Path, study_of: Callable[..., Study], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, cross_validate(study_of(phantom, shuffle_control=True), out)


def test_a_table_that_changed_after_the_run_is_refused_and_made_again_from_the_jobs(
    tmp_path: Path, phantom: Path, study_of: Callable[..., Study]
) -> None:
    study, out = study_of(phantom, ("abmil",)), tmp_path / "run"
    before = cross_validate(study, out).predictions
    table = out / "predictions.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(StudyError, match=r"predictions\.csv changed or lost .* Run the study again: finished"):
        open_run(out)
    (out / "summary.csv").unlink()
    with pytest.raises(StudyError, match=r"predictions\.csv, summary\.csv changed or lost"):
        open_run(out)
    assert cross_validate(study, out).predictions.equals(before)
    assert open_run(out).predictions.equals(before)


def test_tables_come_back_as_they_were(done: tuple[Path, Run]) -> None:
    out, result = done
    run = open_run(out)
    columns = list(result.predictions.columns)
    for column in columns:
        assert list(run.predictions[column]) == list(result.predictions[column]), column
    assert list(run.summary["auc_oof"]) == list(result.summary["auc_oof"])
    assert list(run.control["probability"]) == list(result.control["probability"])
    assert run.variants == ("abmil", "graph-mil")
    assert run.cohorts == ("c",)
    assert run.seeds == (0,)
    assert run.task("c") == "binary"
    assert len(run.jobs) == 4  # the control's are not among them


def test_a_run_of_an_older_version_opens(done: tuple[Path, Run], tmp_path: Path) -> None:
    """Its column of variants was called method, and a single cohort was not named."""
    old = without_digests(shutil.copytree(done[0], tmp_path / "run"))
    for file in ("predictions", "summary", "comparisons"):
        text = (old / f"{file}.csv").read_text().replace("variant", "method", 2)
        (old / f"{file}.csv").write_text(text)
    table = pd.read_csv(old / "predictions.csv", dtype=str).drop(columns="cohort")
    table.to_csv(old / "predictions.csv", index=False)
    then, now = open_run(old), open_run(done[0])
    for name in ("predictions", "summary", "comparisons"):
        pd.testing.assert_frame_equal(getattr(then, name), getattr(now, name))
    assert then.variants == now.variants


def test_a_slide_is_explained_by_the_model_that_never_saw_it(done: tuple[Path, Run]) -> None:
    run = open_run(done[0])
    folds = json.loads((done[0] / "folds.json").read_text())
    assert folds
    for slide_id in run.slides["slide_id"]:
        job = run.jobs_of(slide_id, variant="abmil")[0]
        tested = (job.folder / "predictions.csv").read_text().splitlines()[1:]
        assert slide_id in {line.split(",")[0] for line in tested}
        assert job.variant == "abmil"
    assert run.jobs_of(slide_id)[0].variant == "graph-mil"  # the last, where none is named


def test_a_patient_that_was_pooled_is_found_by_its_slides(
    phantom: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    cross_validate(study_of(phantom, methods=("abmil",), level="patient"), tmp_path / "run")
    run = open_run(tmp_path / "run")
    for slide_id, patient in zip(run.slides["slide_id"], run.slides["patient_id"], strict=True):
        tested = (run.jobs_of(slide_id)[0].folder / "predictions.csv").read_text()
        assert patient in {line.split(",")[0] for line in tested.splitlines()}


def test_features_are_read_from_where_the_study_read_them(
    own: Path, study_of: Callable[..., Study], tmp_path: Path
) -> None:
    cross_validate(study_of(own, methods=("abmil",)), tmp_path / "run")
    run = open_run(tmp_path / "run")
    slide = run.slides["slide_id"].iloc[0]
    bag = run.bag_of(slide)
    assert bag.slide_id == slide
    assert len(bag) == run.slides["patches"].iloc[0]
    shutil.move(own, tmp_path / "moved")
    with pytest.raises(FeatureError, match=r"no longer there.*--features"):
        run.bag_of(slide)
    moved = next((tmp_path / "moved").rglob("*.h5")).parent
    assert np.array_equal(run.bag_of(slide, folder=moved).features, bag.features)


def test_what_is_not_there_is_named(done: tuple[Path, Run], tmp_path: Path) -> None:
    run = open_run(done[0])
    with pytest.raises(StudyError, match=r"nowhere: no slide of .*slides\.csv"):
        run.jobs_of("nowhere")
    with pytest.raises(ConfigError, match="graph-mil"):
        run.jobs_of(run.slides["slide_id"].iloc[0], variant="graph-mill")
    with pytest.raises(StudyError, match="no such folder"):
        open_run(tmp_path / "none")
    with pytest.raises(StudyError, match=r"no study\.json"):
        open_run(tmp_path)
    assert not is_run(tmp_path)


def test_a_damaged_run_is_said_to_be_one(done: tuple[Path, Run], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(done[0], tmp_path / "copy"))
    (copy / "study.json").write_text('{"format": 1, "classes": ')
    with pytest.raises(StudyError, match="damaged"):
        open_run(copy)
    (copy / "study.json").write_text('{"format": 1, "classes": {"c": ["a", "b"]}}')
    with pytest.raises(StudyError, match="another version"):
        open_run(copy)


def test_a_damaged_table_is_said_to_be_one(done: tuple[Path, Run], tmp_path: Path) -> None:
    copy = without_digests(Path(shutil.copytree(done[0], tmp_path / "copy")))
    (copy / "summary.csv").write_text("method,auc_mean\nabmil,zero\n")
    with pytest.raises(StudyError, match="a table of the run is damaged"):
        open_run(copy)


def test_a_slide_without_a_finished_job_has_no_model(done: tuple[Path, Run], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(done[0], tmp_path / "copy"))
    run = open_run(copy)
    slide = run.slides["slide_id"].iloc[0]
    shutil.rmtree(run.jobs_of(slide)[0].folder)
    with pytest.raises(StudyError, match="Run the study to its end"):
        open_run(copy).jobs_of(slide)


def strings_of(file: Path) -> Iterator[str]:
    """All strings of a module but its docstrings and what is said to people, which has spaces."""
    tree = ast.parse(file.read_text())
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield from [node.value] * (" " not in node.value)


OWN = re.compile(
    r"(^|/)(job|study)\.json|(^|/)(trace|summary|comparisons|slides|left_out|control)\.csv|attention\.safetensors|seed\*"
    r"|-fold|folds-|(^|/)(jobs|plots|standins|control)(/|$)|table\.md|report\.html|\.shared-with-workers"
)
OTHERS = {  # words that mean something else there: a column, a key, a table
    "cohort/split_json.py": {"k-fold-"},
    "cli/progress.py": {"jobs"},
    "report/provenance.py": {"jobs"},
    "study/gather.py": {"control"},
    "study/records.py": {"jobs"},
    "study/run.py": {"control"},
}


def test_the_files_of_a_run_are_named_in_one_place() -> None:
    root = Path(run_folder.__file__).parents[1]
    own = list(strings_of(root / "study" / "run_folder.py"))
    assert all(any(OWN.search(text) for text in own if name in text) for name in ("job.json", "jobs", "seed*", "-fold"))
    spelt = {}
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root).as_posix()
        names = {text for text in strings_of(file) if OWN.search(text)} - OTHERS.get(inside, set())
        if names and inside != "study/run_folder.py":
            spelt[inside] = names
    assert spelt == {}


@pytest.mark.parametrize("file", ["slides.csv", "predictions.csv", "study.json", "job.json"])
def test_a_name_that_leads_out_of_the_folder_is_refused(done: tuple[Path, Run], tmp_path: Path, file: str) -> None:
    out, result = done
    folder = tmp_path / "run"
    without_digests(Path(shutil.copytree(out, folder)))
    path = folder / file if file != "job.json" else next(folder.glob("jobs/*/*/*/job.json"))
    name = str(result.slides["slide_id"].iloc[0]) if file == "slides.csv" else "graph-mil"
    text = path.read_text()
    path.write_text(text.replace(name, "../../elsewhere"))
    assert path.read_text() != text
    with pytest.raises(StudyError, match=r"'../../elsewhere' is the name of"):
        open_run(folder)


@pytest.mark.parametrize("file", ["study.json", "job.json"])
def test_a_variant_whose_name_is_no_text_is_refused(done: tuple[Path, Run], tmp_path: Path, file: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(done[0], folder)
    path = folder / file if file != "job.json" else next(folder.glob("jobs/*/*/*/job.json"))
    record = json.loads(path.read_text())
    changed = {"variants": [float("nan")]} if file == "study.json" else {"variant": float("nan")}
    path.write_text(json.dumps(record | changed))
    with pytest.raises(StudyError, match="found nan as the name of a variant"):
        open_run(folder)
