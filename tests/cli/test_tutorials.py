"""README and tutorials: every block of code runs, in order and as it stands there, but for two epochs."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("tutorial-*.md"))
NOT_RUN = {  # first word of a line -> why it is not run here
    "make": "tests/test_release.py knows the targets",
    "pip": "make dist-test installs the package in an environment of its own",
    "sbatch": "needs Slurm",
}
QUICK = ["--epochs", "2", "--patience", "0", "--members", "1"]
SHORT = {"compare": [*QUICK, "--folds", "2"], "train": QUICK}  # appended to a verb, so that a page takes seconds


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, code) of the fenced and the indented blocks of a page, in order."""
    lines = iter(text.splitlines())
    before, indented = "", ""
    for line in lines:
        if indented and not line.startswith("    "):
            yield "bash", indented
            indented = ""
        if line.startswith("```"):
            code = list(iter(lambda: next(lines), "```"))
            yield line.removeprefix("```"), "\n".join(code)
        elif line.startswith("    ") and (indented or not before.strip()):
            indented += line + "\n"
        before = line
    if indented:
        yield "bash", indented


def run_page(text: str, jigsawmil: Any) -> list[str]:
    """Run the blocks of a page in the current folder; the verbs that ran."""
    names: dict[str, Any] = {"__name__": "__main__"}
    verbs = []
    for language, code in blocks(text):
        if language == "python":
            exec(compile(code, "page", "exec"), names)
        elif language == "bash":
            for line in code.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if not words or words[0] in NOT_RUN:
                    continue
                assert words[0] == "jigsawmil", f"this test cannot run: {line.strip()}"
                ran = jigsawmil(*words[1:], *SHORT.get(words[1], []))
                assert ran.code == 0, f"{line}: {ran.err}"
                verbs.append(words[1])
        else:
            assert language in {"bibtex", "text"}, f"a block that no test runs: {language}"
    return verbs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_does_what_it_says(jigsawmil: Any, cohort: Path, folder: Path) -> None:
    (folder / "labels.csv").symlink_to(cohort / "labels.csv")
    for name in ("features", "new-features"):
        (folder / name).symlink_to(cohort / "features")
    verbs = run_page((ROOT / "README.md").read_text(encoding="utf-8"), jigsawmil)
    assert verbs == ["check", "compare", "report", "train", "predict"]
    assert (folder / "predictions.csv").exists()


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    """Numbers with three decimals, and ratios, stand in docs/results.md, which is made from the files of results."""
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1].split("\n## ")[0]
    figures = re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]\d)", re.sub(r"\]\([^)]*\)|<!--.*?-->", "", section))
    assert len(figures) > 10
    assert not [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", results)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorials_do_what_they_say(page: Path, jigsawmil: Any, folder: Path) -> None:
    assert run_page(page.read_text(encoding="utf-8"), jigsawmil)


def test_the_check_sees_what_does_not_run(jigsawmil: Any, folder: Path) -> None:
    page = "Text\n\n    make demo  # a\n    jigsawmil \\\n      encoders\n\n- list\n    more\n\n```python\nx = 1\n```\n"
    assert list(blocks(page))[1] == ("python", "x = 1")
    assert run_page(page, jigsawmil) == ["encoders"]
    with pytest.raises(AssertionError, match="cannot run: rm"):
        run_page("\n    rm -r x\n", jigsawmil)
    with pytest.raises(NameError):
        run_page("```python\ny\n```\n", jigsawmil)
    with pytest.raises(AssertionError, match="no test runs: json"):
        run_page("```json\n{}\n```\n", jigsawmil)
