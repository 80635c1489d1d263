"""The attention figure of a run: test slides by a fixed rule, the stored weights, and a reference."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.numpy import load_file

from jigsawmil.errors import ConfigError
from jigsawmil.report.attention import attention_caption, attention_points, attention_rows, write_attention_figure
from jigsawmil.report.page import write_report
from jigsawmil.study.run import Run, open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom, write_phantom
from jigsawmil.synthetic.phantom_options import TYPES
from jigsawmil.synthetic.planted import Planted, read_planted
from jigsawmil.train.settings import Settings

from ..fixtures.runs import without_digests

SMALL = {"hidden": 8, "attention_dim": 4, "grid": 3, "k": 4, "epochs": 1, "patience": 0, "lr": 1e-3}
VARIANTS = ("abmil", "graph-abmil", "graph-abmil+jigsaw")
PHANTOM = make_phantom("arrangement", slides=14, dim=16, patches=20, two_slides=0.4, seed=3)


def study_of(cohort: Path, level: str = "slide", **more: object) -> Study:
    return Study(
        cohorts={"c": cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})},
        variants={name: Settings(method=name, level=level, **SMALL) for name in VARIANTS},
        folds=2,
        attention=True,
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A phantom in `cohort`, and a run of it. Not to be changed."""
    folder = tmp_path_factory.mktemp("attention")
    cross_validate(study_of(write_phantom(PHANTOM, folder / "cohort")), folder / "run")
    return folder


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    return open_run(home / "run")


def first_fold(run: Run) -> dict[str, set[str]]:
    """The slides of each part of it, as the run folder has them."""
    parts = json.loads((run.folder / "folds.json").read_text())["folds"][0]
    return {part: {slide for slides in patients.values() for slide in slides} for part, patients in parts.items()}


def test_of_each_class_the_median_test_slide_of_the_first_fold(run: Run) -> None:
    fold = first_fold(run)
    rows = attention_rows(run, "c")
    assert [row.label for row in rows] == ["mixed", "segregated"]
    for row in rows:
        assert row.slide_id in fold["test"]
        assert row.slide_id not in fold["train"] | fold["val"]
        own = run.slides[(run.slides["label"] == row.label) & run.slides["slide_id"].isin(fold["test"])]
        ordered = sorted(zip(own["patches"], own["slide_id"], strict=True))
        assert row.slide_id == ordered[(len(ordered) - 1) // 2][1]
        assert row.title.startswith(f"True class {row.label}: slide {row.slide_id}, {len(row.coords)} patches")
        assert row.title.endswith("test fold 0")


def test_the_choice_does_not_depend_on_results(run: Run, home: Path, tmp_path: Path) -> None:
    other = without_digests(shutil.copytree(home / "run", tmp_path / "run"))
    table = pd.read_csv(other / "predictions.csv", dtype={"slide_id": str, "patient_id": str})
    table.assign(probability=1 - table["probability"]).iloc[::-1].to_csv(other / "predictions.csv", index=False)
    chosen = [[row.slide_id for row in attention_rows(one, "c")] for one in (run, open_run(other))]
    assert chosen[0] == chosen[1]


def test_points_are_the_stored_attention_to_the_bit(run: Run, tmp_path: Path) -> None:
    image, table = write_attention_figure(run, "c", tmp_path / "figure.png")
    assert image.read_bytes().startswith(b"\x89PNG")
    points = pd.read_csv(table, dtype=str)
    rows = attention_rows(run, "c")
    assert list(points) == ["slide_id", "label", "fold", "x", "y", *VARIANTS, "planted"]
    assert len(points) == sum(len(row.coords) for row in rows)
    for row in rows:
        own = points[points["slide_id"] == row.slide_id]
        for panel in row.panels:
            stored = load_file(run.files.job("c", panel.variant, 0, 0) / "attention.safetensors")
            for shown in (panel.attention, own[panel.variant].to_numpy().astype(np.float32)):
                np.testing.assert_array_equal(shown, stored[row.slide_id])
            np.testing.assert_array_equal(own[["x", "y"]].astype(float), stored[f"{row.slide_id}/coords"])
            assert stored[row.slide_id].sum() == pytest.approx(1, abs=1e-5)


def test_each_panel_states_the_prediction_of_its_variant(run: Run) -> None:
    table = run.predictions.set_index(["variant", "slide_id"])
    for row in attention_rows(run, "c"):
        for panel in row.panels:
            p = table.loc[(panel.variant, row.slide_id), "probability"]
            called, p = ("segregated", p) if p > 0.5 else ("mixed", 1 - p)
            assert panel.words == f"predicted {called}, p = {p:.2f}"


def test_the_reference_of_a_phantom_is_what_was_planted(run: Run) -> None:
    truth = {slide.bag.slide_id: slide.types for slide in PHANTOM}
    for row in attention_rows(run, "c"):
        assert isinstance(row.reference, Planted)
        assert row.reference.names == TYPES["arrangement"]
        np.testing.assert_array_equal(row.reference.types, truth[row.slide_id])
    assert attention_points(attention_rows(run, "c"))["planted"].isin(TYPES["arrangement"]).all()


def test_without_a_reference_there_is_no_column_and_a_note(home: Path, tmp_path: Path) -> None:
    """As with real slides: here the feature files are gone."""
    other = without_digests(shutil.copytree(home / "run", tmp_path / "run"))
    table = pd.read_csv(other / "slides.csv", dtype=str)
    table.assign(features="/gone/a.h5").to_csv(other / "slides.csv", index=False)
    run = open_run(other)
    rows = attention_rows(run, "c")
    assert [row.reference for row in rows] == [None, None]
    assert "planted" not in attention_points(rows)
    assert "No reference images were given" in attention_caption(rows)
    assert "name one image per class in the study file" in write_report(other, tmp_path / "r.html").read_text()


def test_images_that_the_study_names_are_the_reference(home: Path, tmp_path: Path) -> None:
    named = {"mixed": str(tmp_path / "ductal.png"), "segregated": str(tmp_path / "lobular.png")}
    for path in named.values():
        Image.new("RGB", (8, 6)).save(path)
    out = shutil.copytree(home / "run", tmp_path / "run")  # its jobs are kept
    run = cross_validate(study_of(home / "cohort", references={"c": named}), out)
    assert [row.reference for row in attention_rows(run, "c")] == [Path(path) for path in named.values()]
    assert "No reference" not in attention_caption(attention_rows(run, "c"))
    Path(named["mixed"]).unlink()
    assert [row.reference for row in attention_rows(run, "c")] == ["ductal.png is missing", Path(named["segregated"])]
    assert len(write_attention_figure(run, "c", tmp_path / "figure.png")) == 2
    with pytest.raises(ConfigError, match=r"cohorts.c.reference: class.*mixd"):
        cross_validate(study_of(home / "cohort", references={"c": {"mixd": named["mixed"]}}), tmp_path / "other")


def test_a_slide_of_a_pooled_patient(home: Path, tmp_path: Path) -> None:
    run = cross_validate(study_of(home / "cohort", "patient"), tmp_path / "run")
    for row in attention_rows(run, "c"):
        assert row.slide_id in first_fold(run)["test"]
        stored = load_file(run.files.job("c", "abmil", 0, 0) / "attention.safetensors")
        np.testing.assert_array_equal(row.panels[0].attention, stored[row.slide_id])


def test_a_variant_without_its_job_leaves_its_panel_empty(home: Path, tmp_path: Path) -> None:
    other = without_digests(shutil.copytree(home / "run", tmp_path / "run"))
    shutil.rmtree(other / "jobs" / "c" / "graph-abmil" / "seed0-fold0")
    (row, _) = attention_rows(open_run(other), "c")
    assert [panel.attention is None for panel in row.panels] == [False, True, False]
    assert row.panels[1].words == "its job did not finish"
    for file in other.rglob("attention.safetensors"):
        file.unlink()
    assert attention_rows(open_run(other), "c") == []
    assert write_attention_figure(open_run(other), "c", tmp_path / "figure.png") == []
    assert not (tmp_path / "figure.png").exists()


def test_other_feature_files_have_no_planted_truth(tmp_path: Path) -> None:
    from jigsawmil.bags.formats import write_bag

    write_bag(PHANTOM.bags[0], tmp_path / "a.h5")
    assert read_planted(tmp_path / "a.h5") is None
    assert read_planted(tmp_path / "none.h5") is None
