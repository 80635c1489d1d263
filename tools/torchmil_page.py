"""docs/torchmil.md from the table of torchmil's models: `python -m tools.torchmil_page`. A test compares them."""

import json
from pathlib import Path

from jigsawmil.nn import torchmil_models, torchmil_table
from jigsawmil.nn.torchmil_table import REFUSED, TORCHMIL, TorchmilModel

from . import ROOT

PAGE = ROOT / "docs" / "torchmil.md"
HEAD = """# Models of torchmil

Written by `python -m tools.torchmil_page` from the code.

[torchmil](https://torchmil.readthedocs.io) has many published models. {count} of them are methods here, under the same
folds, stopping, ensembles and statistics as ours:

<!-- not run: installs torchmil -->
```bash
pip install -c constraints.txt '.[torchmil]'     # in the source folder
```

```bash
jigsawmil compare --labels labels.csv --features features --methods abmil,torchmil:CLAM_SB,torchmil:PatchGCN --out run
```

- **Defaults** are torchmil's, except the options in the column *set here*, which follow the model's paper or its
  authors' code. `width` is a linear layer with ReLU before the model, `dropout` the dropout after it. Each option of
  torchmil's class can be given: `--option att_dim=64`, in a study file `options = {{att_dim = 64}}`.
- **Adjacency** is our sparse graph without self-loops, normalised by degree as torchmil's data sets do it. Each patch
  is joined to the 8 around it (`k = 8`), unless you give another `--k`.
- **Loss** is the sum of the model's own losses in classification, as torchmil's trainer has it; in regression and
  survival it is the task's (`--loss`). Training stops by the task's loss of the validation patients, as for every
  method.
- **Maps** show attention if the model gives one for each patch, and input attribution otherwise.
- **Tasks:** torchmil's models give one logit, so they take binary tasks. Those without a loss beside the cross-entropy
  take regression and survival with `--loss cox`, too: {plain}.
  Other tasks are refused before anything runs.
- The adapter is one file of {lines} lines, `nn/torchmil_models.py`. The table that this page shows is a second file of
  {table} lines, `nn/torchmil_table.py`.

| method | graph | positions | set here | losses beside the cross-entropy | map | remarks |
| --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
Not offered:

| model | reason |
| --- | --- |
"""


def row(name: str, about: TorchmilModel) -> str:
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in about.defaults.items())
    yes = {True: "yes", False: ""}
    shown = "attention" if about.attention else "attribution"
    cells = [f"`torchmil:{name}`", yes[about.graph], yes[about.graph or about.positions], options, about.loss, shown]
    return f"| {' | '.join([*cells, about.note])} |\n"


def page() -> str:
    files = {"lines": torchmil_models, "table": torchmil_table}
    facts = {name: len(Path(str(file.__file__)).read_text().splitlines()) for name, file in files.items()}
    plain = ", ".join(name for name, about in TORCHMIL.items() if not about.loss)
    head = HEAD.format(count=len(TORCHMIL), plain=plain, **facts)
    rows = [row(name, about) for name, about in TORCHMIL.items()]
    refused = [f"| {name} | {reason} |\n" for name, reason in REFUSED.items()]
    return head + "".join(rows) + TAIL + "".join(refused)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
