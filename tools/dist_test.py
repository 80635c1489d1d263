"""Build the sdist, the wheel from it, and try the wheel in an environment of its own: `make dist-test`.

    python -m tools.dist_test             # with the tested versions of constraints.txt
    python -m tools.dist_test --newest    # with the newest versions of all but torch, and the quick tests on them

The wheel and the sdist stay in dist/.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import ROOT

FILES = (  # what an installed program needs beside its code
    "jigsawmil/py.typed",
    "jigsawmil/report/report.css",
    *(f"jigsawmil/viewer/{name}" for name in ("page.css", "page.html", "page.js", "lattice.js", "stage.js")),
)
QUICK = ("tests/bags", "tests/cohort", "tests/nn", "tests/statistics", "tests/tasks", "tests/test_graph.py")
TRIED = """
import jigsawmil, jigsawmil.viewer.page, pathlib
home = pathlib.Path(jigsawmil.__file__).parent.parent
assert "site-packages" in str(home), home
missing = [name for name in {files} if not (home / name).is_file()]
assert not missing, missing
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--newest", action="store_true", help="without constraints.txt, but for torch; run quick tests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = build(work)
        python = installed(wheel, work, newest=options.newest)
        program = python.with_name("jigsawmil")
        try_out(python, program, work)
        if options.newest:
            run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK, folder=ROOT)
    print(f"{wheel.name} works in a clean environment{' of the newest versions' * options.newest}.")


def build(work: Path) -> Path:
    """The sdist from this checkout and the wheel from the sdist, into dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT, folder=work)
    (wheel,), (sdist,) = (list((ROOT / "dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    versions = {re.match(r"jigsawmil-(.+?)(-py3|\.tar)", path.name)[1] for path in (wheel, sdist)}  # type: ignore[index]
    assert len(versions) == 1, versions
    return wheel


def installed(wheel: Path, work: Path, *, newest: bool) -> Path:
    """The Python of a new environment that has the wheel and nothing of this checkout."""
    run(sys.executable, "-m", "venv", work / "venv", folder=work)
    python = work / "venv" / "bin" / "python"
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    (work / "torch.txt").write_text(torch + "\n")
    wanted = f"jigsawmil[dev] @ {wheel.as_uri()}" if newest else str(wheel)
    constraints = work / "torch.txt" if newest else ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wanted, folder=work)
    return python


def try_out(python: Path, program: Path, work: Path) -> None:
    """The files are there, and the program goes from a synthetic cohort to a report."""
    run(python, "-c", TRIED.format(files=FILES), folder=work)
    small = ("--slides", "12", "--patches", "20", "--dim", "16")
    cohort = ("--labels", "cohort/labels.csv", "--features", "cohort/features")
    quick = ("--methods", "abmil", "--folds", "2", "--epochs", "1", "--patience", "0", "--device", "cpu")
    for words in (
        ("--version",),
        ("phantom", "composition", *small, "--out", "cohort"),
        ("compare", *cohort, *quick, "--out", "run"),
        ("report", "run"),
        ("view", "--help"),
    ):
        run(program, *words, folder=work)
    assert "<html" in (work / "run" / "report.html").read_text(encoding="utf-8")


def run(*words: object, folder: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(word) for word in words], cwd=folder, env=kept, check=True)


if __name__ == "__main__":
    main()
