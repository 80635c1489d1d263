"""From slides to an answer: the whole way, by the commands that one would type.

    python examples/from_slides.py                                    # 20 slides, about 2,000 tiles
    python examples/from_slides.py --slides 40 --kind arrangement

The slides are painted here, so nothing has to be downloaded, and what they hide is known. With slides of your own leave
`paint` out, give your folder and your label table, and an encoder that knows tissue (`jigsawmil encoders`).
"""

import argparse
import shlex
import sys
from pathlib import Path

from jigsawmil.cli import app

METHODS = ("abmil", "graph-abmil+jigsaw")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("from-slides"), help="folder to write to")
    parser.add_argument("--slides", type=int, default=20)
    parser.add_argument("--patches", type=int, default=100, help="median number of tiles a slide")
    parser.add_argument("--kind", default="composition", help="what the label says: composition or arrangement")
    parser.add_argument("--encoder", default="efficientnet-lite0", help="a name, or a TorchScript or ONNX file")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    whole_way(**vars(options))


def whole_way(out: Path, slides: int, patches: int, kind: str, encoder: str, folds: int, epochs: int) -> None:
    # Slides to learn from, and two that no training will see
    painted, new = out / "painted", out / "new"
    paint = ["--kind", kind, "--patches", patches]
    if not painted.exists():
        jigsawmil("paint", "--slides", slides, *paint, "--out", painted)
        jigsawmil("paint", "--slides", 2, *paint, "--seed", 1, "--out", new)

    # Tissue, tiles, features: once; what is done is not done again
    jigsawmil("extract", painted / "slides", "--encoder", encoder, "--out", out / "features")

    # Is a method that knows where patches lie better? Cross-validated, so that every slide is predicted unseen
    cohort = ["--labels", painted / "labels.csv", "--features", out / "features"]
    train = ["--k", 8, "--epochs", epochs, "--patience", 0, "--lr", 0.0005]  # 50 neighbours would be half a slide
    jigsawmil("compare", *cohort, "--methods", ",".join(METHODS), "--folds", folds, *train, "--out", out / "run")

    # One model on all slides, and its answer to new ones: from slide to prediction and map
    if not (out / "model").exists():
        jigsawmil("train", *cohort, "--method", METHODS[1], *train, "--out", out / "model")
    own = ["--weights", encoder] if Path(encoder).is_file() else []
    answers = ["--out", out / "predictions.csv", "--heatmap", out / "maps"]
    jigsawmil("predict", out / "model", new / "slides", *own, *answers)


def jigsawmil(*arguments: object) -> None:
    """What typing the command does; the words of its result follow it."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ jigsawmil {shlex.join(words)}", flush=True)
    code = app(words, standalone_mode=False)
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
