"""Made-up studies: five methods, three folds, some patients with two slides; and the run folders they would leave."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from safetensors.numpy import save_file

from jigsawmil.nn.model import METHODS
from jigsawmil.report.html import write_report
from jigsawmil.study.compare import compare_methods, summarise

SKILL = {"abmil": 0.1, "abmil+jigsaw": 0.4, "graph-mil": 1.6, "graph-abmil": 2.3, "graph-abmil+jigsaw": 3.2}
CLASSES = ["mixed", "segregated"]
GRADES = ["low", "middle", "high"]


def _slides(seed: int) -> pd.DataFrame:
    patient = np.concatenate([np.arange(80), np.arange(0, 80, 4)])
    return pd.DataFrame(
        {
            "fold": np.random.default_rng([seed, 9]).permutation(80)[patient] % 3,
            "slide_id": [f"{i:04}" for i in range(len(patient))],
            "patient_id": [f"P{i:03}" for i in patient],
            "number": patient,
        }
    )


@pytest.fixture(scope="session")
def predictions() -> Callable[..., pd.DataFrame]:
    def make(skill: dict[str, float] = SKILL, seeds: int = 1, noise: int = 0) -> pd.DataFrame:
        """Binary predictions; `noise` seeds the scores and leaves slides, labels and folds alone."""
        rng, slides = np.random.default_rng(noise), _slides(0)
        positive = slides["number"].to_numpy() % 2
        parts = []
        for method, strength in skill.items():
            for seed in range(seeds):
                z = strength * (positive - 0.5) + rng.normal(size=len(slides))
                probability = np.round(1 / (1 + np.exp(-z)), 2)  # with ties
                columns = {"label": np.array(CLASSES)[positive], "probability": probability}
                parts.append(slides.drop(columns="number").assign(method=method, seed=seed, **columns))
        return pd.concat(parts, ignore_index=True)

    return make


@pytest.fixture(scope="session")
def graded() -> pd.DataFrame:
    """Predictions of three grades."""
    rng, slides = np.random.default_rng(1), _slides(0)
    grade = slides["number"].to_numpy() // 2 % 3
    parts = []
    for method, strength in SKILL.items():
        z = strength * np.eye(3)[grade] + rng.normal(size=(len(slides), 3))
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        columns = {f"probability_{name}": p[:, i] for i, name in enumerate(GRADES)}
        parts.append(
            slides.drop(columns="number").assign(method=method, seed=0, label=np.array(GRADES)[grade], **columns)
        )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    def make(
        run: Path,
        tables: Mapping[str, pd.DataFrame],
        classes: Mapping[str, Sequence[str]],
        task: str = "binary",
        *,
        control: Mapping[str, pd.DataFrame] | None = None,
        attention: bool = False,
        **settings: Any,
    ) -> Path:
        """A run folder as a study leaves it. tables: the predictions of each cohort; methods are variants, too."""
        write_tables(run, tables, classes, task)
        if control:
            write_tables(run / "control", control, classes, task)
        for cohort, table in tables.items():
            for key, rows in table.groupby(["method", "seed", "fold"]):
                write_job(run, cohort, *key, rows, attention, settings)
        jobs = len(list(run.glob("jobs/*/*/*")))
        source = {"labels": "/data/labels.csv", "features": "/data/features", "options": []}
        kind = {"task": task, "dim": 32, "encoder": "uni", "notes": ["3 slides are small."]}
        about = {"jobs": jobs, "failed": {}, "classes": {name: list(of) for name, of in classes.items()}}
        about |= {"origin": ORIGIN, "cohorts": {name: {**source, **kind} for name in tables}}
        (run / "study.json").write_text(json.dumps({"format": 1, **about}))
        slides = [t.drop_duplicates("slide_id").assign(cohort=name) for name, t in tables.items()]
        table = pd.concat(slides)[["cohort", "slide_id", "patient_id", "label"]]
        table.assign(site="", patches=12, features="").to_csv(run / "slides.csv", index=False)
        pd.DataFrame([], columns=["cohort", "name", "reason"]).to_csv(run / "left_out.csv", index=False)
        return run

    return make


@pytest.fixture(scope="session")
def whole(predictions: Callable[..., pd.DataFrame], make_run: Callable[..., Path], tmp_path_factory: Any) -> Path:
    """A run of five methods, a control without skill, attention kept. Not to be changed."""
    shuffled = predictions(dict.fromkeys(SKILL, 0.1), noise=5)
    run = tmp_path_factory.mktemp("report") / "run"
    return make_run(run, {"colon": predictions()}, {"colon": CLASSES}, control={"colon": shuffled}, attention=True)


@pytest.fixture(scope="session")
def drawn(whole: Path, tmp_path_factory: Any) -> Path:
    """The report of that run, with its pictures."""
    return write_report(whole, tmp_path_factory.mktemp("report") / "report.html")


ORIGIN = {"jigsawmil": "0.1", "commit": "abc", "python": "3.11", "torch": "2", "machine": "here", "threads": 1}


def write_tables(
    run: Path, tables: Mapping[str, pd.DataFrame], classes: Mapping[str, Sequence[str]], task: str
) -> None:
    run.mkdir(parents=True, exist_ok=True)
    several = len(tables) > 1
    made: dict[str, list[pd.DataFrame]] = {"predictions": [], "summary": [], "comparisons": []}
    for name, table in tables.items():
        made["predictions"].append(table.assign(cohort=name) if several else table)
        made["summary"].append(summarise(table, classes[name], task, resamples=20).assign(cohort=name))
        made["comparisons"].append(compare_methods(table, classes[name]).assign(cohort=name))
    for file, parts in made.items():
        pd.concat(parts).to_csv(run / f"{file}.csv", index=False)


def write_job(
    run: Path,
    cohort: str,
    method: str,
    seed: int,
    fold: int,
    rows: pd.DataFrame,
    attention: bool,
    settings: Mapping[str, Any],
) -> None:
    folder = run / "jobs" / cohort / method / f"seed{seed}-fold{fold}"
    folder.mkdir(parents=True)
    epochs = np.arange(1, 5)
    jigsaw = np.where("jigsaw" in method, 4 - 0.1 * epochs, 0)
    trace = {"epoch": epochs, "mil": 0.7 - 0.02 * epochs, "jigsaw": jigsaw, "lambda_": 0.2 + 0.01 * epochs}
    trace |= {"val_loss": 0.7, "val_auc": 0.6 + 0.02 * epochs, "seconds": 0.1, "kept": epochs == 3}
    pd.DataFrame(trace).to_csv(folder / "trace.csv", index=False)
    spec = {"cohort": "0", "folds": "0", "seed": seed, "shuffled": False}
    spec |= {"method": method if method in METHODS else "graph-abmil", "k": 8, **settings}
    job = {"name": f"{cohort} {method} seed {seed} fold {fold}", "spec": spec, "best_epoch": 3, "variant": method}
    job |= {"fold": fold, "seconds": {"fit": 40.0, "predict": 2.0, "epochs": 4}, "origin": ORIGIN}
    (folder / "job.json").write_text(json.dumps(job))
    if attention:
        number = np.arange(12)
        places = np.stack([number % 4, number // 4], 1) * 512.0
        kept = {slide: (number + 1).astype(np.float32) for slide in rows["slide_id"]}
        save_file(kept | {f"{slide}/coords": places for slide in kept}, folder / "attention.safetensors")


@pytest.fixture(scope="session")
def legible() -> Callable[[Figure], None]:
    def assert_legible(figure: Figure) -> None:
        """Every text lies within the picture, and no two overlap."""
        figure.draw_without_rendering()
        unseen = set()  # ticks beyond the ends of their axis are kept but not drawn
        for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
            low, high = sorted(axis.get_view_interval())
            unseen |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
        seen = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in unseen]
        boxes = [(t.get_text(), t.get_window_extent()) for t in seen]
        page = figure.bbox.padded(1)
        for name, box in boxes:
            inside = page.x0 <= box.x0 and page.y0 <= box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1
            assert inside, f"{name!r} leaves the picture"
        for (one, a), (other, b) in combinations(boxes, 2):
            apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
            assert apart, f"{one!r} overlaps {other!r}"

    return assert_legible
