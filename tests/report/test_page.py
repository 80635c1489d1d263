"""The report says what the tables say, escapes every name, fetches nothing, and tells what is missing."""

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jigsawmil.errors import StudyError
from jigsawmil.report import examples, sections
from jigsawmil.report.control import control_lines
from jigsawmil.report.examples import SHOWN
from jigsawmil.report.page import write_report
from jigsawmil.study.control import shuffle_control
from jigsawmil.study.predictions import pool

CLASSES = ("mixed", "segregated")
GRADES = ("low", "middle", "high")
ODD = 'a <script>alert(1)</script> & "b" $x$'  # as the name of a class, a slide, a reason
Make = Callable[..., Path]


class Page(HTMLParser):
    """Tags with their attributes, and the text; entities are resolved as a browser does."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words without the pictures, which take the time."""
    for name in ("attention", "band", "calibration", "confusion", "forest", "trace", "trust"):
        monkeypatch.setattr(sections, f"{name}_figure", lambda *given, **more: b"picture")
    monkeypatch.setattr(examples, "image", lambda figure, kind: b"picture")


@pytest.fixture
def report(undrawn: None, tmp_path: Path) -> Callable[[Path], Page]:
    return lambda run: Page(write_report(run, tmp_path / "page" / "report.html"))


@pytest.fixture(scope="module")
def small(predictions, make_run: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three methods, attention kept. Not to be changed."""
    table = predictions({"abmil": 0.1, "graph-mil": 1.0, "graph-abmil+jigsaw": 3.0})
    run = tmp_path_factory.mktemp("report") / "run"
    return make_run(run, {"colon": table}, {"colon": CLASSES}, attention=True)


@pytest.fixture
def own(small: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(small, tmp_path / "own"))


def test_a_variant_of_abmil_by_another_name_is_known_to_see_no_places(
    predictions, make_run: Make, report, tmp_path: Path
) -> None:
    true, moved = predictions({"ABMIL": 2.5, "GAT": 2.5}), predictions({"ABMIL": 0.0, "GAT": 0.0}, noise=1)
    run = make_run(tmp_path / "run", {"colon": true}, {"colon": CLASSES}, control={"colon": moved})
    for file in run.glob("jobs/*/ABMIL/*/job.json"):
        job = json.loads(file.read_text())
        file.write_text(json.dumps({**job, "spec": {**job["spec"], "method": "abmil"}}))
    page = report(run)
    assert "Yes: the one method that uses positions loses AUROC when coordinates are shuffled" in page.text
    assert re.search(r"ABMIL: AUROC [^:]+: it does not use positions, so this difference is training noise", page.text)
    assert re.search(r"GAT: AUROC [^:]+: significantly worse with shuffled coordinates", page.text)


def test_every_figure_of_the_tables_is_in_the_page(whole: Path, report) -> None:
    page = report(whole)
    summary, pairs = pd.read_csv(whole / "summary.csv"), pd.read_csv(whole / "comparisons.csv")
    for row in summary.to_dict("records"):
        assert f"{row['auc_oof']:.3f} [{row['auc_low']:.3f}, {row['auc_high']:.3f}]" in page.text
        assert f"{row['auc_mean']:.3f} ± {row['auc_std']:.3f}" in page.text
        assert all(f"{row[name]:.3f}" in page.text for name in ("auprc", "f1", "brier", "ece", "calibration_slope"))
    assert all(f"{abs(gap):.3f}" in page.text for gap in pairs["difference"])
    assert "100 80 " in page.text  # slides and patients
    true, moved = (pd.read_csv(f / "predictions.csv", dtype={"slide_id": str}) for f in (whole, whole / "control"))
    assert all(line in page.text for line in control_lines(shuffle_control(true, moved, CLASSES), {"abmil"}))
    assert "3 slides are small." in page.text  # the audit's note
    assert "10 min of training (60 epochs)" in page.text
    assert "commit abc" in page.text


def test_the_answer_comes_first_and_is_the_title(small: Path, report) -> None:
    page = report(small)
    titles = [name for name, _ in page.tags if name in ("title", "h1", "h2")]
    assert titles[:3] == ["title", "h1", "h2"]
    answer = "graph-abmil+jigsaw has the highest AUROC, "
    assert page.text.count(answer) == 2
    assert page.text.startswith(answer)


def test_names_are_text_wherever_they_stand(predictions, make_run: Make, tmp_path: Path, report) -> None:
    table = predictions({"abmil": 0.5, "k & λ \"=\" '8'": 2.0})
    table["slide_id"] = table["slide_id"] + ODD.replace("/", "|")
    table["patient_id"] = ODD + table["patient_id"]
    table["label"] = table["label"].str.replace("mixed", ODD)
    run = make_run(tmp_path / "run", {"a & b": table}, {"a & b": (ODD, "segregated")}, attention=True)
    left = pd.DataFrame([{"cohort": "a & b", "name": ODD, "reason": f"{ODD} again"}])
    left.to_csv(run / "left_out.csv", index=False)
    about = json.loads((run / "study.json").read_text())
    about["failed"] = {ODD: ODD}
    about["cohorts"]["a & b"] |= {"notes": [ODD], "labels": ODD}
    (run / "study.json").write_text(json.dumps(about))
    page = report(run)
    assert not page.named("script")
    assert page.text.count(ODD) > 6
    assert f"{ODD} again (1): {ODD}" in page.text
    assert "k & λ \"=\" '8'" in page.text
    assert all(set(attributes) <= {"src", "alt"} for attributes in page.named("img"))  # no attribute broken out of


def test_nothing_is_fetched(drawn: Path) -> None:
    page = Page(drawn)
    assert {name for name, _ in page.tags} & {"script", "link", "iframe", "object", "embed"} == set()
    pictures = [attributes["src"] or "" for attributes in page.named("img")]
    assert all(source.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,")) for source in pictures)
    assert len(pictures) == 7 + 8  # a figure of each kind, eight slides
    anchors = {attributes.get("id") for _, attributes in page.tags}
    assert all((link["href"] or "")[0] == "#" and (link["href"] or "")[1:] in anchors for link in page.named("a"))
    assert "url(" not in drawn.read_text()
    assert "@import" not in drawn.read_text()
    assert all(attributes["alt"] for attributes in page.named("img"))


def test_the_same_run_gives_the_same_bytes(predictions, make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"colon": predictions({"abmil": 0.5})}, {"colon": CLASSES}, attention=True)
    first = write_report(run, tmp_path / "a.html")
    again = write_report(shutil.copytree(run, tmp_path / "elsewhere" / "run"), tmp_path / "b.html")
    assert first.read_bytes() == again.read_bytes()


def test_what_failed_and_what_is_not_judged_is_said(own: Path, report) -> None:
    about = json.loads((own / "study.json").read_text())
    about["failed"] = {f"colon graph-mil seed 0 fold {fold}": "The loss is nan." for fold in (0, 2)}
    (own / "study.json").write_text(json.dumps(about))
    for file, columns in (("summary", ["variant"]), ("comparisons", ["variant_a", "variant_b"])):
        table = pd.read_csv(own / f"{file}.csv")
        table[~(table[columns] == "graph-mil").any(axis=1)].to_csv(own / f"{file}.csv", index=False)
    for fold in (0, 2):
        shutil.rmtree(own / "jobs" / "colon" / "graph-mil" / f"seed0-fold{fold}")
    page = report(own)
    stopped = "Failed: colon graph-mil seed 0 fold 0, colon graph-mil seed 0 fold 2. The loss is nan."
    assert stopped in page.text
    assert "colon: not evaluated, because some folds are missing: graph-mil." in page.text
    assert "7 jobs, of 9 planned" in page.text
    assert "graph-abmil+jigsaw has the highest AUROC" in page.text  # of the others


def test_a_cohort_of_which_nothing_came_out(predictions, make_run: Make, tmp_path: Path, report) -> None:
    two = {name: predictions({"abmil": 0.2, "graph-mil": 3.0}) for name in ("colon", "breast")}
    run = make_run(tmp_path / "run", two, dict.fromkeys(two, CLASSES))
    for file in ("summary", "comparisons", "predictions"):
        table = pd.read_csv(run / f"{file}.csv", dtype={"slide_id": str})
        table[table["cohort"] == "colon"].to_csv(run / f"{file}.csv", index=False)
    page = report(run)
    assert "breast: no method has finished all folds, so none is evaluated." in page.text
    assert "graph-mil has the highest AUROC" in page.text
    for file in ("summary", "comparisons"):
        (run / f"{file}.csv").write_text("\n")
    assert "No method has finished all folds, so there are no results yet." in report(run).text


def test_cohorts_have_sections_of_their_own(
    predictions, graded: pd.DataFrame, make_run: Make, tmp_path: Path, report
) -> None:
    tables = {
        "colon": predictions({"abmil": 0.2, "graph-mil": 3.0}, seeds=2),
        "breast": predictions({"abmil": 1.0, "graph-mil": 1.1}),
    }
    page = report(make_run(tmp_path / "run", tables, dict.fromkeys(tables, CLASSES)))
    assert page.text.startswith(
        "In 1 of 2 cohorts (colon) the best method is significantly better than the baseline, abmil."
    )
    assert "breast : No method differs significantly from another;" in page.text
    assert (
        "3 folds x 2 seeds" in page.text
        or "Mean of folds: ± is the standard deviation over test folds and seeds" in page.text
    )
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert {"colon-results", "breast-results", "breast-calibration"} <= set(ids)


@pytest.mark.parametrize("task", ["multiclass", "ordinal"])
def test_beyond_two_classes(graded: pd.DataFrame, make_run: Make, tmp_path: Path, report, task: str) -> None:
    page = report(make_run(tmp_path / "run", {"lung": graded}, {"lung": GRADES}, task, attention=True))
    summary = pd.read_csv(tmp_path / "run" / "summary.csv").set_index("variant")
    best = summary.loc[summary["auc_oof"].idxmax()]
    assert f"{best['auc_oof']:.3f} [{best['boot_low']:.3f}, {best['boot_high']:.3f}]" in page.text
    assert ("quadratic kappa" in page.text) == (task == "ordinal")
    assert "Decision rule: the most probable class; no threshold was chosen on data" in page.text
    assert "bootstrap interval over patients" in page.text


def test_the_surest_slides_are_shown_with_their_own_map(own: Path, report) -> None:
    table = pd.read_csv(own / "predictions.csv", dtype={"slide_id": str})
    one = pool(table, CLASSES)["graph-abmil+jigsaw"]
    right, wrong = (rows for _, rows, _ in one.task.sort_cases(one.truth, one.probability))
    sure = one.probability.max(1)
    for rows, rightly in ((right, True), (wrong, False)):
        assert set(rows) == set(np.flatnonzero((one.decision == one.truth) == rightly))
        assert list(sure[rows]) == sorted(sure[rows], reverse=True)
    page = report(own)
    for row in [*right[:SHOWN], *wrong[:SHOWN]]:
        words = f"{one.cases[row]} is {CLASSES[one.truth[row]]} predicted {CLASSES[one.decision[row]]}, p ="
        assert f"{words} {sure[row]:.2f}" in page.text
        assert any(f"slide {one.cases[row]}," in (a["alt"] or "") for a in page.named("img"))
    for file in own.rglob("attention.safetensors"):
        file.unlink()
    page = report(own)
    assert "The run did not keep attention" in page.text
    assert not any("slide" in (a["alt"] or "") for a in page.named("img"))


def test_patients_that_were_pooled_are_shown_by_a_slide(predictions, make_run: Make, tmp_path: Path, report) -> None:
    table = predictions({"graph-abmil": 2.0})
    run = make_run(tmp_path / "run", {"colon": table}, {"colon": CLASSES}, attention=True, level="patient")
    merged = table.drop_duplicates("patient_id").assign(slide_id=lambda t: t["patient_id"])
    merged.to_csv(run / "predictions.csv", index=False)
    page = report(run)
    assert "The patients that graph-abmil predicted with the highest confidence" in page.text
    assert "12 patches of 00" in page.text
    assert "all slides of a patient are pooled" in page.text.lower()
    assert "the only method" in page.text


def test_mean_pooling_has_no_map(predictions, make_run: Make, tmp_path: Path, report) -> None:
    run = make_run(tmp_path / "run", {"colon": predictions({"graph-mil": 2.0})}, {"colon": CLASSES}, attention=True)
    from safetensors.numpy import load_file, save_file

    for file in run.rglob("attention.safetensors"):
        held = load_file(file)
        save_file({k: v if k.endswith("/coords") else np.full_like(v, 1 / len(v)) for k, v in held.items()}, file)
    assert report(run).text.count("mean pooling: every patch has the same weight") == 8


def test_sites_are_told_and_whether_folds_keep_them_together(own: Path, report) -> None:
    slides = pd.read_csv(own / "slides.csv", dtype=str, keep_default_na=False)
    folds = pd.read_csv(own / "predictions.csv", dtype=str).drop_duplicates("slide_id").set_index("slide_id")["fold"]
    slides["site"] = "S" + slides["slide_id"].map(folds)
    slides.to_csv(own / "slides.csv", index=False)
    assert "No site is in two folds." in report(own).text
    slides["site"] = ["A", "B"] * 50
    slides.to_csv(own / "slides.csv", index=False)
    assert (
        "Sites: 2; the largest, A, gave 50% of the slides. Slides of a site are in several folds." in report(own).text
    )


def test_whether_maps_can_be_trusted_is_said_where_it_was_asked(own: Path, report) -> None:
    assert "Can the maps be trusted?" not in report(own).text
    folder = own / "faithfulness" / "colon"
    folder.mkdir(parents=True)
    line = [0.9, 0.5]
    curves = {"deletion": {"removed": [0, 1], "evidence": line, "random": line}}
    curves["insertion"] = {"given": [0, 1], "evidence": line, "random": line}
    said = {"sentence": "The map is not shown to be trustworthy.", "slides": ["a", "b"], "curves": curves}
    (folder / "graph-abmil+jigsaw.json").write_text(json.dumps(said))
    (folder / "abmil.json").write_text("{")
    page = report(own)
    assert "graph-abmil+jigsaw: The map is not shown to be trustworthy." in page.text
    assert "abmil: abmil.json cannot be read" in page.text
    assert "mean over 2 slides" in page.text


def test_a_control_that_is_not_whole_is_said(whole: Path, tmp_path: Path, report) -> None:
    own = Path(shutil.copytree(whole, tmp_path / "own"))
    file = own / "control" / "predictions.csv"
    table = pd.read_csv(file, dtype={"slide_id": str})
    table[(table["variant"] != "abmil") | (table["fold"] != 1)].to_csv(file, index=False)
    assert "The control is incomplete:" in report(own).text


def test_artificial_slides_are_called_so(own: Path, report) -> None:
    assert "Synthetic cohort" not in report(own).text
    about = json.loads((own / "study.json").read_text())
    about["cohorts"]["colon"]["encoder"] = "phantom-7"
    (own / "study.json").write_text(json.dumps(about))
    assert "it says nothing about real tissue" in report(own).text


def test_many_variants_are_spread_over_pictures_that_fit_a_page(
    predictions, make_run: Make, tmp_path: Path, report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "A_FIGURE", 2)
    table = predictions({"abmil": 1.0, "k = 8": 1.0, "k = 9": 2.0})
    page = report(make_run(tmp_path / "run", {"colon": table}, {"colon": CLASSES}))
    rocs = [a["alt"] for a in page.named("img") if (a["alt"] or "").startswith("ROC")]
    assert rocs == ["ROC curves of abmil, k = 8", "ROC curves of k = 9"]


def test_no_run_no_report(undrawn: None, small: Path, own: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such folder"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html")
    with pytest.raises(StudyError, match="found a folder, expected a file"):
        write_report(small, tmp_path)
    with pytest.raises(StudyError, match="cannot be written"):
        write_report(small, small / "study.json" / "report.html")
    shutil.rmtree(own / "jobs")
    with pytest.raises(StudyError, match="no job is finished"):
        write_report(own, tmp_path / "report.html")
    (own / "study.json").write_text("{")
    with pytest.raises(StudyError, match="damaged"):
        write_report(own, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("summary.csv", "a,b\n1,x\n", "a table of the run is damaged"),
        ("predictions.csv", "method,fold\nabmil,0\n", r"predictions.csv: no column seed, slide_id"),
        ("slides.csv", None, r"slides.csv: not there"),
        ("folds.json", "[", r"folds.json: not a file of folds"),
    ],
)
def test_a_damaged_table_is_named(
    undrawn: None, own: Path, tmp_path: Path, file: str, content: str | None, said: str
) -> None:
    if content is None:
        (own / file).unlink()
    else:
        (own / file).write_text(content)
    with pytest.raises(StudyError, match=said):
        write_report(own, tmp_path / "report.html")
