"""Single models, ensembles and committees, cross-validated: `python -m benchmarks.evidence.ensembles --part develop`.

**Declared before any of it was run.**

Cohorts. `develop`: three synthetic cohorts of each of four kinds (SEEDS). The default is chosen on these by the rules
below. `report`: four others of each kind, drawn and run once, after the default stood. All are reported, none was used
before in this repository. `few slides` are composition cohorts of 30, so that 20 train: a graph lost most there.

Changed while `develop` ran: CODEX was declared as its thirteenth cohort, but needs two hours of a processor for all
arms. It was stopped after 8 of 87 trainings, all of single models. No AUROC of it had been looked at. Those of the
synthetic cohorts that were done had been; no rule was changed. `rivals.py` has the default beside single models on
CODEX and on real H&E.

Arms. Single models of four methods (`abmil`, `graph-abmil`, `graph-abmil+jigsaw`, `graph-abmil` with `kinds = 8`);
`members = 5` of `graph-abmil+jigsaw`; `committee` (one model of each of its five kinds); `committee` with
`members = 3`, so that each kind holds out every training patient once. All with the default settings, three folds.
`report` has the single models and the arm that became the default.

From the logits of the members, without training again:
- `mean of probabilities` beside the mean of logits, for all ensembles;
- `stacked`: the three members of each kind of the large committee are averaged, and the five kinds are weighted. The
  weights lie on the simplex and minimise the log loss of the held-out training patients (each predicted by the member
  that held it out) plus (w - 1/5)^2 summed over kinds: 1 nat per unit, strong shrinkage towards equal. The library has
  it since, in train/weights.py;
- whether the members disagree more about the cases that an ensemble gets wrong (`disagreement`), all cohorts together.

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

from jigsawmil.cli.progress import StudyProgress
from jigsawmil.cohort.cohort import Cohort
from jigsawmil.statistics.metrics import auc
from jigsawmil.study.disagreement import disagreement
from jigsawmil.study.job import LOGIT
from jigsawmil.study.plan import prepare
from jigsawmil.study.run import Run, RunJob
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.tasks import get_task
from jigsawmil.train.apply import apply_groups
from jigsawmil.train.checkpoint import load_model
from jigsawmil.train.ensemble import splits_of_members
from jigsawmil.train.settings import Settings
from jigsawmil.train.weights import stack

from .. import RESULTS, provenance, write
from .holdout import WORK, paired

COMMAND = "python -m benchmarks.evidence.ensembles"
SHAPE: dict[str, Any] = {"slides": 60, "patches": 200, "dim": 512}
KINDS: dict[str, dict[str, Any]] = {  # what is asked of each phantom beside SHAPE
    "composition": {"kind": "composition", "noise": 3.0},
    "few slides": {"kind": "composition", "noise": 3.0, "slides": 30},
    "arrangement": {"kind": "arrangement"},
    "position": {"kind": "position"},
}
SEEDS = {
    "develop": {kind: range(7001 + 100 * row, 7004 + 100 * row) for row, kind in enumerate(KINDS)},
    "report": {kind: range(8001 + 100 * row, 8005 + 100 * row) for row, kind in enumerate(KINDS)},
}
JIGSAW, LARGE = "graph-abmil+jigsaw", "committee x 3"
STACKED = f"{LARGE}, stacked"
ARMS: dict[str, dict[str, Any]] = {
    "abmil": {"method": "abmil"},
    "graph-abmil": {"method": "graph-abmil"},
    JIGSAW: {"method": JIGSAW},
    "kinds": {"method": "graph-abmil", "kinds": 8},
    f"{JIGSAW} x 5": {"method": JIGSAW, "members": 5},
    "committee": {"method": "committee", "members": 1},
    LARGE: {"method": "committee", "members": 3},
}
SINGLE = {"members": 1}
FOLDS = 3


def draw(part: str, work: Path) -> dict[str, tuple[str, Path]]:
    """Cohort -> its kind and folder; those that are missing are drawn."""
    found = {}
    for kind, seeds in SEEDS[part].items():
        for seed in seeds:
            name = f"{kind} {seed}"
            folder = work / "cohorts" / name
            if not folder.exists():
                write_phantom(phantom_slides(phantom_spec(seed=seed, **(SHAPE | KINDS[kind]))), folder)
            found[name] = (kind, folder)
    return found


def chosen_default(path: Path) -> str:
    """The arm that `develop` chose. path: what it wrote."""
    if not path.is_file():
        raise SystemExit(f"{path} is missing: the default is not chosen yet. Run `{COMMAND} --part develop` first.")
    return str(json.loads(path.read_text())["default"])


def make_study(arms: Mapping[str, Any], folders: Mapping[str, Path]) -> Study:
    variants = {name: Settings.from_flat({**SINGLE, **own}) for name, own in arms.items()}
    sources = {
        name: cohort_spec({"labels": folder / "labels.csv", "features": folder / "features"})
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
            rows.setdefault(seen.name, {})[kind] = float(seen.scores[0])
    whole = [case for case, own in rows.items() if len(own) == len(settings.each_member()) // settings.members]
    return np.array([[rows[case][k] for k in sorted(rows[case])] for case in whole]), np.array(
        [labels[c] for c in whole]
    )


def derived(
    run: Run, name: str, cohort: Cohort, folds: Sequence[Any]
) -> tuple[dict[str, list[float]], list[list[float]]]:
    """AUROC per fold of what can be had from the members' logits without training again; weights of `stacked`."""
    found: dict[str, list[float]] = {}
    learnt: list[list[float]] = []
    for number, fold in enumerate(folds):
        for arm in run.variants:
            jobs = [job for job in run.jobs if (job.cohort, job.variant, job.fold) == (name, arm, number)]
            if len(jobs) == 1:
                continue
            jobs.sort(key=lambda job: job.member or 0)
            logits = member_logits(jobs)
            table = run.predictions
            rows = table[(table["cohort"] == name) & (table["variant"] == arm) & (table["fold"] == number)]
            truth = rows.set_index("slide_id")["label"].reindex(logits.index) == cohort.classes[-1]
            found.setdefault(arm, []).append(auc(truth, logits.mean(axis=1)))  # equal weights; a run has learnt ones
            found.setdefault(f"{arm}, mean of probabilities", []).append(
                auc(truth, (1 / (1 + np.exp(-logits))).mean(axis=1))
            )
            if arm == LARGE:
                settings = Settings.from_flat({**ARMS[arm], "level": run.settings[arm]["level"]})
                said, labels = held_out(jobs, settings, cohort, fold)
                weights = stack(said.T[:, :, None], labels, get_task(cohort.task), len(cohort.classes))
                kinds = logits.T.groupby(np.array(logits.columns) // settings.members).mean().T
                found.setdefault(STACKED, []).append(auc(truth, kinds.to_numpy() @ weights))
                learnt.append([round(float(w), 3) for w in weights])
    return found, learnt


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
    """Means of each kind of cohort, and their spread over folds."""
    kinds = list(dict.fromkeys(own["kind"] for own in cohorts.values()))
    arms = list(next(iter(cohorts.values()))["auroc"])
    by_kind = {arm: {kind: _mean(cohorts, arm, kind) for kind in kinds} for arm in arms}
    areas = {arm: [own["auroc"][arm] for own in cohorts.values()] for arm in arms}
    return {
        "by_kind": by_kind,
        "overall": {arm: float(np.mean(list(values.values()))) for arm, values in by_kind.items()},
        "std_over_folds": {arm: float(np.mean(np.std(own, axis=1, ddof=1))) for arm, own in areas.items()},
        "worst_fold": {arm: float(np.min(own)) for arm, own in areas.items()},
        "trainings": {arm: trainings(arm) for arm in arms},
    }


def _mean(cohorts: Mapping[str, Mapping[str, Any]], arm: str, kind: str) -> float:
    return float(np.mean([np.mean(own["auroc"][arm]) for own in cohorts.values() if own["kind"] == kind]))


def choose(cohorts: Mapping[str, Mapping[str, Any]], judged: Mapping[str, Any]) -> dict[str, Any]:
    """What the two rules say."""
    by_kind, overall = judged["by_kind"], judged["overall"]
    gains = [float(np.mean(own["auroc"][STACKED]) - np.mean(own["auroc"][LARGE])) for own in cohorts.values()]
    gain, error = paired(gains), float(np.std(gains, ddof=1) / np.sqrt(len(gains)))
    losses = {kind: by_kind[STACKED][kind] - by_kind[LARGE][kind] for kind in by_kind[LARGE]}
    weights = STACKED if gain["mean"] > error and min(losses.values()) > -0.005 else LARGE
    candidates = [JIGSAW, f"{JIGSAW} x 5", "committee", weights]
    best = max(overall[arm] for arm in candidates)
    default = min((arm for arm in candidates if overall[arm] > best - 0.005), key=trainings)
    return {
        "stacking": {**gain, "standard_error": error, "by_kind": losses},
        "weights": weights,
        "default": default,
    }


def disagreements(run: Run) -> list[dict[str, Any]]:
    """Of every ensemble, over the cases of all cohorts: labels are named alike, negative first."""
    tables = []
    for cohort in run.cohorts:
        rows = run.predictions[run.predictions["cohort"] == cohort]
        label = np.where(rows["label"] == run.classes[cohort][-1], "1", "0")
        tables.append(rows.assign(label=label, patient_id=cohort + "/" + rows["patient_id"].astype(str)))
    found = disagreement(pd.concat(tables), ("0", "1"), "binary")
    return [
        {**one._asdict(), "auroc": one.auroc and dict(zip(("auc", "low", "high"), one.auroc, strict=True))}
        for one in found
    ]


def run_all(study: Study, folder: Path, processes: int) -> Run:
    with StudyProgress(Console()) as progress:
        run = cross_validate(study, folder, processes=processes, listen=progress, on_plan=progress.plan)
    if run.failed:
        raise SystemExit(f"{len(run.failed)} jobs failed; nothing is written. Run the same command again.")
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Single models, ensembles and committees.")
    parser.add_argument("--part", choices=tuple(SEEDS), required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK / "ensembles", help="what is done stays here")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    work = options.work / options.part
    arms, default = ARMS, None
    if options.part != "develop":
        default = chosen_default(RESULTS / "ensembles-develop.json")
        arms = {name: own for name, own in ARMS.items() if trainings(name) == 1 or name == default.split(",")[0]}
    drawn = draw(options.part, work)
    kinds = {name: kind for name, (kind, _) in drawn.items()}
    study = make_study(arms, {name: folder for name, (_, folder) in drawn.items()})
    found: dict[str, dict[str, Any]] = {}
    run = run_all(study, work / "run", options.processes)
    cohorts, folds = prepare(study)
    for cohort in run.cohorts:
        more, weights = derived(run, cohort, cohorts[cohort], folds[cohort, 0])
        found[cohort] = {"kind": kinds[cohort], "auroc": {**areas(run, cohort), **more}, "weights": weights}
    judged = judge(found)
    judged |= choose(found, judged) if default is None else {"default": default}
    seconds = {arm: sum(job.seconds["processor"] for job in run.jobs if job.variant == arm) for arm in arms}
    values = {
        "command": f"{COMMAND} --part {options.part}",
        "shape": SHAPE,
        "kinds": KINDS,
        "arms": arms,
        "folds": FOLDS,
        "cohorts": found,
        **judged,
        "disagreement": disagreements(run),
        "processor_seconds": seconds,
        "commits": sorted({str(job.origin.get("commit"))[:10] for job in run.jobs}),
    }
    out = options.out or RESULTS / f"ensembles-{options.part}.json"
    write(out, json.dumps({**provenance(), **values}, indent=1))
    print(pd.DataFrame(judged["by_kind"]).T.assign(overall=judged["overall"], trainings=judged["trainings"]).round(3))
    print(f"Default: {judged['default']}. Written to {out}")


if __name__ == "__main__":
    main()
