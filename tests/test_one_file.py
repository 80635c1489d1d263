"""A new setting is one field in one file, a new format or task is one file; docs/settings.md lists what there is."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # tools/ is not installed with the package
settings_page = importlib.import_module("tools.settings_page")

FIELD = '    warmup: int = setting(3, "Epochs of a rising learning rate.", option=True)\n'
EVERYWHERE = '''
import sys
from pathlib import Path
from types import SimpleNamespace

from typer.testing import CliRunner

import jigsawmil
from jigsawmil.cli.app import app
from jigsawmil.cli.options import MethodOptions
from jigsawmil.errors import ConfigError
from jigsawmil.report.provenance import settings_section
from jigsawmil.study import read_study
from jigsawmil.train import Settings, SlideClassifier
from tools import settings_page

folder = Path(sys.argv[1])
assert Path(jigsawmil.__file__).is_relative_to(folder)
assert Settings().flat()["warmup"] == Settings().train.warmup == 3
assert SlideClassifier(warmup=4).get_params()["warmup"] == 4
assert MethodOptions(warmup=5).settings("abmil").train.warmup == 5

(folder / "study.toml").write_text("""
[cohorts.a]
labels = "labels.csv"
features = "features"
[defaults]
warmup = 6
[variants.abmil]
""")
assert read_study(folder / "study.toml").variants["abmil"].train.warmup == 6
try:
    Settings(warmup="long")
except ConfigError as error:
    assert str(error) == "warmup: found 'long', expected a whole number."

settings = {str(n): Settings(warmup=n).flat() for n in (1, 2)}
section = str(settings_section(SimpleNamespace(variants=["1", "2"], settings=settings)))
assert "warmup" in section, section
assert "| `warmup` | `3` |  | Epochs of a rising learning rate. | `--warmup` |" in settings_page.page()
shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "300"}).output
assert "--warmup" in shown and "Epochs of a rising learning rate." in shown, shown
'''


FORMAT = """
SUFFIXES = (".mine",)

def matches(file):
    return file.path.suffix == ".mine"

def scan(file, options): ...
"""
TASK = """
from .binary import BinaryTask

class Focal(BinaryTask):
    name = "focal"

TASK = Focal()
"""
NEW_FILES = """
from jigsawmil.bags.formats import FORMATS, feature_suffixes
from jigsawmil.bags.formats.registry import ORDER
from jigsawmil.tasks import TASKS, choose_task

assert next(iter(FORMATS)) == "mine" and ".mine" in feature_suffixes(), list(FORMATS)
assert list(FORMATS)[1:] == list(reversed(ORDER)), list(FORMATS)
assert choose_task(["a", "b"], task="focal") is TASKS["focal"]
assert {"binary", "multiclass", "ordinal", "focal"} <= {*TASKS}
"""


def copy_of_the_package(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(ROOT / "src" / "jigsawmil", folder / "jigsawmil", ignore=ignored))


def run_in(folder: Path, code: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT)))}
    command = [sys.executable, "-c", code, str(folder)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_a_setting_that_is_added_to_a_config_is_everywhere(tmp_path: Path) -> None:
    config = copy_of_the_package(tmp_path) / "train" / "config.py"
    before, mark, after = config.read_text().partition("    class_weights: bool")
    config.write_text(before + FIELD + mark + after)
    run_in(tmp_path, EVERYWHERE)


def test_a_format_and_a_task_that_are_added_as_files_are_known(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    (package / "bags" / "formats" / "mine.py").write_text(FORMAT)
    (package / "tasks" / "focal.py").write_text(TASK)
    run_in(tmp_path, NEW_FILES)


def test_the_page_of_settings_is_that_of_the_code() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), "run `python -m tools.settings_page`"


def test_settings_need_no_torch() -> None:
    """The command line reads them before it knows whether there is anything to compute."""
    code = "import sys; from jigsawmil.train import Settings; Settings(conv='sage'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
