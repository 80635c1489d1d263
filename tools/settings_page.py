"""docs/settings.md from the fields of the settings: `python -m tools.settings_page`. A test holds the page to them."""

from jigsawmil.config import settings_of
from jigsawmil.train import Settings

from . import ROOT

PAGE = ROOT / "docs" / "settings.md"
HEAD = """# Settings

Written by `python -m tools.settings_page` from the code.

The same names serve everywhere: as `--set NAME=VALUE` on the command line (settings with an option of their own: as
that option), in the `[defaults]` and `[variants.*]` tables of a [study file](studies.md), and as keywords of
`Settings(...)` and `SlideClassifier(...)`. In Python `lambda` is spelt `lambda_`. [paper.md](paper.md) says which
reading of the paper is behind a default.

| setting | default | meaning | option |
| --- | --- | --- | --- |
"""


def page() -> str:
    rows = []
    for setting in settings_of(Settings):
        name = setting.name.rstrip("_")
        default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        option = f"`--{name.replace('_', '-')}`" if setting.option else ""
        rows.append(f"| `{name}` | `{default}` | {setting.help} | {option} |\n")
    return HEAD + "".join(rows)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
