"""One row a case: seeds averaged, classes in the order stated."""

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import StudyError
from jigsawmil.study.compare import summarise
from jigsawmil.study.predictions import fold_areas, pool

CLASSES = ["mixed", "segregated"]
GRADES = ["low", "middle", "high"]


def test_seeds_are_averaged_and_the_order_of_rows_is_nothing(predictions) -> None:
    table = predictions({"abmil": 1.0, "graph-mil": 2.0}, seeds=2)
    one = pool(table, CLASSES)["graph-mil"]
    rows = table[(table["variant"] == "graph-mil") & (table["slide_id"] == "0007")]
    at = one.cases.index("0007")
    assert one.probability[at].tolist() == pytest.approx([1 - rows["probability"].mean(), rows["probability"].mean()])
    assert CLASSES[one.truth[at]] == rows["label"].iloc[0]
    assert one.patients[at] == rows["patient_id"].iloc[0]
    again = pool(table.sample(frac=1, random_state=0), CLASSES)["graph-mil"]
    np.testing.assert_allclose(again.probability, one.probability)
    assert again.cases == one.cases
    turned = pool(table, CLASSES[::-1])["graph-mil"]
    np.testing.assert_array_equal(turned.truth, 1 - one.truth)


def test_columns_follow_the_classes(graded: pd.DataFrame) -> None:
    one = pool(graded, GRADES[::-1])["graph-abmil"]
    row = graded[(graded["variant"] == "graph-abmil") & (graded["slide_id"] == one.cases[5])].iloc[0]
    assert one.probability[5].tolist() == pytest.approx([row[f"probability_{name}"] for name in GRADES[::-1]])


def test_the_mean_of_the_folds_is_that_of_the_summary(predictions, graded: pd.DataFrame) -> None:
    for table, classes in ((predictions(seeds=2), CLASSES), (graded, GRADES)):
        summary = summarise(table, classes, resamples=2).set_index("variant")
        areas = fold_areas(table, classes).groupby("variant")["auc"]
        pd.testing.assert_series_equal(areas.mean(), summary["auc_mean"].rename("auc").sort_index())
        assert (areas.size() == 3 * summary["seeds"].sort_index()).all()


def test_what_cannot_be_pooled_is_refused(predictions, graded: pd.DataFrame) -> None:
    table = predictions({"abmil": 1.0})
    for wrong, classes, match in (
        (table[:0], CLASSES, "no rows"),
        (table, ["mixed", "other"], "segregated"),
        (graded, [*GRADES, "worst"], "the classes are low, middle, high, worst"),
        (pd.concat([table.assign(cohort="a"), table.assign(cohort="b")]), CLASSES, "a, b"),
    ):
        with pytest.raises(StudyError, match=match):
            pool(wrong, classes)
