"""What a release rests on: a version from git, a citation, and files that come along."""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.dist_test import FILES
from tools.release_notes import notes

from jigsawmil.version import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_no_file_states_a_version_but_git_does() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert __version__ == metadata("jigsawmil")["Version"]


def test_the_citation_is_of_the_paper_and_the_software() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cited.keys()
    assert "version" not in cited  # that is git's
    assert cited["license"] == PROJECT["project"]["license"]
    assert cited["preferred-citation"]["url"] == PROJECT["project"]["urls"]["Paper"]


def test_files_beside_the_code_are_packed() -> None:
    """Each file that is no code matches a pattern of package-data, and is tried in an installed program."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    source = ROOT / "src"
    files = [path.relative_to(source) for path in source.glob("jigsawmil/**/*") if path.is_file()]
    others = [file for file in files if file.suffix != ".py" and "__pycache__" not in file.parts]
    assert others
    for file in others:
        package = ".".join(file.parent.parts)
        assert any(file.match(pattern) for pattern in patterns.get(package, ())), file
    assert {str(file) for file in others} == set(FILES)
    assert all((source / file).is_file() for file in FILES)


def steps_of(path: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        yield from job["steps"]


def test_workflows_are_those_of_test_docs_and_release() -> None:
    assert {path.stem for path in WORKFLOWS} == {"test", "docs", "release"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_exists(path: Path) -> None:
    """Continuous integration runs the commands that a person runs: targets of make, scripts, modules of tools."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    lines = [step["run"] for step in steps_of(path) if "run" in step]
    hows = {how for job in jobs for how in job.get("strategy", {}).get("matrix", {}).get("how", [])}
    called = {name for line in lines for name in re.findall(r"^make ([\w -]+)$", line, re.M)}
    assert {name for names in called for name in names.split()} | hows <= targets
    for name in (word for line in lines for word in re.findall(r"-m (tools\.\w+)", line)):
        assert (ROOT / f"{name.replace('.', '/')}.py").is_file(), name
    for name in (line for line in lines if line.startswith(".")):
        assert os.access(ROOT / name, os.X_OK), name
    assert lines or hows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_what_github_asks_for(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow[True]  # YAML reads `on` as true
    for name, job in workflow["jobs"].items():
        assert job["runs-on"]
        assert set(re.findall(r"[\w-]+", str(job.get("needs", "")))) <= workflow["jobs"].keys(), name
        for step in job["steps"]:
            assert len({"uses", "run"} & step.keys()) == 1, step
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1"))
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["fetch-depth"] == 0  # the version comes from tags


def test_the_site_that_is_published_is_the_one_that_is_built() -> None:
    steps = list(steps_of(ROOT / ".github" / "workflows" / "docs.yml"))
    (uploaded,) = [step["with"]["path"] for step in steps if "upload-pages" in step.get("uses", "")]
    assert re.search(rf"^site_dir: {uploaded}$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert any("deploy-pages" in step.get("uses", "") for step in steps)


def test_python_versions_are_those_that_are_tested() -> None:
    tested = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    stated = [word.split(" :: ")[-1] for word in PROJECT["project"]["classifiers"] if "Python :: 3." in word]
    assert tested["jobs"]["test"]["strategy"]["matrix"]["python"] == stated
    assert PROJECT["project"]["requires-python"] == f">={stated[0]}"


def test_the_notes_of_a_release_are_the_section_of_its_version() -> None:
    log = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- New: [a](docs/a.md), [b](https://b.org).\n"
    log += "\n### Fixed\n\n- X.\n\n## [0.1.0] - 2026-11-01\n\n- First.\n"
    assert notes(log, "v0.2.0") == "- New: a, [b](https://b.org).\n\n### Fixed\n\n- X.\n"
    assert notes(log, "v0.1.0") == "- First.\n"
    for tag in ("v0.3.0", "vUnreleased", "v0.2"):
        with pytest.raises(SystemExit, match="no section"):
            notes(log, tag)
    assert notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "Unreleased")


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: each with what it is given."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, given) for word, _, given in lines]


def test_the_image_is_built_of_files_that_exist_with_the_tested_versions() -> None:
    steps = instructions()
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [name for word, given in steps if word == "COPY" for name in given.split()[:-1]]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in sent, f"{name} is not sent to the builder"
    assert {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]} <= set(copied)
    (install,) = [given for word, given in steps if word == "RUN" and "pip install" in given]
    assert "--constraint constraints.txt" in install
    (extras,) = re.findall(r"'\.\[(.+)\]'", install)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()


def test_the_image_runs_the_program_and_not_as_root() -> None:
    steps = instructions()
    given = dict(steps)
    assert json.loads(given["ENTRYPOINT"])[0] in PROJECT["project"]["scripts"]
    assert given["USER"] != "root"
    words = [word for word, _ in steps]
    assert words[0] == "FROM"
    assert max(i for i, word in enumerate(words) if word == "RUN") < words.index("USER")
    python = given["FROM"].removeprefix("python:").removesuffix("-slim")
    assert f"Programming Language :: Python :: {python}" in PROJECT["project"]["classifiers"]
    (caches,) = [text for word, text in steps if word == "ENV"]
    assert "NUMBA_CACHE_DIR=/tmp/" in caches  # the package's folder cannot be written to
    variable = "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_" + PROJECT["project"]["name"].upper()
    assert f"{variable}=${given['ARG'].partition('=')[0]}" in caches
