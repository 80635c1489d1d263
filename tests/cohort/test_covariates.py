"""Clinical columns of a label table: what they hold, what is wrong with them, and what a model is given."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from jigsawmil.cohort import Cohort
from jigsawmil.cohort.covariates import Covariate, coded, columns_of, columns_text, recognise, unknown_categories
from jigsawmil.cohort.labels import read_known
from jigsawmil.errors import LabelError
from jigsawmil.synthetic import make_phantom, write_phantom

COLUMNS = (Covariate("age"), Covariate("sex", ("F", "M")))


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    phantom = make_phantom("composition", slides=4, patches=10, dim=16, two_slides=0.5)  # 3 patients
    return write_phantom(phantom, tmp_path_factory.mktemp("covariates") / "cohort")


def table(folder: Path, tmp_path: Path, **columns: list[str]) -> Path:
    """The label table with more columns."""
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    lines = [",".join([header, *columns])]
    lines += [",".join([row, *cells]) for row, *cells in zip(rows, *columns.values(), strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "labels.csv"


def by_patient(folder: Path, values: list[str]) -> list[str]:
    """A value for each slide, the same for all of a patient."""
    patients = [line.split(",")[1] for line in (folder / "labels.csv").read_text().splitlines()[1:]]
    order = list(dict.fromkeys(patients))
    return [values[order.index(patient)] for patient in patients]


def test_a_cohort_has_them_with_every_slide(features: Path, tmp_path: Path) -> None:
    age, sex = by_patient(features, ["61", "NA", "70"]), by_patient(features, ["F", "M", "F"])
    labels = table(features, tmp_path, age=age, sex=sex)
    cohort = Cohort.read(labels, features / "features", covariates="age, sex")
    assert cohort.covariates == COLUMNS
    for index, slide in enumerate(cohort.slides):
        known = {"age": age[index].replace("NA", ""), "sex": sex[index]}
        assert cohort.bag(index).covariates == cohort.known_of(slide) == known
        assert read_known(labels, ["age", "sex"])[slide.slide_id] == known
    assert any("without age" in note for note in cohort.notes)
    assert Cohort.read(labels, features / "features", label_column="label").bag(0).covariates is None
    again = Cohort.from_bags([cohort.bag(i) for i in range(4)], ["a", "a", "b", "b"], [*cohort.patients])
    assert again.covariates == COLUMNS


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["61", "62", "old"], r"'age' holds numbers and also 'old'; expected numbers only, or categories only"),
        (["61", "61", "61"], r"'age' is '61' in every row"),
        (["", "NA", "unknown"], r"'age' is empty"),
    ],
)
def test_what_is_no_covariate_is_refused(features: Path, tmp_path: Path, cells: list[str], message: str) -> None:
    labels = table(features, tmp_path, age=by_patient(features, cells))
    with pytest.raises(LabelError, match=message):
        Cohort.read(labels, features / "features", covariates="age", label_column="label")


def test_a_patient_has_one_value(features: Path, tmp_path: Path) -> None:
    labels = table(features, tmp_path, age=["1", "2", "3", "4"])
    with pytest.raises(
        LabelError, match=r"slides of patient \d+ have age '\d' and '\d'; expected one value per patient"
    ):
        Cohort.read(labels, features / "features", covariates="age", label_column="label")
    with pytest.raises(LabelError, match=r"no column 'agee' for .*covariate.*Did you mean 'age'"):
        Cohort.read(labels, features / "features", covariates="agee", label_column="label")
    with pytest.raises(LabelError, match="age is named twice"):
        Cohort.read(labels, features / "features", covariates="age,age", label_column="label")


def test_a_column_of_names_is_no_category() -> None:
    with pytest.raises(LabelError, match="has 21 categories"):
        recognise("name", [f"p{i}" for i in range(21)])
    assert recognise("stage", ["II", "", "I", "[Not Available]", "I"]) == Covariate("stage", ("I", "II"))


def test_cells_become_numbers_and_what_is_unknown_is_stated() -> None:
    assert coded(COLUMNS, ["66", "M"]) == (66, 1)
    assert all(math.isnan(value) for value in coded(COLUMNS, ["", "X"]))
    assert unknown_categories(COLUMNS, [["1", "X"], ["2", "X"], ["3", ""]]) == [
        "sex: the model does not know 'X' (2 slides); it takes them as missing."
    ]
    with pytest.raises(LabelError, match="age is 'old'; expected a number"):
        coded(COLUMNS, ["old", "F"])
    assert columns_of(columns_text(COLUMNS)) == COLUMNS
    assert columns_of("") == ()


def test_bags_in_memory_may_lack_some() -> None:
    bags = make_phantom("composition", slides=4, patches=10, dim=16).bags
    known = [replace(bag, covariates={"age": age}) for bag, age in zip(bags, (61, None, 70.5, "NA"), strict=True)]
    cohort = Cohort.from_bags(known, ["a", "a", "b", "b"])
    assert [slide.covariates for slide in cohort.slides] == [("61",), ("",), ("70.5",), ("",)]
