"""What the viewer shows: the table, maps on demand, arrays of a pane."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from jigsawmil.bags.formats import write_bag
from jigsawmil.errors import FeatureError, StudyError
from jigsawmil.study.run import Run
from jigsawmil.viewer import data
from jigsawmil.viewer.data import Key, Library, columns, place, shifts
from jigsawmil.viewer.pictures import patch_card

GRAPH = "graph-abmil+jigsaw"


def key(library: Library, row: int = 0, variant: str = GRAPH) -> Key:
    return Key("cohort", str(library.run.slides["slide_id"].iloc[row]), variant, 0)


def test_the_table_holds_every_slide_with_its_out_of_fold_prediction(library: Library, run: Run) -> None:
    table = library.table("cohort", GRAPH, 0)
    assert list(table["slide_id"]) == list(run.slides["slide_id"])
    told = run.predictions[run.predictions["variant"] == GRAPH].set_index("slide_id")["probability"]
    for row in table.itertuples():
        p = told[row.slide_id]
        assert row.predicted == run.classes["cohort"][int(p > 0.5)]
        assert row.p == pytest.approx(max(p, 1 - p))
        assert row.right == (row.predicted == row.label)


def test_a_slide_without_a_prediction_stays_in_the_table(run: Run, folder: Path) -> None:
    lost = run.slides["slide_id"].iloc[3]
    cut = dataclasses.replace(run, predictions=run.predictions[run.predictions["slide_id"] != lost])
    table = Library(cut).table("cohort", GRAPH, 0).set_index("slide_id")
    assert table.loc[lost, "predicted"] == ""
    assert np.isnan(table.loc[lost, "p"])
    assert not table.loc[lost, "right"]


def test_several_classes_and_pooled_patients(run: Run) -> None:
    patients = run.slides["patient_id"].unique()
    rows = [
        {"slide_id": patient, "variant": GRAPH, "seed": 0, "fold": 0, "cohort": "cohort", "label": "b"}
        | {"probability_a": 0.2, "probability_b": 0.5, "probability_c": 0.3}
        for patient in patients
    ]
    cohort = dataclasses.replace(run.record.cohorts["cohort"], classes=("a", "b", "c"))
    record = dataclasses.replace(run.record, cohorts={"cohort": cohort})
    jobs = [dataclasses.replace(job, spec={**job.spec, "level": "patient"}) for job in run.jobs]
    three = dataclasses.replace(run, record=record, predictions=pd.DataFrame(rows), jobs=jobs)
    table = Library(three).table("cohort", GRAPH, 0)
    assert set(table["predicted"]) == {"b"}
    assert set(table["p"]) == {0.5}


def test_maps_are_those_of_the_model_that_never_saw_the_slide(library: Library, run: Run) -> None:
    for row in range(4):
        wanted = key(library, row)
        maps = library.maps(wanted)
        told = run.predictions[(run.predictions["slide_id"] == wanted.slide_id) & (run.predictions["variant"] == GRAPH)]
        assert maps.probabilities[1] == pytest.approx(told["probability"].item(), abs=1e-5)


def test_maps_are_kept_without_features_and_not_for_ever(library: Library, run: Run, monkeypatch) -> None:
    monkeypatch.setattr(data, "KEPT", 2)
    own = Library(run)
    first = own.maps(key(own, 0))
    assert first.bag.dim == 0  # 50,000 patches of an encoder would take 300 MB
    assert own.maps(key(own, 0)) is first
    own.maps(key(own, 1))
    own.maps(key(own, 0))  # used again: the other one is older now
    own.maps(key(own, 2))
    assert own.maps(key(own, 0)) is first
    own.maps(key(own, 3))
    own.maps(key(own, 1))
    assert own.maps(key(own, 0)) is not first


def test_a_model_of_patients_sees_all_slides_of_the_patient(library: Library) -> None:
    slides = library.run.slides
    row = int(np.flatnonzero(slides["patient_id"].duplicated())[0])
    alone = library.maps(key(library, row))
    own = Library(by_patient(library.run))
    together = own.maps(key(own, row))
    assert together.bag.slide_id == slides["slide_id"].iloc[row]
    assert together.name == slides["patient_id"].iloc[row]
    assert len(together) == len(alone)
    assert alone.attention.sum() == pytest.approx(1, abs=1e-5)
    assert 0 < together.attention.sum() < 0.999  # the rest lies on the other slide


def by_patient(run: Run) -> Run:
    """As if the study had pooled patients."""
    patients = run.slides.set_index("slide_id")["patient_id"]
    jobs = tuple(dataclasses.replace(job, spec={**job.spec, "level": "patient"}) for job in run.jobs)
    table = run.predictions.assign(slide_id=run.predictions["slide_id"].map(patients))
    return dataclasses.replace(run, jobs=jobs, predictions=table)


def test_features_of_another_encoder_are_told(library: Library, tmp_path: Path) -> None:
    wanted = key(library)
    bag = library.run.bag_of(wanted.slide_id)
    write_bag(dataclasses.replace(bag, features=torch.zeros(len(bag), 24)), tmp_path / f"{wanted.slide_id}.h5")
    with pytest.raises(FeatureError, match=r"features have 24 columns.* the model was trained on 16"):
        Library(library.run, features=tmp_path).maps(wanted)


def test_features_that_were_moved_are_found_where_one_says(run: Run, folder: Path, tmp_path: Path) -> None:
    gone = dataclasses.replace(run, slides=run.slides.assign(features="/nowhere/x.h5"))
    with pytest.raises(FeatureError, match=r"none of its 12 .* looked for /nowhere/x.h5 .* with --features DIR"):
        Library(gone)
    moved = shutil.copytree(folder / "cohort" / "features", tmp_path / "moved")
    own = Library(gone, features=moved)
    assert len(own.maps(key(own)).attention) == run.slides["patches"].iloc[0]
    (tmp_path / "other").mkdir()
    shutil.copy(next(moved.iterdir()), tmp_path / "other" / "stranger.h5")
    with pytest.raises(FeatureError, match=r"none of its 1 feature files is of a slide of"):
        Library(run, features=tmp_path / "other")


def test_a_run_without_a_finished_job_is_refused(run: Run) -> None:
    with pytest.raises(StudyError, match="no job has finished"):
        Library(dataclasses.replace(run, jobs=()))


def test_attribution_is_computed_if_asked_for(library: Library, run: Run) -> None:
    bare, asked = library.maps(key(library)), Library(run, attribution=True).maps(key(library))
    assert bare.attribution is None
    assert not columns(bare, place(bare.bag, None))["attribution"].any()
    told = columns(asked, place(asked.bag, None))
    np.testing.assert_allclose(told["attribution"], asked.attribution_for(), rtol=1e-6)
    assert told["attribution_rank"].argmax() == np.abs(asked.attribution_for()).argmax()
    html = patch_card(2, [("a", asked)], place(asked.bag, None), None)
    assert f"<tr><td>attribution</td><td>{asked.attribution_for()[2]:+.3g}</td></tr>" in html
    assert "attribution" not in patch_card(2, [("a", bare)], place(bare.bag, None), None)


def test_columns_say_what_the_maps_say(library: Library) -> None:
    maps = library.maps(key(library))
    told = columns(maps, place(maps.bag, None))
    np.testing.assert_allclose(told["attention"], maps.attention, rtol=1e-6)
    np.testing.assert_allclose(told["evidence"], maps.evidence_for(), rtol=1e-6)
    highest = pytest.approx(1 - 0.5 / len(maps))
    assert told["attention_rank"][maps.attention.argmax()] == highest
    assert told["evidence_rank"][np.abs(maps.evidence_for()).argmax()] == highest
    far = np.abs(maps.jigsaw - maps.coords)[int(shifts(maps).argmax())]
    assert told["shift"].max() == pytest.approx(np.hypot(*far), rel=1e-6)
    assert {array.dtype for array in told.values()} == {np.dtype(np.float32)}


def test_a_method_without_a_jigsaw_shifts_nothing(library: Library) -> None:
    maps = library.maps(key(library, variant="abmil"))
    assert maps.jigsaw is None
    assert not shifts(maps).any()


def test_patches_that_overlap_are_drawn_in_their_middle(library: Library) -> None:
    bag = library.maps(key(library)).bag
    wide = place(dataclasses.replace(bag, patch_size=2 * bag.patch_size), None)
    assert (wide.edge, wide.cell) == (2 * bag.patch_size, bag.patch_size)
    unknown = place(dataclasses.replace(bag, patch_size=None), None)
    assert unknown.edge == unknown.cell == bag.patch_size
