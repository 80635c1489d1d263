"""What a release rests on: a version from git, a citation, and files that come along."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import yaml
from tools.dist_test import FILES

from jigsawmil.version import __version__

ROOT = Path(__file__).parents[1]
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


def test_workflows_call_targets_that_exist() -> None:
    """Continuous integration runs the commands that a person runs."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    assert {path.stem for path in workflows} == {"test", "docs", "release"}
    for path in workflows:
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        steps = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
        called = {name for step in steps for words in re.findall(r"^make (.+)", step, re.M) for name in words.split()}
        hows = {how for job in jobs for how in job.get("strategy", {}).get("matrix", {}).get("how", [])}
        named = {name for name in called if re.fullmatch(r"[\w-]+", name)} | hows
        assert named <= targets, path
        assert steps
