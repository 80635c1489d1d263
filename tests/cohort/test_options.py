"""The options of a cohort stand in one place."""

import inspect
from dataclasses import fields

from jigsawmil.cohort.cohort import Cohort, Columns, check
from jigsawmil.cohort.labels import read_labels
from jigsawmil.cohort.options import READING, TARGET, CohortOptions
from jigsawmil.study.study_file import COHORT_KEYS


def keywords(function: object) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"progress"}


def test_they_are_the_parameters_of_the_functions_that_take_them() -> None:
    names = {field.name for field in fields(CohortOptions)}
    assert keywords(Cohort.read) | set(Columns.__annotations__) == names
    assert keywords(check) | set(Columns.__annotations__) == names
    assert keywords(read_labels) == {*Columns.__annotations__, "task"}
    assert set(COHORT_KEYS) == names | {"labels", "features", "splits"}
    assert {*READING, *TARGET} < names


def test_what_is_given_makes_them_again() -> None:
    options = CohortOptions(mpp=0.5, slide_table="s.csv", ordinal=True)
    assert options.given() == {"slide_table": "s.csv", "mpp": 0.5, "ordinal": True}
    assert CohortOptions(**options.given()) == options
    assert options.reading == dict.fromkeys(READING) | {"mpp": 0.5}
    assert options.only(TARGET) == CohortOptions(ordinal=True)
    assert options.in_folder("/data").slide_table == "/data/s.csv"
    assert options.in_folder("/data") == CohortOptions(mpp=0.5, slide_table="/data/s.csv", ordinal=True)
