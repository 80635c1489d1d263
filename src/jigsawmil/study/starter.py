"""The files that a new user begins with: a commented study file, and a label table to fill in."""

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path

from ..config import settings_of
from ..errors import StudyError
from ..files import writing
from ..train.settings import Settings
from .study import Study

STUDY, LABELS = "study.toml", "labels.csv"
WIDTH = 118
ROWS = """slide_id,patient_id,label
slide-1,patient-1,tumour
slide-2,patient-1,tumour
slide-3,patient-2,normal
"""
HEAD = """# A study: each variant is cross-validated on each cohort. Remove the # of a line such as "#k = 50" to use it.
# Look at your data first:  jigsawmil check --labels {labels} --features features
# Hours and disk it needs:  jigsawmil study {study} --dry-run
# Run it, or resume it:     jigsawmil study {study}
# Without data: add --phantom to either, for a synthetic cohort in place of yours.

folds = {folds}
seeds = [0]                    # [0, 1, 2]: three times, with other folds and weights
#shuffle_control = true        # once more with patch coordinates shuffled within each slide (negative control)
#attention = true              # keep the attention of every test slide
#by_site = true                # keep the slides of a site in one fold

[cohorts.mine]                 # a name of your own; paths are relative to this file
labels = "{labels}"          # one row per slide, columns slide_id, patient_id and label
features = "features"          # folder of feature files of TRIDENT, CLAM, STAMP, slideflow, ...
positive = "tumour"            # of two classes, the one whose probability is reported
#patient_column = "case"       # if columns have other names; also slide_column, label_column, site_column
#task = "multiclass"           # binary for two classes, multiclass for more, unless you say: ordinal, survival, ...

[cohorts.mine.standin]         # the synthetic cohort of --phantom
n = 40
patches = {{ fewest = 50, mean = 200, most = 800 }}
dim = 64
classes = ["normal", "tumour"]
balance = 0.5

[defaults]                     # settings of every variant; the values shown are the defaults
#preset = "paper"              # or "default"
"""

OWN = """
#[variants."k = 8"]            # a variant of your own: any name, a method, its settings
#method = "graph-abmil"
#k = 8
"""


def starter_text(methods: Iterable[str]) -> str:
    """A study file of these methods that names the common settings with their defaults."""
    lines = [HEAD.format(study=STUDY, labels=LABELS, folds=Study.folds).rstrip()]
    for one in settings_of(Settings):
        if one.option:
            lines += [*textwrap.wrap(one.help, WIDTH, initial_indent="# ", subsequent_indent="# ")]
            lines.append(f"#{one.name.rstrip('_')} = {json.dumps(one.default)}")
    lines += [f"\n[variants.{name if name.replace('-', '').isalnum() else json.dumps(name)}]" for name in methods]
    return "\n".join([*lines, OWN])


def write_starter(folder: str | Path, methods: Iterable[str]) -> tuple[Path, Path]:
    """Write both files, and return their paths; nothing is written if one of them is there.

    Example: `write_starter("my-study", ["abmil", "committee"])`
    """
    study, labels = Path(folder) / STUDY, Path(folder) / LABELS
    if there := [str(path) for path in (study, labels) if path.exists()]:
        raise StudyError(f"{' and '.join(there)}: already there. Give another folder.")
    for path, text in ((study, starter_text(methods)), (labels, ROWS)):
        with writing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return study, labels
