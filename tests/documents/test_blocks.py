"""Every block of every document runs as it stands, in order, in a folder such as its reader has."""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from tools.pages import CODE, DATA, DOCUMENTS, ROOT, TEXT, TUTORIALS, Block, blocks, commands, read

from jigsawmil import METHODS
from jigsawmil.cli.app import VERBS, load_verb
from jigsawmil.slides.encoders import SPECS
from jigsawmil.study.study_file import read_study
from jigsawmil.tasks import TASKS
from jigsawmil.train.config import TrainConfig

from ..cli.conftest import Program

PAGES = [path for path in DOCUMENTS if any(block.language not in TEXT for block in read(path))]
HAS = {  # what the reader of a page already has, beside labels, features, slides and a study file
    "docs/api-maps.md": ("run", "model"),
    "docs/api-report.md": ("run",),
    "docs/maps.md": ("run", "model"),
    "docs/report.md": ("run",),
    "docs/validate.md": ("run-k8", "run-k50"),
    "docs/formats.md": ("stamp", "job", "encoders"),
    "docs/splits.md": ("splits",),
}
QUICK = ["--epochs", "2", "--patience", "0", "--members", "1"]
SHORT = {  # appended to a verb, so that a page takes seconds; the last value of an option holds
    "compare": QUICK,
    "train": QUICK,
    "study": ["--set", "epochs=2", "--set", "patience=0", "--set", "members=1"],
}
LESS = {"phantom": {"--slides": 24, "--patches": 30}, "paint": {"--slides": 8, "--patches": 10}}  # at most


def known_method(name: str) -> bool:
    return METHODS.peek(name) is not None or ":" in name


KNOWN = {  # values of options that the parser takes as words
    "--encoder": lambda word: word in {spec.name for spec in SPECS} or Path(word).suffix in {".pt", ".onnx"},
    "--method": lambda word: known_method(word),
    "--methods": lambda word: all(map(known_method, word.split(","))),
    "--task": lambda word: word in TASKS,
}


def shortened(words: list[str]) -> list[str]:
    """A command on less: two folds of two epochs."""
    more = list(SHORT.get(words[0], []))
    if words[0] == "compare" and "--splits" not in words:
        more += ["--folds", "2"]
    for option, most in LESS.get(words[0], {}).items():
        if option not in words or int(words[words.index(option) + 1]) > most:
            more += [option, str(most)]
    if "--choose" in words:
        more += ["--choose-folds", "2", "--choose-repeats", "1"]
    return [*words, *more]


def run_command(words: list[str], jigsawmil: Program) -> None:
    if words[0] == "export":
        for pair in words[1:]:
            name, _, value = pair.partition("=")
            os.environ[name] = value
        return
    assert words[0] == "jigsawmil", f"this test cannot run: {' '.join(words)}"
    METHODS._imported.clear()  # as in a process of its own
    ran = jigsawmil(*shortened(words[1:]))
    assert ran.code == 0, f"{' '.join(words)}: {ran.out[-2000:]}{ran.err}"


def parse_command(words: list[str]) -> None:
    """The program's own parser takes the command, and its names exist."""
    assert words[1] in VERBS, words
    load_verb(words[1]).make_context(words[1], list(words[2:]))
    for option, value in pairwise(words):
        assert KNOWN.get(option, bool)(value), f"{option} {value}"


def check_study(values: dict[str, Any], folder: Path) -> None:
    """A part of a study file, completed: every key and setting exists."""
    given = {
        "cohorts": {"any": {"labels": "labels.csv", "features": "features"}},
        "variants": {"graph-abmil": {}},
    } | values
    for cohort in given["cohorts"].values():
        for image in cohort.get("reference", {}).values():
            shutil.copy(ROOT / "docs" / "img" / "painted.png", folder / image)
    (folder / "part.yaml").write_text(yaml.safe_dump(given))
    read_study(folder / "part.yaml")


def run_block(block: Block, names: dict[str, Any], folder: Path, jigsawmil: Program) -> None:
    if block.mark == "file":
        (folder / block.reason).write_text(block.code + "\n")
    if block.language == "bash":
        for words in commands(block.code):
            if block.runs:
                run_command(words, jigsawmil)
            elif words[0] == "jigsawmil":
                parse_command(words)
            else:
                assert block.mark == "not run", f"parsed only, but no command of jigsawmil: {' '.join(words)}"
    elif block.language == "python":
        code = compile(block.code, f"line {block.line}", "exec")
        if block.runs:
            exec(code, names)
    elif block.language == "toml":
        values = tomllib.loads(block.code)
        if "project" not in values:
            check_study(values, folder)
    elif block.language in DATA:
        assert {"yaml": yaml.safe_load, "json": json.loads}[block.language](block.code)
    else:
        assert block.language in TEXT, f"line {block.line}: name a language, not {block.language!r}"


def run_page(text: str, names: dict[str, Any], folder: Path, jigsawmil: Program) -> None:
    for block in blocks(text):
        try:
            run_block(block, names, folder, jigsawmil)
        except BaseException as error:
            error.add_note(f"in the block of line {block.line}")
            raise


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setitem(TrainConfig.__init__.__kwdefaults__, "epochs", 2)
    before = dict(os.environ)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)
    METHODS._imported.clear()
    sys.modules.pop("my_models", None)


def check_readme(folder: Path) -> None:
    assert pd.read_csv(folder / "predictions.csv", dtype=str)["slide_id"].tolist()[:2] == ["1001", "1002"]
    assert len(list((folder / "maps").iterdir())) == 6


def check_own_model(folder: Path) -> None:
    assert set(pd.read_csv(folder / "run" / "summary.csv")["variant"]) == {"abmil", "mean-lr", "my_models SmoothMax"}
    assert "made by my_models:SmoothMax with width = 32" in (folder / "run" / "report.html").read_text()
    assert pd.read_csv(folder / "maps" / "0001.csv")["attention"].nunique() > 1
    assert (folder / "fold-map.png").stat().st_size > 0


def check_cluster(folder: Path) -> None:
    assert (folder / "run" / "jobs" / "cohort" / "abmil" / "seed0-fold0" / "job.json").exists()  # again


CHECKS = {  # after the last block
    "README.md": check_readme,
    "docs/your-model.md": check_own_model,
    "docs/tutorial-cluster.md": check_cluster,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run_as_they_stand(page: Path, folder: Path, jigsawmil: Program, request: pytest.FixtureRequest) -> None:
    name = str(page.relative_to(ROOT))
    names = {"__name__": "__main__"}
    if page not in TUTORIALS:  # whose readers begin with nothing
        names |= request.getfixturevalue("names")
        for thing in ("desk", *HAS.get(name, ())):
            request.getfixturevalue("things")(thing, folder)
    run_page(page.read_text(encoding="utf-8"), names, folder, jigsawmil)
    CHECKS.get(name, bool)(folder)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_names_its_language(page: Path) -> None:
    wrong = [
        f"line {block.line}: {block.language!r}" for block in read(page) if block.language not in (*CODE, *DATA, *TEXT)
    ]
    assert not wrong


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    """Numbers with three decimals, and ratios, stand in docs/results.md, which is made from the files of results."""
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1].split("\n## ")[0]
    figures = re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]\d)", re.sub(r"\]\([^)]*\)|<!--.*?-->", "", section))
    assert len(figures) > 10
    assert not [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", results)]


def test_blocks_are_found_with_their_marks() -> None:
    text = """Text

<!-- not run: needs a GPU -->
```bash
jigsawmil \\
  encoders  # all
```

    indented

- list
    more

```
nothing
```
"""
    run, indented, nothing = blocks(text)
    assert (run.line, run.language, run.mark, run.reason) == (5, "bash", "not run", "needs a GPU")
    assert list(commands(run.code)) == [["jigsawmil", "encoders"]]
    assert [indented.language, nothing.language] == ["", ""]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("```bash\nrm -r x\n```", "cannot run: rm -r x"),
        ("```bash\njigsawmil train\n```", "Missing options"),
        ("```\nx\n```", "name a language"),
        ("    jigsawmil encoders", "name a language"),
        ("```python\ny\n```", "name 'y' is not defined"),
        ("<!-- parsed only: slow -->\n```bash\npip install x\n```", "no command of jigsawmil"),
        ("<!-- not run: slow -->\n```bash\njigsawmil train --epochs two\n```", "valid integer"),
        ("<!-- not run: slow -->\n```bash\njigsawmil extract x --encoder nobody --out y\n```", "--encoder nobody"),
        ("<!-- not run: slow -->\n```python\nx = (\n```", "was never closed"),
        ("```toml\n[defaults]\nepoch = 3\n```", "epoch"),
        ("```json\n{\n```", "Expecting property name"),
    ],
)
def test_the_check_sees_what_is_wrong(block: str, words: str, folder: Path, jigsawmil: Program) -> None:
    with pytest.raises(BaseException, match=re.escape(words)):
        run_page(block + "\n", {}, folder, jigsawmil)
