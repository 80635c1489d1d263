"""A new setting is one field in one file; docs/settings.md lists what there is."""

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

jobs = [SimpleNamespace(variant=str(n), settings=Settings(warmup=n).flat()) for n in (1, 2)]
section = str(settings_section(SimpleNamespace(variants=["1", "2"], jobs=jobs)))
assert "warmup" in section, section
assert "| `warmup` | `3` | Epochs of a rising learning rate. | `--warmup` |" in settings_page.page()
shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "300"}).output
assert "--warmup" in shown and "Epochs of a rising learning rate." in shown, shown
'''


def test_a_setting_that_is_added_to_a_config_is_everywhere(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "jigsawmil", tmp_path / "jigsawmil", ignore=shutil.ignore_patterns("__pycache__"))
    config = tmp_path / "jigsawmil" / "train" / "config.py"
    before, mark, after = config.read_text().partition("    class_weights: bool")
    config.write_text(before + FIELD + mark + after)
    path = os.pathsep.join(map(str, (tmp_path, ROOT)))
    ran = subprocess.run(
        [sys.executable, "-c", EVERYWHERE, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_page_of_settings_is_that_of_the_code() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), "run `python -m tools.settings_page`"


def test_settings_need_no_torch() -> None:
    """The command line reads them before it knows whether there is anything to compute."""
    code = "import sys; from jigsawmil.train import Settings; Settings(conv='sage'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
