"""Everything wrong with a table and its features is found at once and by name."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from jigsawmil.bags.formats import BagInfo
from jigsawmil.bags.provenance import Encoding
from jigsawmil.bags.survey import Fault, Survey, survey_all
from jigsawmil.cohort.audit import PROBLEMS, Audit, Problem, audit, describe_mismatch
from jigsawmil.cohort.labels import LabelTable
from jigsawmil.errors import ConfigError, FeatureError, LabelError


def info(slide_id: str, n: int = 5, dim: int = 4, encoder: str | None = None) -> BagInfo:
    return BagInfo(
        slide_id=slide_id, path=Path(f"{slide_id}.h5"), format="trident", n=n, dim=dim, dtype="float32", unit="px",
        patch_size=256.0, mpp=None, encoder=encoder,
    )  # fmt: skip


def table(rows: list[tuple[str, str, str]], level: str = "slide", notes: tuple[str, ...] = ()) -> LabelTable:
    frame = pd.DataFrame(rows, columns=["slide_id", "patient_id", "label"])
    frame["site"], frame["line"] = "", range(2, 2 + len(rows))
    return LabelTable(frame, "labels.csv", level, {"label": "grade"}, notes)


def hold(labels: LabelTable, infos: dict[str, object], **options: bool) -> Audit:
    surveys = {name: Survey(info=found) if isinstance(found, BagInfo) else found for name, found in infos.items()}
    return audit(labels, {slide_id: Path(f"{slide_id}.h5") for slide_id in infos}, surveys, **options)


def kinds(report: Audit) -> dict[str, Problem]:
    assert len({problem.kind for problem in report.problems}) == len(report.problems)
    return {problem.kind: problem for problem in report.problems}


GOOD = [("a", "P1", "x"), ("b", "P2", "y"), ("c", "P3", "x"), ("d", "P4", "y")]


def infos_of(*names: str) -> dict[str, object]:
    return {name: info(name) for name in names}


def test_a_sound_cohort_has_no_problem() -> None:
    report = hold(table(GOOD), infos_of("a", "b", "c", "d"))
    assert report.problems == ()
    assert report.left_out == ()
    assert report.classes == {"x": 2, "y": 2}
    report.raise_errors()
    assert report.summary().startswith("labels.csv: 4 slides of 4 patients can be used.")


def test_all_problems_are_listed_at_once_and_by_name() -> None:
    rows = [
        *GOOD,
        ("", "P9", "x"),
        ("e", "", "x"),
        ("a", "P1", "x"),
        ("b", "P2", "x"),
        ("c", "P8", "x"),
        ("f", "P6", ""),
        ("g", "P7", "y"),
        ("h", "P7", "x"),
        ("i", "P5", "z"),
        ("j", "P5", "x"),
        ("k", "P4", "x"),
    ]
    infos = infos_of("a", "b", "c", "d", "e", "f", "n") | {
        "h": FeatureError("h.h5: truncated"),
        "i": info("i", dim=8, encoder="uni"),
        "j": info("j", n=0),
        "k": info("k", encoder="virchow2"),
    }
    found = kinds(hold(table(rows, notes=("Read from elsewhere.",)), infos))
    assert {kind: problem.names for kind, problem in found.items()} == {
        "table": (),
        "no-name": ("line 6",),
        "no-patient": ("e",),
        "duplicated": ("a",),
        "conflicting-labels": ("b",),
        "conflicting-patients": ("c",),
        "missing-label": ("f",),
        "single-member": ("z",),
        "mixed-patients": ("P4",),
        "no-features": ("g",),
        "unreadable": ("h",),
        "empty": ("j",),
        "no-label": ("n",),
        "mixed-dimensions": ("i",),
        "mixed-encoders": ("k",),
    }
    assert found["conflicting-labels"].details == ("y / x",)
    assert found["unreadable"].details == ("h.h5: truncated",)
    assert all((problem.severity, problem.about) == PROBLEMS[kind] for kind, problem in found.items())


def test_errors_are_raised_together() -> None:
    labels, infos = table([*GOOD, ("b", "P2", "x")]), infos_of("a", "b", "c")
    with pytest.raises(LabelError, match=r"(?s)2 errors:.*b \(y / x\).*without a feature file: d"):
        hold(labels, infos).raise_errors()
    with pytest.raises(FeatureError, match=r"(?s)1 error:.*without a feature file: d.*--skip-missing"):
        hold(table(GOOD), infos).raise_errors()


def test_skip_missing_leaves_out_what_has_no_usable_features_and_says_so() -> None:
    rows = [*GOOD, ("e", "P5", "x"), ("f", "P6", "y"), ("g", "P7", "y"), ("h", "P8", "")]
    infos = infos_of("a", "b", "c", "d", "z") | {"e": info("e", n=0), "f": FeatureError("f.h5: truncated")}
    errors = hold(table(rows), infos).errors
    ways = {p.kind: p.remedy.split(" with ")[1].split()[0] for p in errors}
    assert ways == {"no-features": "--skip-missing", "unreadable": "--skip-bad", "empty": "--skip-bad"}
    report = hold(table(rows), infos, skip_missing=True)
    assert report.errors == ()
    assert [entry.slide_id for entry in report.entries] == ["a", "b", "c", "d"]
    assert dict(report.left_out) == {
        "e": "no patch in the feature file",
        "f": "the feature file cannot be read",
        "g": "no feature file",
        "h": "no label in the table",
        "z": "not in the table",
    }
    assert "They are left out." in report.summary()


def test_one_class_is_an_error_also_if_only_skipping_makes_it_one() -> None:
    assert "one-class" in kinds(hold(table([("a", "P1", "x"), ("b", "P2", "x")]), infos_of("a", "b")))
    report = hold(table(GOOD), infos_of("a", "c"), skip_missing=True)
    assert [problem.kind for problem in report.errors] == ["one-class"]
    with pytest.raises(LabelError, match="All slides are 'x'"):
        report.raise_errors()


def test_a_table_without_labels_and_one_without_features_say_so() -> None:
    found = kinds(hold(table([("a", "P1", ""), ("b", "P2", "")]), infos_of("a", "b")))
    assert found["no-labels"].severity == "error"
    assert "'grade'" in found["no-labels"].text
    found = kinds(hold(table(GOOD), infos_of("q"), skip_missing=True))
    assert found["nothing-left"].severity == "error"
    assert found["no-features"].names == ("a", "b", "c", "d")


def test_measurements_and_names_are_no_classes() -> None:
    scores = table([(f"s{i}", f"P{i}", f"{0.13 * (i % 11):.2f}") for i in range(60)])
    names = table([(f"s{i}", f"P{i}", f"n{i}") for i in range(60)])
    grades = table([(f"s{i}", f"P{i}", str(i % 12)) for i in range(60)])
    infos = infos_of(*(f"s{i}" for i in range(60)))
    assert "not-classes" in kinds(hold(scores, infos))
    assert "not-classes" in kinds(hold(names, infos))
    assert hold(grades, infos).problems == ()


def test_labels_of_patients_conflict_and_repeat_under_the_patients_name() -> None:
    rows = [("a", "P1", "x"), ("b", "P1", "x"), ("a", "P1", "y"), ("b", "P1", "y"), ("c", "P2", "y"), ("c", "P2", "y")]
    report = kinds(hold(table([*rows, ("", "P3", "x"), ("", "", "x")], level="patient"), infos_of("a", "b", "c")))
    assert report["conflicting-labels"].names == ("P1",)
    assert report["duplicated"].names == ("P2",)
    assert report["no-slides"].names == ("P3",)
    assert report["no-name"].names == ("line 9",)
    assert "mixed-patients" not in report


def test_a_missing_cell_is_filled_by_another_row_of_the_slide() -> None:
    report = hold(table([("a", "P1", ""), ("a", "", "x"), *GOOD[1:]]), infos_of("a", "b", "c", "d"))
    assert report.problems == ()
    assert report.entries[0][:3] == ("a", "P1", "x")


def test_mixed_dimensions_are_counted_with_examples() -> None:
    infos = infos_of("a", "b", "c") | {"d": info("d", dim=1536)}
    with pytest.raises(FeatureError, match=r"4 in 3 files \(a, b, c\); 1536 in 1 file \(d\)"):
        hold(table(GOOD), infos).raise_errors()


def test_an_encoder_that_some_files_leave_unsaid_is_not_mixed() -> None:
    infos = infos_of("a", "b") | {name: info(name, encoder="uni") for name in "cd"}
    assert hold(table(GOOD), infos).problems == ()


def test_weights_that_differ_under_one_name_are_remarked_on() -> None:
    """What is known of it comes from our own files alone, and a new version of a library may call weights otherwise."""
    marked = {name: replace(info(name), encoding=Encoding(mark=mark, precision="float32")) for name, mark in
              (("a", "1f"), ("b", "1f"), ("c", "2e"), ("d", "1f"))}  # fmt: skip
    [problem] = hold(table(GOOD), marked).problems
    assert (problem.kind, problem.names) == ("mixed-encodings", ("c",))
    assert "weights 1f, float32 in 3 files (a, b, d); weights 2e, float32 in 1 file (c)" in str(problem)


def test_the_summary_is_short_and_the_problems_are_whole() -> None:
    rows = GOOD + [(f"lost{i:02}", f"Q{i}", "x") for i in range(25)]
    report = hold(table(rows), infos_of("a", "b", "c", "d"))
    assert "lost09 ... and 15 more" in report.summary()
    assert "lost10" not in report.summary()
    assert len(report.errors[0].names) == 25
    content = json.loads(report.to_json())
    assert content["problems"][0]["names"][-1] == "lost24"
    assert content["classes"] == {"x": 2, "y": 2}


@pytest.mark.parametrize(
    ("in_table", "in_folder", "why"),
    [
        (["Case-1", "Case-2"], ["case-1", "case-2"], "upper and lower case"),
        (["7", "8"], ["007", "008"], "leading zeros"),
        (["a 1", "a 2"], ["a_1", "a_2"], "blanks, dashes"),
        (["S1", "S10"], ["S1_features", "S10_features"], "feature files carry more at the end, such as '_features'"),
        (["S1", "S2"], ["s1.x9", "s2.x7"], "feature files carry more at the end"),  # and case
        (["S1.vsi", "S2.vsi"], ["S1", "S2"], "slides of the table carry more at the end, such as '.vsi'"),
        (["S1", "S2"], ["uni-S1", "uni-S2"], "feature files carry more at the beginning, such as 'uni-'"),
    ],
)
def test_names_that_nearly_agree_are_explained(in_table: list[str], in_folder: list[str], why: str) -> None:
    hint = describe_mismatch(in_table, in_folder)
    assert why in hint
    assert all(repr(name) in hint for name in in_table + in_folder)
    labels = table([(name, f"P{i}", str(i)) for i, name in enumerate(in_table)])
    assert why in hold(labels, infos_of(*in_folder)).summary()


def test_names_that_agree_or_have_nothing_in_common_are_not_explained_away() -> None:
    assert describe_mismatch(["a", "b", "c"], ["a", "b", "q"]) == ""
    assert describe_mismatch(["a", "b"], ["x", "y"]).endswith("the features 'x', 'y'. ")


def test_ten_thousand_slides_take_seconds_at_most() -> None:
    names = [f"TCGA-AA-{i:04}-01Z-00-DX1" for i in range(10_000)]
    labels = table([(name, name[:12], str(i % 2)) for i, name in enumerate(names)])
    infos = infos_of(*(f"{name}.{i:x}" for i, name in enumerate(names)))  # the slow way: no name agrees
    start = time.perf_counter()
    report = hold(labels, infos)
    assert time.perf_counter() - start < 10  # about one second; a quadratic loop takes minutes
    assert "10000 would agree" in report.summary()


def test_peeking_gives_an_error_in_place_of_an_unreadable_file_and_reports_progress(tmp_path: Path) -> None:
    found = {name: tmp_path / f"{name}.h5" for name in "abc"}
    for path in found.values():
        path.write_bytes(b"not hdf5")
    steps: list[tuple[int, int]] = []
    infos = survey_all(found, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert all(isinstance(error, FeatureError) and f"{name}.h5" in str(error) for name, error in infos.items())
    with pytest.raises(ConfigError, match="mpp"):  # the caller's fault, not the files'
        survey_all(found, mpp=-1)


@pytest.mark.parametrize("pair", [("P01", "p01"), ("7", "7.0"), ("TCGA-AA-0001-01A", "TCGA-AA-0001-01B")])
def test_a_person_under_two_spellings_stops_unless_it_is_allowed(pair: tuple[str, str]) -> None:
    rows = [("a", pair[0], "x"), ("b", pair[1], "y"), *GOOD[2:]]
    infos = infos_of("a", "b", "c", "d")
    with pytest.raises(LabelError, match=rf"1 patient id written in several ways: {pair[0]} / {pair[1]}.*--allow-simi"):
        hold(table(rows), infos).raise_errors()
    report = hold(table(rows), infos, allow_similar=True)
    assert [(problem.kind, problem.severity) for problem in report.problems] == [("similar-patients", "note")]
    hold(table(rows), infos_of("a", "c", "d"), skip_missing=True).raise_errors()  # the other one is not used


def test_similar_slides_and_sites_are_listed() -> None:
    labels = table([("S1", "P1", "x"), ("s_01", "P1", "x"), *GOOD])
    labels.rows["site"] = ["06", "6", "A", "a", "B", "NA"]
    found = kinds(hold(labels, infos_of("S1", "s_01", "a", "b", "c", "d")))
    assert found["similar-slides"].names == ("S1 / s_01",)
    assert found["similar-sites"].names == ("06 / 6", "A / a")
    assert not any(problem.severity == "error" for problem in found.values())


def test_spellings_of_a_class_stop_and_both_are_shown() -> None:
    rows = [*GOOD, ("e", "P5", "X"), ("f", "P6", "X"), ("g", "P7", "X")]
    with pytest.raises(LabelError, match=r"1 label written in several ways: 'X' \(3 slides\) / 'x' \(2 slides\)"):
        hold(table(rows), infos_of(*"abcdefg")).raise_errors()


def test_it_says_what_it_took() -> None:
    infos = {
        name: replace(info(name, n=n, encoder="uni"), mpp=0.5) for name, n in zip("abcd", (5, 7, 9, 50), strict=True)
    }
    labels = replace(table(GOOD), columns={"label": "Dx", "slide": "Slide", "patient": "Case"})
    report = hold(labels, infos, positive="x")
    for words in (
        "'x' 2, 'y' 2.", "Positive class: x.", "Columns: label 'Dx', slide 'Slide', patient 'Case'.",
        "format trident; encoder uni; 4 numbers per patch, stored as float32; 5 to 50 patches per slide, median 8; "
        "patches of 128 microns; microns per level-0 pixel: 0.5.",
    ):  # fmt: skip
        assert words in report.summary()
    content = json.loads(report.to_json())
    assert (content["positive"], content["columns"]["patient"], content["dims"]) == ("x", "Case", {"4": 4})
    assert content["patches"] == {"fewest": 5, "median": 8, "most": 50}
    assert "Columns" not in report.summary(overview=False)  # of an error


def test_bad_slides_are_left_out_by_name_once_and_others_are_not() -> None:
    faulty = Survey(info=info("a"), faults=(Fault("not-finite", "a.h5: 1 value"), Fault("stacked", "5 patches")))
    surveys = {**infos_of("b", "c", "d"), "a": faulty, "e": FeatureError("e.h5: truncated")}
    rows = [*GOOD, ("e", "P5", "x"), ("f", "P6", "y")]
    assert {p.kind for p in hold(table(rows), surveys).errors} == {"not-finite", "unreadable", "no-features"}
    report = hold(table(rows), surveys, skip_bad=True)
    assert [problem.kind for problem in report.errors] == ["no-features"]  # --skip-missing is for those
    assert dict(report.left_out) == {
        "a": "NaN or infinity in the feature file",
        "e": "the feature file cannot be read",
    }
    assert len(report.left_out) == 2
    assert [entry.slide_id for entry in report.entries] == ["b", "c", "d"]
