"""The program starts quickly: a verb imports what it needs, and --help imports no verb."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jigsawmil.cli.app import VERBS, load_verb, verb_helps

HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "numba", "bokeh", "ray")
STUDIES = Path(__file__).parents[2] / "studies"
PROGRAM = f"""
import sys
from jigsawmil.cli import main
sys.argv[0] = "jigsawmil"
try:
    main()
finally:
    print("HEAVY", *[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def imported(*arguments: object) -> tuple[int, str, list[str]]:
    """Exit code, what was printed, and which heavy packages the program imported."""
    words = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True)
    printed, _, heavy = done.stderr.rpartition("HEAVY")
    return done.returncode, done.stdout + printed, heavy.split()


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--nope"], 2), (["chek"], 2), (["check", "-z"], 2)])
def test_help_and_wrong_words_import_nothing_heavy(arguments: list[str], code: int) -> None:
    found, printed, heavy = imported(*arguments)
    assert found == code
    assert "Usage: jigsawmil" in printed
    assert heavy == []


def test_the_help_of_no_verb_imports_anything_heavy() -> None:
    code = "from jigsawmil.cli.app import VERBS, load_verb\nfor verb in VERBS: load_verb(verb)\n"
    code += f"import sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_check_imports_what_reads_features_and_nothing_else_that_is_heavy(cohort: Path) -> None:
    code, printed, heavy = imported("check", "--labels", cohort / "labels.csv", "--features", cohort / "features")
    assert code == 0
    assert "18 slides of 15 patients" in printed
    assert set(heavy) <= {"torch", "scipy"}  # it looks into the features


@pytest.mark.parametrize("words", [("study", "table1-cancers"), ("patches", "table2-encoders")])
def test_published_figures_import_nothing_heavy(words: tuple[str, str]) -> None:
    verb, name = words
    code, printed, heavy = imported(verb, STUDIES / f"{name}.toml", "--published")
    assert code == 0
    assert "arXiv 2603.20386, Table" in printed
    assert heavy == []


def test_the_measure_sees_torch(cohort: Path, tmp_path: Path) -> None:
    assert "torch" in imported("report", tmp_path)[2]


def test_help_lists_every_verb_with_its_own_words() -> None:
    helps = verb_helps()
    assert helps.keys() == VERBS.keys()
    printed = " ".join(imported("--help")[1].split())
    for name in VERBS:
        assert load_verb(name).help == helps[name]
        assert f"│ {name} " in printed
    assert printed.index("Synthetic data") < printed.index("│ phantom ")  # the last panel
    assert printed.index("│ validate ") < printed.index("Synthetic data")
    assert "List the encoders that extract knows" in printed


@pytest.mark.parametrize(("typed", "offered"), [("jigsawmil comp", "compare"), ("jigsawmil train --gat", "--gated")])
def test_a_shell_completes_verbs_and_options(typed: str, offered: str) -> None:
    asked = {"_JIGSAWMIL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    words = [sys.executable, "-c", "from jigsawmil.cli import main; main()"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **asked}, check=True)
    assert offered in done.stdout.split()


def test_a_wrong_verb_names_the_nearest() -> None:
    assert "Did you mean 'predict'" in imported("predct")[1]


def test_the_names_of_the_package_are_listed_and_resolved() -> None:
    code = (
        "import sys, jigsawmil; assert 'torch' not in sys.modules; names = set(dir(jigsawmil));"
        "assert set(jigsawmil.__all__) <= names; assert all(hasattr(jigsawmil, name) for name in jigsawmil.__all__);"
        "assert jigsawmil.__version__"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
