"""docs/paper.md and docs/lambda.md state the numbers that the paper's tables, our results and the formulas give."""

import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jigsawmil.config import settings_of
from jigsawmil.study.study import Study
from jigsawmil.study.study_file import read_study
from jigsawmil.train import Settings
from jigsawmil.train.presets import preset_folds

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tools/ is not installed with the package
arithmetic: Any = importlib.import_module("tools.paper_arithmetic")

NUMBER = re.compile(r"[+-]?\d+\.\d+|\d+ of \d+|\d+,\d{3}|\d+(?= ?%)")
OF_A_STUDY = {"folds", "seeds"}  # switches that are no settings of a model
STATUSES = ("exact", "switch", "reading", "stated reason", "background")
SECTION = re.compile(r"\b([A-E]\.\d|[237]\.[12])\b")  # of the paper; no figure on these pages looks like one


def numbers(text: str) -> set[str]:
    return set(NUMBER.findall(SECTION.sub("", text)))


def section(page: str, title: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def tables() -> Any:
    return arithmetic.Tables()


def test_the_disagreements_have_the_numbers_that_are_printed(tables: Any) -> None:
    text = section("paper.md", "Where the text and the tables disagree")
    parts = re.split(r"^(\d+)\. ", text.split("\n\n**Formulas and words**")[0], flags=re.MULTILINE)
    found = {int(number): numbers(item) for number, item in zip(parts[1::2], parts[2::2], strict=True)}
    printed = {number: numbers(" ".join(lines)) for number, lines in arithmetic.disagreements(tables).items()}
    assert list(found) == list(range(1, 23))
    assert found == {number: printed.get(number, set()) for number in found}


def test_what_the_paper_reports_has_its_figures(tables: Any) -> None:
    known = numbers(" ".join([*tables.cells.values(), *arithmetic.claims(tables), *arithmetic.FIXED]))
    assert numbers(section("paper.md", "What the paper reports")) <= known


def test_the_readme_reports_figures_of_the_papers_table(tables: Any) -> None:
    (brief,) = re.findall(r"\*\*The paper in brief\.\*\*.*?\n\n", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert {"0.952", "0.833", "0.885", "0.884"} <= numbers(brief)
    assert numbers(brief) <= set(tables.cells.values())


def test_the_page_on_ensembles_states_figures_of_the_results() -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    stated = numbers(section("ensembles.md", "The default"))
    assert {"0.985", "0.967", "0.956"} <= stated
    assert {number for number in stated if "." in number} <= numbers(results)


def test_what_we_measured_is_in_the_results() -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert numbers(section("paper.md", "What we measured")) <= numbers(results)


def test_the_page_on_lambda_has_the_numbers_that_are_printed(tables: Any) -> None:
    known = numbers(" ".join([*tables.cells.values(), *arithmetic.em_rule()]))
    for title in ("What the EM rule implies", "`balanced`", "What the evidence says"):
        assert numbers(section("lambda.md", title)) <= known


def test_the_check_sees_a_wrong_number() -> None:
    assert numbers("+0.020 in Section 7.2 (7.2, E.1), 5 of 7, 1,133 slides") == {"+0.020", "5 of 7", "1,133"}


def statements() -> list[tuple[str, str, str]]:
    """Number, status and place of each."""
    text = (ROOT / "docs" / "paper-statements.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (\d+) \| [^|]* \| [^|]* \| ([^|]*) \| ([^|]*)\|$", text, flags=re.MULTILINE)


def test_all_96_statements_have_a_status() -> None:
    assert [int(number) for number, *_ in statements()] == list(range(1, 97))
    kinds = Counter(status.split(" `")[0] for _, status, _ in statements())
    stated = ", ".join(f"{kinds.pop(kind)} {kind}" for kind in STATUSES)
    assert not kinds
    assert f"Count: {stated}." in (ROOT / "docs" / "paper-statements.md").read_text(encoding="utf-8")
    assert all(place.strip() for _, status, place in statements() if status != "background")


def test_switches_and_files_of_the_statements_exist() -> None:
    known = {setting.name.rstrip("_") for setting in settings_of(Settings)}
    switches = [status.split("`")[1] for _, status, _ in statements() if status.startswith("switch")]
    assert set(switches) <= known
    files = [name for *_, place in statements() for name in re.findall(r"`([\w/-]+/[\w.-]*)`", place)]
    assert len(files) > 50
    assert not [name for name in files if not any((top / name).exists() for top in (ROOT, ROOT / "src" / "jigsawmil"))]


def readings() -> list[tuple[bool, set[str]]]:
    """Of each row that has a switch: whether the presets agree (`=`), and the settings, those of a study included."""
    rows = re.findall(r"^\|.*\| ([^|]*) \| ([^|]*) \|$", section("paper.md", "Readings"), flags=re.MULTILINE)
    named = [(default, re.split(r":| of a study", cell)[0]) for default, cell in rows]
    found = [(default.startswith("="), set(re.findall(r"`(\w+)`", cell))) for default, cell in named]
    return [(same, switches) for same, switches in found if switches]


def test_the_readings_have_the_differences_that_were_measured() -> None:
    """Each stands in the row of its switch; that of the whole preset above the tables."""
    measured = json.loads((ROOT / "benchmarks" / "results" / "presets.json").read_text())["rows"][1:]
    text = section("paper.md", "Readings")
    stated = {
        next(iter(row["settings"])): "{mean:+.3f} [{low:+.3f}, {high:+.3f}]".format(**row["gain"]) for row in measured
    }
    assert stated.pop("preset") in text.split("\n### ")[0]
    for switch, figures in stated.items():
        (row,) = re.findall(rf"^\|.*\| `{switch}`[^|]*\|$", text, flags=re.MULTILINE)
        assert figures in row
    assert set(re.findall(r"[+-]\d\.\d{3} \[[^]]*\]", text)) >= set(stated.values())


def test_k_and_the_convolution_have_the_differences_that_were_measured() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "small_cohorts.json").read_text())
    gains = {name: row["gain"] for row in found["rows"] if "gain" in row for name in row["settings"]}
    for switch in ("k", "conv"):
        (row,) = re.findall(rf"^\|.*\| `{switch}` \|$", section("paper.md", "Readings"), flags=re.MULTILINE)
        assert "{mean:+.3f} [{low:+.3f}, {high:+.3f}]".format(**gains[switch]) in row
        assert ("significant after Holm" in row) == (gains[switch]["p_holm"] < 0.05)


def test_the_switches_of_the_readings_exist() -> None:
    known = {setting.name.rstrip("_") for setting in settings_of(Settings)}
    named = set().union(*(switches for _, switches in readings()))
    assert named >= OF_A_STUDY
    assert named <= known | OF_A_STUDY


def test_the_readings_name_every_difference_between_the_presets() -> None:
    default, paper = Settings().flat(), Settings.preset("paper").flat()
    differ = {name.rstrip("_") for name in default if default[name] != paper[name]}
    files = [read_study(path) for path in sorted((ROOT / "studies").glob("table[1356]-*.toml"))]
    own = Study(cohorts=files[0].cohorts, variants=files[0].variants)
    differ |= {name for name in OF_A_STUDY for file in files if getattr(file, name) != getattr(own, name)}
    assert preset_folds("paper") == files[0].folds
    assert {"normalise", "ties", "clip"} <= differ
    assert differ <= set().union(*(switches for same, switches in readings() if not same))
    assert all(bool(switches & differ) != same for same, switches in readings())
