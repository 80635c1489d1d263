"""Why single trainings memorise, and what helps: 24 small synthetic cohorts with many features.

`python -m benchmarks.evidence.small_cohorts`

**Declared before any of it was run.** Three kinds of phantom, eight cohorts each: the eight runs of a half-fraction
(resolution IV) of four factors at two levels, which are slides to fit on, features, noise and slide effect. One seed
per cohort (SEEDS), none used before in this repository, all reported; 60 other slides test. ARMS change one thing of
`graph-abmil+jigsaw` with default settings; `abmil` and the field's form of it (one layer of 512, gated attention of
384, dropout 0.25) have no graph and belong at 0.5 on `arrangement` and `position`.

**Trainings.** The training patients are dealt out to five members, as `--members 5` does. `default` fits all five,
every other arm the first two: training m has the same seed and holds out the same slides in every arm, so arms are
paired training by training. Each training counts as a single model. `members 5` is the mean logit of the five trainings
of `default`, compared with their mean AUROC.

**What is reported.** Mean AUROC; its difference to `default` with Student's 95 % interval over the 24 cohorts (a
cohort's trainings are averaged first) and p, Holm-adjusted over the arms; the lowest cohort and the lowest training;
luck: the standard deviation over trainings within a cohort (root of the mean variance), with a bootstrap interval over
cohorts; and how many trainings memorised: MIL loss of the last epoch below 0.05, AUROC of the test slides below 0.7.
An arm `helps` or `hurts` by the rule of `jigsaw_cases.py`.

**Traces.** Training 0 of `default` is run again on every cohort, and the test slides are scored after every epoch. No
epoch, arm or setting is chosen by that; it shows how much of a low AUROC is a matter of the epoch that was kept.

**Difficulty** was chosen by `default` alone, on seeds 901 to 903, before anything else was run: with about 120 patches
per slide it stayed near chance on `arrangement` and `position` whatever the noise, with 200 it lay between 0.5 and 0.9.
So slides are small, 50 neighbours are a quarter of one, and what is said of k = 8 holds for such slides. To measure the
time, three cohorts of seed 900 were fitted with `default`, k = 8 and gated ABMIL, one also with SAGE: k = 8 was better
on two of them, worse on one.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from jigsawmil.nn.model import seeded_model
from jigsawmil.statistics.paired import holm
from jigsawmil.study.job import Worker
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.fit import evaluate, fit
from jigsawmil.train.progress import Epoch
from jigsawmil.train.seeds import fold_seed

from .. import RESULTS, provenance, write
from .holdout import WORK, Cell, commits, holdout_jobs, paired, run_cells, stored
from .jigsaw_cases import judge

COMMAND = "python -m benchmarks.evidence.small_cohorts"
OUT = RESULTS / "small_cohorts.json"
SEEDS = {"composition": range(5101, 5109), "arrangement": range(5201, 5209), "position": range(5301, 5309)}
NOISE = {"composition": (2.0, 3.0), "arrangement": (0.5, 1.0), "position": (0.5, 1.0)}
KNOBS: dict[str, dict[str, float]] = {"composition": {}, "arrangement": {}, "position": {}}
LEVELS: dict[str, tuple[float, float]] = {"slides": (40, 60), "dim": (512, 768), "noise": (0, 1), "effect": (0.0, 0.3)}
RUNS = tuple((a, b, c, (a + b + c) % 2) for c, b, a in product((0, 1), repeat=3))  # (level of each factor,)
TEST, PATCHES = 60, 200
TRAININGS, MEMBERS = 2, 5
DEFAULT, ENSEMBLE = "default", "members 5"
ARMS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "dropout 0.25": {"dropout": 0.25},
    "input_dropout 0.25": {"input_dropout": 0.25},
    "patch_dropout 0.5": {"patch_dropout": 0.5},
    "edge_dropout 0.5": {"edge_dropout": 0.5},
    "weight_decay 0.01": {"weight_decay": 0.01},
    "hidden 64": {"hidden": 64},
    "batch_size 4, lr 3e-4": {"batch_size": 4, "lr": 3e-4},
    "patience 20": {"patience": 20},
    "k 8": {"k": 8},
    "conv sage": {"conv": "sage"},
    "abmil": {"method": "abmil"},
    "abmil, gated 512-384, dropout 0.25": {
        "method": "abmil", "layers": 1, "hidden": 512, "attention_dim": 384, "gated": True, "dropout": 0.25,
    },
}  # fmt: skip
COMMON = {"method": "graph-abmil+jigsaw", "members": MEMBERS}
MEMORISED = {"mil_below": 0.05, "auc_below": 0.7}


def cell(kind: str, run: int) -> Cell:
    """run: a row of RUNS."""
    slides, dim, noise, effect = (LEVELS[name][level] for name, level in zip(LEVELS, RUNS[run], strict=True))
    spec = phantom_spec(
        kind,
        seed=SEEDS[kind][run],
        slides=int(slides) + TEST,
        patches=PATCHES,
        dim=int(dim),
        noise=NOISE[kind][int(noise)],
        slide_effect=effect,
        two_slides=0.0,
        **KNOBS[kind],
    )
    variants = {
        name: {**COMMON, **own, "trainings": MEMBERS if name == DEFAULT else TRAININGS} for name, own in ARMS.items()
    }
    return Cell(name=f"{kind}, {spec.seed}", spec=spec, train=int(slides), test=TEST, variants=variants)


def watch(cell: Cell, folder: Path) -> dict[str, Any]:
    """Training 0 of `default` again, with the AUROC of the test slides after every epoch, which chooses nothing."""
    cell = Cell(name=cell.name, spec=cell.spec, train=cell.train, test=cell.test, variants={DEFAULT: COMMON})
    found = stored(cell, folder)
    if found is not None:
        return found
    work = folder / cell.name
    if not (work / "cohort" / "labels.csv").exists():
        write_phantom(phantom_slides(cell.spec), work / "cohort")
    job = holdout_jobs(cell, work)[0]
    feed, settings = Worker().feed(job), job.settings
    cohort, config = feed.cohort, settings.train
    seed = fold_seed(job.seed, job.fold, job.member)
    model = seeded_model(settings.model_config(cohort.dim, cohort.task, len(cohort.classes)), seed)
    train, val, test = (feed.bags_of(part) for part in (job.split.train, job.split.val, job.split.test))
    rows: list[dict[str, float]] = []

    def look(epoch: Epoch) -> None:
        loss, area = evaluate(model, feed, test, config)
        held = {"val_loss": epoch.val_loss, "val_auc": epoch.val_auc}
        rows.append({"mil": epoch.mil, **held, "test_loss": loss, "test_auc": area})

    progress = fit(model, feed, train, val, config, seed=seed, on_epoch=look)
    trace = {name: [round(row[name], 4) for row in rows] for name in rows[0]}
    outcome = {"asked": cell.asked, "kept": progress.best, **trace}
    write(folder / f"{cell.name}.json", json.dumps(outcome))
    shutil.rmtree(work)
    return outcome


def luck(areas: np.ndarray) -> dict[str, float]:
    """Standard deviation over trainings within a cohort, 95 % bootstrap interval over cohorts. (cohort, training)"""
    variance = areas.var(axis=1, ddof=1)
    drawn = np.random.default_rng(0).integers(len(variance), size=(2000, len(variance)))
    low, high = np.quantile(np.sqrt(variance[drawn].mean(axis=1)), (0.025, 0.975))
    return {"std": float(np.sqrt(variance.mean())), "low": float(low), "high": float(high)}


def row_of(arm: str, outcomes: Sequence[Mapping[str, Any]], trainings: int) -> dict[str, Any]:
    """One arm's figures, of its first so many trainings. outcomes: of the cohorts, in the order of `cells`."""
    each = [outcome["variants"][arm]["each"][:trainings] for outcome in outcomes]
    areas = np.array([[one["auc"] for one in own] for own in each])  # (cohort, training)
    every = [one for own in each for one in own]
    memorised = [one["mil"][-1] < MEMORISED["mil_below"] and one["auc"] < MEMORISED["auc_below"] for one in every]
    return {
        "arm": arm,
        "settings": ARMS[arm],
        "auc": areas.round(4).tolist(),
        "mean": float(areas.mean()),
        "lowest_cohort": float(areas.mean(axis=1).min()),
        "lowest_training": float(areas.min()),
        "luck": luck(areas),
        "memorised": int(sum(memorised)),
        "trainings": len(every),
        "seconds": float(np.mean([one["seconds"] for one in every])),
    }


def summarise(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of the arms, `default` by all its trainings, and the ensemble; gains are paired within cohorts."""
    rows = [row_of(arm, outcomes, TRAININGS) for arm in ARMS]
    base = np.mean(rows[0]["auc"], axis=1)
    for row in rows[1:]:
        row["gain"] = paired(np.mean(row["auc"], axis=1) - base)
    every = {**row_of(DEFAULT, outcomes, MEMBERS), "arm": f"{DEFAULT}, {MEMBERS} trainings"}
    joint = np.array([outcome["variants"][DEFAULT]["auc"] for outcome in outcomes])
    ensemble = {"arm": ENSEMBLE, "auc": joint.round(4).tolist(), "mean": float(joint.mean())}
    ensemble |= {"lowest_cohort": float(joint.min()), "gain": paired(joint - np.mean(every["auc"], axis=1))}
    judged = [*rows[1:], ensemble]
    for row, p in zip(judged, holm([row["gain"]["p"] for row in judged]), strict=True):
        row["gain"] |= {"p_holm": float(p), "verdict": judge(row["gain"])}
    return {"rows": rows, "every": every, "ensemble": ensemble}


def by_factor(every: Mapping[str, Any], ensemble: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Mean AUROC and luck of `default`, and the mean of its ensemble, at both levels of each factor."""
    areas, joint = np.array(every["auc"]), np.array(ensemble["auc"])
    level = np.tile(np.array(RUNS), (len(SEEDS), 1))  # (cohort, factor)
    found = []
    for number, name in enumerate(LEVELS):
        for at in (0, 1):
            own = level[:, number] == at
            row: dict[str, Any] = {"factor": name, "level": at, "mean": float(areas[own].mean())}
            found.append({**row, "luck": luck(areas[own]), "ensemble": float(joint[own].mean())})
    return found


def traces(watched: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Test AUROC of the epoch kept, of the last one and of the best one, which only the test slides could name."""
    areas = [np.array(one["test_auc"]) for one in watched]
    kept = np.array([area[one["kept"] - 1] for area, one in zip(areas, watched, strict=True)])
    last, best = (np.array([choose(area) for area in areas]) for choose in (lambda a: a[-1], np.max))
    loss = np.array([one["mil"][-1] for one in watched])
    low = kept < MEMORISED["auc_below"]
    return {
        "kept": float(kept.mean()),
        "last_minus_kept": paired(last - kept),
        "best_minus_kept": paired(best - kept),
        "best_of_low": [round(float(value), 4) for value in best[low]],
        "kept_of_low": [round(float(value), 4) for value in kept[low]],
        "mil_last": {
            name: float(loss[own].mean()) if own.any() else None for name, own in (("low", low), ("other", ~low))
        },
        "each": [dict(one) for one in watched],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="What helps on small cohorts? Arms over 24 phantoms.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "small_cohorts", help="finished cells stay here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    cells = [cell(kind, run) for kind in SEEDS for run in range(len(RUNS))]
    in_turn = [cell(kind, run) for run in range(len(RUNS)) for kind in SEEDS]
    outcomes = run_cells(in_turn, options.work, options.processes)
    watched = {each.name: watch(each, options.work / "watched") for each in in_turn}
    summary = summarise([outcomes[each.name] for each in cells])
    fits = [variant for outcome in outcomes.values() for variant in outcome["variants"].values()]
    result = {
        "command": COMMAND,
        "cohorts": [
            {"kind": each.spec.kind, "seed": each.spec.seed, "slides": each.train, "dim": each.spec.dim}
            | {"noise": each.spec.noise, "slide_effect": each.spec.slide_effect}
            for each in cells
        ],
        "levels": LEVELS,
        "noise": NOISE,
        "knobs": KNOBS,
        "patches": PATCHES,
        "test_slides": TEST,
        "memorised": MEMORISED,
        **summary,
        "factors": by_factor(summary["every"], summary["ensemble"]),
        "traces": traces([watched[each.name] for each in cells]),
        "fits": sum(len(fit["each"]) for fit in fits),
        "fit_seconds": round(sum(fit["seconds"] for fit in fits)),
        **provenance(),
        "commits": commits(outcomes),
    }
    write(options.out, json.dumps(result, indent=1))
    for row in (*summary["rows"], summary["every"], summary["ensemble"]):
        gain = row.get("gain")
        against = f"; {gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}] {gain['verdict']}" if gain else ""
        print(f"{row['arm']}: {row['mean']:.3f}, lowest cohort {row['lowest_cohort']:.3f}{against}")
    print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
