"""The shuffle control says no more than its data do."""

from collections.abc import Callable
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from jigsawmil.cli.terminal import rendered
from jigsawmil.errors import StudyError
from jigsawmil.report.control import blind_variants, control_lines, control_table
from jigsawmil.statistics.metrics import patient_level
from jigsawmil.statistics.paired import delong_test
from jigsawmil.study.compare import summarise
from jigsawmil.study.control import shuffle_control

GRADES = ["low", "middle", "high"]
Make = Callable[..., pd.DataFrame]
BLIND = {"abmil"}
STRONG = {"abmil": 0.2, "graph-mil": 1.5, "graph-abmil": 2.5}


def test_the_control_pairs_each_method_with_itself(predictions: Make) -> None:
    true, shuffled = predictions(STRONG), predictions({**STRONG, "graph-abmil": 0.0}, noise=1)
    control = shuffle_control(true, shuffled).set_index("variant")
    assert list(control.index) == list(STRONG)
    areas = [summarise(frame, resamples=2).set_index("variant")["auc_patient"] for frame in (true, shuffled)]
    for method in STRONG:
        one, other = (patient_level(f[f["variant"] == method]).sort_values("patient_id") for f in (true, shuffled))
        test = delong_test(one["label"] == "segregated", one["probability"], other["probability"])
        row = control.loc[method]
        assert row["auc_true"] == pytest.approx(areas[0][method])
        assert row["auc_shuffled"] == pytest.approx(areas[1][method])
        assert row[["difference", "delong_p"]].tolist() == pytest.approx([test.difference, test.p])
        # the interval and the test tell the same: it excludes 0 where p < 0.05
        assert (row["low"] > 0 or row["high"] < 0) == (test.p < 0.05)
        assert row["delong_p_holm"] >= row["delong_p"]


def test_place_matters_where_shuffling_costs(predictions: Make) -> None:
    control = shuffle_control(predictions(STRONG), predictions({**STRONG, "graph-abmil": 0.0}, noise=1))
    answer, *methods, caveat = control_lines(control, BLIND)
    assert answer.startswith("Does patch position matter in this cohort? Yes: of 2 methods that use positions, 1 loses")
    assert answer.endswith(": graph-abmil.")
    line = next(line for line in methods if line.startswith("graph-abmil:"))
    row = control.set_index("variant").loc["graph-abmil"]
    assert f"AUROC {row['auc_true']:.3f} with true and {row['auc_shuffled']:.3f} with shuffled coordinates" in line
    assert "DeLong p <0.001" in line
    assert "chance in training" in caveat


def test_no_difference_is_not_sold_as_irrelevance(predictions: Make) -> None:
    control = shuffle_control(predictions(STRONG), predictions(STRONG, noise=1))
    assert (control["delong_p_holm"] >= 0.05).all()  # else this test tells nothing
    answer, *methods, _ = control_lines(control, BLIND)
    assert "Not shown" in answer
    assert "does not show that position is irrelevant" in answer
    row = control.set_index("variant").loc["graph-mil"]
    line = next(line for line in methods if line.startswith("graph-mil:"))
    assert f"the data are compatible with {row['low']:+.3f} to {row['high']:+.3f}" in line


def test_a_method_without_eyes_for_places_is_no_evidence(predictions: Make) -> None:
    control = shuffle_control(predictions({"abmil": 2.5}), predictions({"abmil": 0.0}, noise=1))
    assert control["delong_p_holm"].item() < 0.05
    answer, line, _ = control_lines(control, BLIND)
    assert "Yes" not in answer
    assert "Not tested" in answer
    assert "training noise" in line


def test_the_method_of_a_variant_decides_whether_it_sees_places_and_not_its_name(predictions: Make) -> None:
    methods = {"ABMIL": "abmil", "abmil": "graph-abmil", "mine": "abmil+jigsaw", "GAT": "graph-mil"}
    assert blind_variants(methods) == {"ABMIL"}
    control = shuffle_control(predictions({"ABMIL": 2.5}), predictions({"ABMIL": 0.0}, noise=1))
    answer, line, _ = control_lines(control, blind_variants(methods))
    assert "Not tested" in answer
    assert "training noise" in line


def test_better_without_places_is_said_as_such(predictions: Make) -> None:
    control = shuffle_control(predictions({"graph-mil": 0.0}), predictions({"graph-mil": 2.5}, noise=1))
    answer, line, _ = control_lines(control, BLIND)
    assert "Not shown" in answer
    assert "misled" in line


def test_the_adjusted_p_decides(predictions: Make) -> None:
    control = shuffle_control(predictions(STRONG), predictions(STRONG, noise=1)).assign(
        difference=0.1, low=0.01, high=0.19, delong_p=0.02, delong_p_holm=0.06
    )
    assert "Not shown" in control_lines(control, BLIND)[0]


def test_equal_runs_differ_by_nothing(predictions: Make) -> None:
    control = shuffle_control(predictions(STRONG), predictions(STRONG))
    assert (control["difference"] == 0).all()
    assert (control["delong_p_holm"] == 1).all()
    assert not any("nan" in line for line in control_lines(control, BLIND))


def test_beyond_two_classes_the_corrected_t_decides(graded: pd.DataFrame) -> None:
    columns = [f"probability_{name}" for name in GRADES]
    rng = np.random.default_rng(0)
    shuffled = graded.copy()
    shuffled[columns] = rng.dirichlet(np.ones(3), len(graded))
    control = shuffle_control(graded, shuffled, GRADES)
    strong = control["variant"] == "graph-abmil+jigsaw"
    assert control["delong_p"].isna().all()
    certain = control.assign(t_p_holm=np.where(strong, 0.01, 0.5))
    answer, *methods, _ = control_lines(certain, BLIND)
    assert answer.endswith(": graph-abmil+jigsaw.")
    assert "corrected t p = 0.010" in methods[-1]
    assert not any("nan" in line or "DeLong p" in line for line in methods)
    undefined = control_lines(control.assign(t_p_holm=np.nan), BLIND)
    assert "no test is defined" in undefined[-2]


def test_the_table_fits_and_holds_the_figures(predictions: Make) -> None:
    control = shuffle_control(
        predictions(), predictions(dict.fromkeys(predictions()["variant"].unique(), 0.1), noise=1)
    )
    console = Console(width=300, file=StringIO())
    console.print(rendered(control_table(control), 80))
    said = console.file.getvalue()
    assert max(map(len, said.splitlines())) <= 80
    for row in control.itertuples():
        assert f"{row.auc_true:.3f}" in said
        assert f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]" in said
    assert "Holm-adjusted for 5 methods" in said


def test_other_methods_or_slides_are_refused(predictions: Make) -> None:
    with pytest.raises(StudyError, match="expected the same"):
        shuffle_control(predictions(STRONG), predictions({"abmil": 0.2}))
    with pytest.raises(StudyError, match="differ in the slides"):
        shuffle_control(predictions(STRONG), predictions(STRONG).query("slide_id != '0007'"))
    with pytest.raises(StudyError, match="one cohort"):
        shuffle_control(predictions(STRONG).assign(cohort=lambda f: f["fold"]), predictions(STRONG))
