"""docs/settings.md from the fields of the settings: `python -m tools.settings_page`. A test holds the page to them."""

from jigsawmil.config import settings_of
from jigsawmil.train import Settings
from jigsawmil.train.presets import PAPER

from . import ROOT

PAGE = ROOT / "docs" / "settings.md"
HEAD = """# Settings

Written by `python -m tools.settings_page` from the code.

The same names serve everywhere: as `--set NAME=VALUE` on the command line (settings with an option of their own: as
that option), in the `[defaults]` and `[variants.*]` tables of a [study file](studies.md), and as keywords of
`Settings(...)` and `SlideClassifier(...)`. In Python `lambda` is spelt `lambda_`.

A preset sets everything that you do not: `--preset paper` on the command line, `preset = "paper"` in a table of a study
file, `Settings.preset("paper", k=8)` and `SlideClassifier(preset="paper")` in Python. `default` is what we recommend;
`paper` follows the equations and constants of arXiv 2603.20386. [paper.md](paper.md) shows why they differ.

| setting | default | paper | meaning | option |
| --- | --- | --- | --- | --- |
"""


def _text(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else ""


def page() -> str:
    rows = []
    for setting in settings_of(Settings):
        name = setting.name.rstrip("_")
        paper = PAPER.get(setting.name, setting.default)
        own = "" if paper == setting.default else _text(paper)
        option = f"`--{name.replace('_', '-')}`" if setting.option else ""
        rows.append(f"| `{name}` | {_text(setting.default)} | {own} | {setting.help} | {option} |\n")
    return HEAD + "".join(rows)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
