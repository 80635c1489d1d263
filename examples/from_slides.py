"""From slides to an answer: the whole way, in Python.

    python examples/from_slides.py                                    # 20 slides, about 2,000 tiles
    python examples/from_slides.py --slides 40 --kind arrangement

The slides are painted here, so nothing has to be downloaded, and what they hide is known. With slides of your own leave
`paint_cohort` out, give your folder and your label table, and an encoder that knows tissue (`jigsawmil encoders`).
"""

import argparse
from collections import Counter
from pathlib import Path

from jigsawmil import Cohort, Settings, Study, predict_slides, run_study, train_model
from jigsawmil.slides import extract_slides
from jigsawmil.study import cohort_spec
from jigsawmil.synthetic import paint_cohort

METHODS = ("abmil", "graph-abmil+jigsaw")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("from-slides"), help="folder to write to")
    parser.add_argument("--slides", type=int, default=20)
    parser.add_argument("--patches", type=int, default=100, help="median number of tiles a slide")
    parser.add_argument("--kind", default="composition", help="what the label depends on: composition or arrangement")
    parser.add_argument("--encoder", default="efficientnet-lite0", help="a name, or a TorchScript or ONNX file")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    whole_way(**vars(options))


def whole_way(out: Path, slides: int, patches: int, kind: str, encoder: str, folds: int, epochs: int) -> None:
    # Slides to learn from, and two that no training will see
    painted, new = out / "painted", out / "new"
    if not painted.exists():
        print(f"Painting {slides} slides, and two new ones")
        paint_cohort(painted, slides, kind, patches=patches)
        paint_cohort(new, 2, kind, patches=patches, seed=1)

    # Tissue, tiles, features: once; what is done is not done again
    found = extract_slides(painted / "slides", out / "features", encoder)
    counts = Counter(one.status for one in found)
    print(f"{len(found)} slides: {', '.join(f'{count} {status}' for status, count in counts.items())}")

    # Is a method that knows where patches lie better? Cross-validated, so that every slide is predicted unseen
    cohort = {"labels": painted / "labels.csv", "features": out / "features"}
    training = {"k": 8, "epochs": epochs, "patience": 0, "lr": 0.0005}  # 50 neighbours would be half a slide
    variants = {method: Settings.from_flat({"method": method, **training}) for method in METHODS}
    run = run_study(Study(cohorts={"painted": cohort_spec(cohort)}, variants=variants, folds=folds), out / "run")
    print(run.summary.to_string(index=False))

    # One model on all slides, and its answer to new ones: from slide to prediction and map
    if not (out / "model").exists():
        train_model(Cohort.read(**cohort), out / "model", variants[METHODS[1]])
    own = {"weights": Path(encoder)} if Path(encoder).is_file() else {}
    answers = predict_slides(out / "model", new / "slides", out=out / "predictions.csv", heatmap=out / "maps", **own)
    print(answers.table.to_string(index=False))


if __name__ == "__main__":
    main()
