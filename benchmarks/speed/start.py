"""How long the program takes to start, beside an import of torch in the same run.

python -m benchmarks.speed.start        # writes benchmarks/results/start.json
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from jigsawmil.synthetic.phantom import make_phantom, write_phantom

RESULT = Path(__file__).parents[1] / "results" / "start.json"
REPEATS = 5
PROGRAM = "from jigsawmil.cli import main; main()"


def seconds(*words: str) -> float:
    """Median wall-clock time of a fresh Python process."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", *words], capture_output=True)
        taken.append(time.perf_counter() - began)
    return round(median(taken), 3)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cohort = write_phantom(make_phantom("composition", slides=20, dim=16, patches=50), Path(folder) / "cohort")
        given = ("--labels", str(cohort / "labels.csv"), "--features", str(cohort / "features"))
        found = {
            "python": seconds("pass"),
            "import torch": seconds("import torch"),
            "jigsawmil --help": seconds(PROGRAM, "--help"),
            "jigsawmil --nope": seconds(PROGRAM, "--nope"),
            "jigsawmil check --nope": seconds(PROGRAM, "check", "--nope"),
            "jigsawmil check (20 slides)": seconds(PROGRAM, "check", *given),
            "jigsawmil compare --help": seconds(PROGRAM, "compare", "--help"),
            "jigsawmil compare --nope": seconds(PROGRAM, "compare", "--nope"),
            "jigsawmil train --help": seconds(PROGRAM, "train", "--help"),
        }
    RESULT.write_text(json.dumps({"repeats": REPEATS, "seconds": found}, indent=2) + "\n", encoding="utf-8")
    print("\n".join(f"{taken:7.3f} s  {name}" for name, taken in found.items()))


if __name__ == "__main__":
    main()
