"""Single models, ensembles and committees, cross-validated: `python -m benchmarks.evidence.ensembles --part develop`.

**Declared before any of it was run.**

Cohorts. `develop`: four synthetic cohorts of each kind (SEEDS), and the CODEX cells of 35 patients if they are there.
The default is chosen on these by the rules below. `report`: four others of each kind, drawn and run once, after the
default stood. All are reported, none was used before in this repository.

Arms. Single models of four methods (`abmil`, `graph-abmil`, `graph-abmil+jigsaw`, `graph-abmil` with `kinds = 8`);
`members = 5` of `graph-abmil+jigsaw`; `committee` (one model of each of its five kinds); `committee` with
`members = 3`, so that each kind holds out every training patient once. All with the default settings, three folds.

From the logits of the members, without training again:
- `mean of probabilities` beside the mean of logits, for all three ensembles;
- `stacked`: the three members of each kind of the large committee are averaged, and the five kinds are weighted. The
  weights lie on the simplex and minimise the log loss of the held-out training patients (each predicted by the member
  that held it out) plus (w - 1/5)^2 summed over kinds: STRENGTH = 1 nat per unit, strong shrinkage towards equal.

Rules, written before looking.
1. Weights: `stacked` replaces equal weights only if its mean gain in AUROC over all development cohorts exceeds its
   standard error, and no kind of cohort loses more than 0.005.
2. Default: of single `graph-abmil+jigsaw`, five of it, and the committees, the one with the highest mean over kinds of
   cohort of the AUROC (mean of folds, mean of cohorts). Of those within 0.005 of it, the one with the fewest trainings.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from scipy.optimize import minimize

from jigsawmil.bags.formats import write_bag
from jigsawmil.cli.progress import StudyProgress
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.statistics.metrics import auc
from jigsawmil.study.job import LOGIT
from jigsawmil.study.plan import prepare
from jigsawmil.study.run import Run, RunJob
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.train.apply import apply_groups
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.ensemble import splits_of_members
from jigsawmil.train.settings import Settings

from .. import RESULTS, ROOT, provenance, write
from .codex_data import read_cells
from .holdout import WORK, paired

COMMAND = "python -m benchmarks.evidence.ensembles"
CODEX = ROOT.parent / "shared" / "data" / "crc_codex" / "cells.csv.gz"
SEEDS = {
    "develop": {"composition": range(5101, 5105), "arrangement": range(5201, 5205), "position": range(5301, 5305)},
    "report": {"composition": range(6101, 6105), "arrangement": range(6201, 6205), "position": range(6301, 6305)},
}
SHAPE = {"slides": 60, "patches": 200, "dim": 512}
KNOBS: dict[str, dict[str, float]] = {"composition": {"noise": 3.0}, "arrangement": {}, "position": {}}
JIGSAW = "graph-abmil+jigsaw"
ARMS: dict[str, dict[str, Any]] = {
    "abmil": {"method": "abmil"},
    "graph-abmil": {"method": "graph-abmil"},
    JIGSAW: {"method": JIGSAW},
    "kinds": {"method": "graph-abmil", "kinds": 8},
    f"{JIGSAW} x 5": {"method": JIGSAW, "members": 5},
    "committee": {"method": "committee", "members": 1},
    "committee x 3": {"method": "committee", "members": 3},
}
SINGLE = {"members": 1}
STRENGTH = 1.0
FOLDS = 3


def draw(part: str, work: Path) -> dict[str, tuple[str, Path]]:
    """Cohort -> its kind and folder; those that are missing are drawn."""
    found = {}
    for kind, seeds in SEEDS[part].items():
        for seed in seeds:
            name = f"{kind} {seed}"
            folder = work / "cohorts" / name
            if not folder.exists():
                write_phantom(phantom_slides(phantom_spec(kind, seed=seed, **SHAPE, **KNOBS[kind])), folder)
            found[name] = (kind, folder)
    return found


def codex(work: Path) -> Path:
    """The CODEX cells as feature files and a label table."""
    folder = work / "cohorts" / "codex"
    if not (folder / "labels.csv").exists():
        cohort = read_cells(CODEX)
        for index, slide in enumerate(cohort.slides):
            write_bag(cohort.bag(index), folder / "features" / f"{slide.slide_id}.h5")
        rows = [(s.slide_id, s.patient_id, cohort.label_of(s)) for s in cohort.slides]
        table = pd.DataFrame(rows, columns=["slide_id", "patient_id", "label"])
        write(folder / "labels.csv", table.to_csv(index=False))
    return folder


def make_study(folders: Mapping[str, Path], level: str, **options: Any) -> Study:
    variants = {name: Settings.from_flat({**SINGLE, **own, "level": level}) for name, own in ARMS.items()}
    sources = {
        name: cohort_spec({"labels": folder / "labels.csv", "features": folder / "features", **options})
        for name, folder in folders.items()
    }
    return Study(cohorts=sources, variants=variants, folds=FOLDS)


def member_logits(jobs: Sequence[RunJob]) -> pd.DataFrame:
    """(case, member): logits of the test cases."""
    tables = [pd.read_csv(job.files.predictions, dtype={"slide_id": str}).set_index("slide_id") for job in jobs]
    return pd.concat([table[f"{LOGIT}0"] for table in tables], axis=1, keys=[job.member for job in jobs])


def held_out(jobs: Sequence[RunJob], settings: Settings, cohort: Cohort, fold: Any) -> tuple[np.ndarray, np.ndarray]:
    """Logits (case, kind) of the training cases, each by the member of the kind that held it out; their labels."""
    splits = splits_of_members(cohort, fold, settings, seed=0)
    slides = {slide.slide_id: slide for slide in cohort.slides}
    rows: dict[str, dict[int, float]] = {}
    labels: dict[str, int] = {}
    for job in jobs:
        model, card = load_model(job.folder)
        assert job.member is not None
        kind = job.member // settings.members
        groups: dict[str, list[Path]] = {}
        for slide_id in splits[job.member].val:
            slide = slides[slide_id]
            case = slide.patient_id if settings.level == "patient" else slide_id
            assert slide.path is not None
            groups.setdefault(case, []).append(slide.path)
            labels[case] = slide.label
        for seen in apply_groups(model, card, list(groups.items()), device="cpu"):
            rows.setdefault(seen.name, {})[kind] = float(seen.logits[0])
    whole = [case for case, own in rows.items() if len(own) == len(settings.each_member()) // settings.members]
    return np.array([[rows[case][k] for k in sorted(rows[case])] for case in whole]), np.array(
        [labels[c] for c in whole]
    )


def stack(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of the kinds: on the simplex, shrunk towards equal."""
    equal = np.full(logits.shape[1], 1 / logits.shape[1])
    sign = 2 * labels - 1

    def loss(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -sign * (logits @ w)).mean() + STRENGTH * ((w - equal) ** 2).sum())

    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    return minimize(loss, equal, bounds=[(0, 1)] * len(equal), constraints=[simplex], method="SLSQP").x


def derived(run: Run, name: str, cohort: Cohort, folds: Sequence[Any]) -> dict[str, list[float]]:
    """AUROC per fold of what can be had from the members' logits without training again."""
    found: dict[str, list[float]] = {}
    for number, fold in enumerate(folds):
        for arm, own in ARMS.items():
            jobs = [job for job in run.jobs if (job.cohort, job.variant, job.fold) == (name, arm, number)]
            if len(jobs) == 1:
                continue
            jobs.sort(key=lambda job: job.member or 0)
            logits = member_logits(jobs)
            table = run.predictions
            rows = table[(table["cohort"] == name) & (table["variant"] == arm) & (table["fold"] == number)]
            truth = rows.set_index("slide_id")["label"].reindex(logits.index) == cohort.classes[-1]
            found.setdefault(f"{arm}, mean of probabilities", []).append(
                auc(truth, (1 / (1 + np.exp(-logits))).mean(1))
            )
            if arm == "committee x 3":
                settings = Settings.from_flat({**own, "level": run.settings[arm]["level"]})
                weights = stack(*held_out(jobs, settings, cohort, fold))
                kinds = logits.T.groupby(np.array(logits.columns) // settings.members).mean().T
                found.setdefault("committee x 3, stacked", []).append(auc(truth, kinds.to_numpy() @ weights))
                found.setdefault("weights", []).append([round(float(w), 3) for w in weights])
    return found


def areas(run: Run, name: str) -> dict[str, list[float]]:
    """AUROC per fold of every arm, in the order of folds."""
    table, positive = run.predictions, run.classes[name][-1]
    found: dict[str, list[float]] = {}
    for (arm, _), rows in table[table["cohort"] == name].groupby(["variant", "fold"], sort=True):
        found.setdefault(str(arm), []).append(auc(rows["label"] == positive, rows["probability"]))
    return found


def trainings(arm: str) -> int:
    """How many models an arm trains per fold."""
    return len(Settings.from_flat({**SINGLE, **ARMS[arm.split(",")[0]]}).each_member())


def judge(cohorts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Means of each kind of cohort, and what the two rules say."""
    kinds = list(dict.fromkeys(own["kind"] for own in cohorts.values()))
    arms = list(next(iter(cohorts.values()))["auroc"])
    mean = {name: {arm: float(np.mean(own["auroc"][arm])) for arm in arms} for name, own in cohorts.items()}
    by_kind = {
        arm: {
            kind: float(np.mean([mean[n][arm] for n, own in cohorts.items() if own["kind"] == kind])) for kind in kinds
        }
        for arm in arms
    }
    overall = {arm: float(np.mean(list(values.values()))) for arm, values in by_kind.items()}
    equal, stacked = "committee x 3", "committee x 3, stacked"
    gains = [own[stacked] - own[equal] for own in mean.values()]
    gain, error = paired(gains), float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
    losses = {kind: by_kind[stacked][kind] - by_kind[equal][kind] for kind in kinds}
    weights = stacked if gain["mean"] > error and min(losses.values()) > -0.005 else equal
    candidates = [JIGSAW, f"{JIGSAW} x 5", "committee", weights]
    best = max(overall[arm] for arm in candidates)
    default = min((arm for arm in candidates if overall[arm] > best - 0.005), key=trainings)
    spread = {arm: float(np.mean([np.std(own["auroc"][arm], ddof=1) for own in cohorts.values()])) for arm in arms}
    worst = {arm: float(min(min(own["auroc"][arm]) for own in cohorts.values())) for arm in arms}
    return {
        "by_kind": by_kind, "overall": overall, "std_over_folds": spread, "worst_fold": worst,
        "stacking": {**gain, "by_kind": losses}, "weights": weights, "default": default,
        "trainings": {arm: trainings(arm) for arm in arms},
    }  # fmt: skip


def run_all(study: Study, folder: Path, processes: int) -> Run:
    with StudyProgress(Console()) as progress:
        run = cross_validate(study, folder, processes=processes, listen=progress, on_plan=progress.plan)
    if run.failed:
        raise SystemExit(f"{len(run.failed)} jobs failed; nothing is written. Run the same command again.")
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Single models, ensembles and committees.")
    parser.add_argument("--part", choices=SEEDS, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK / "ensembles", help="what is done stays here")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    work = options.work / options.part
    drawn = draw(options.part, work)
    studies = {"run": make_study({name: folder for name, (_, folder) in drawn.items()}, "slide")}
    kinds = {name: kind for name, (kind, _) in drawn.items()}
    if options.part == "develop" and CODEX.exists():
        studies["codex"] = make_study({"codex": codex(work)}, "patient", positive="DII")
        kinds["codex"] = "codex"
    found: dict[str, dict[str, Any]] = {}
    for name, study in studies.items():
        run = run_all(study, work / name, options.processes)
        cohorts, folds = prepare(study)
        for cohort in run.cohorts:
            more = derived(run, cohort, cohorts[cohort], folds[cohort, 0])
            weights = more.pop("weights")
            found[cohort] = {"kind": kinds[cohort], "auroc": {**areas(run, cohort), **more}, "weights": weights}
    judged = judge(found)
    out = options.out or RESULTS / f"ensembles-{options.part}.json"
    values = {
        "command": f"{COMMAND} --part {options.part}",
        "shape": SHAPE,
        "knobs": KNOBS,
        "arms": ARMS,
        "folds": FOLDS,
    }
    write(out, json.dumps({**values, "cohorts": found, **judged, **provenance()}, indent=1))
    print(pd.DataFrame(judged["by_kind"]).T.assign(overall=judged["overall"], trainings=judged["trainings"]).round(3))
    print(f"Weights: {judged['weights']}. Default: {judged['default']}. Written to {out}")


if __name__ == "__main__":
    main()
