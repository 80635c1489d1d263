"""Other people's models and ours under the same folds: real H&E, real cells, three kinds of phantom.

`python -m benchmarks.evidence.rivals`

**Declared before any of it was run.**

**Cohorts.** `UCSB`: 58 H&E images of breast tissue, 896 x 768 pixels, resolution unknown (Gelasca et al. 2008; the set
of the ABMIL paper). Tiles of 64 x 64 pixels of the image, no overlap, kept by the default rule for tissue: the ABMIL
paper has 32, which is little for an encoder that was trained on 224 x 224; 64 was chosen for that reason alone, and no
other size was tried. Features: EfficientNet-Lite0, trained on ImageNet. A group (tissue microarray and date, in the
file's name) stays on one side of every split, also of the split within the training images, as a patient would.
`CODEX`: 140 images of 35 colorectal cancer patients, a patch is a cell, its type a one-hot feature; patients are split,
and judged by the mean over their images. At most 10 epochs, patience 3: the images are large. k = 10 for our graph
methods, as `crc_codex.py` has it for cells; the committee keeps its own.
`composition`, `arrangement`, `position`: a phantom each, 60 slides of about 200 patches, seeds 9401, 9501 and 9601,
which nothing here has used; noise 3 for composition, 0.5 for the others. On the last two, methods without positions
belong at 0.5.

**Contenders** (CONTENDERS): our five, `graph-abmil` with `kinds = 8`, our default (the committee: five kinds, three
members each, learnt weights), the baselines, and ten models of
torchmil, each with its default settings (docs/torchmil.md). One exception, for time: TransMIL is 128 wide with 64
landmarks in place of 512 with 256, which takes three to ten times as long. To measure the time, each contender made
three steps on three slides of each cohort; nothing was predicted. No setting is chosen by looking at a result.

Changed after a first run on UCSB, whose AUROCs had been seen: torchmil's CLAM_SB had failed in every fold, by a mistake
in its loss of patches. The adapter has had a loss of its own since (`SmoothSvm`). `graph-abmil kinds` was added, since
`ensembles.py` left CODEX to this benchmark; on CODEX it is known to be strong (`crc_codex.py`, other folds and
settings). `graph-abmil+jigsaw k=8` and `graph-abmil+jigsaw sage` were added, since `small_cohorts.py` had shown that as
single models they do better on small slides than k = 50: "the best single method" would be a weak opponent without
them. The figures of the first run were lost. All contenders were then run again; no other setting, fold or rule was
changed.

**Folds.** UCSB: 5 folds by group, repeated with seeds 700 and 701. CODEX: 3 folds, seed 700. Phantoms: 3 folds, seed
700. Control, on UCSB and CODEX, for methods that use positions: the first seed again with positions shuffled within
each image. All of it needs about two and a quarter hours of one core.

**What is reported.** For each cohort a table: AUROC as mean and standard deviation over folds, and pooled out of fold
with its 95 % interval; processor time of training and predicting a fold (median over folds, all members), as a ratio to
`abmil` in the same run. **Rule of comparison:** our default, `committee`, against each of the others, by
DeLong's test on pooled predictions (clustered by group on UCSB, on patients on CODEX), Holm-adjusted over the
contenders of a cohort; below 0.05 one is `better` or `worse`, else the two are `not told apart`. The corrected t-test
over folds is printed beside it. If another model has the highest AUROC, the table says so. Beside the table, without a
verdict: the same members of the committee with equal weights (EQUAL), of the logits that they have anyway.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from jigsawmil.bags.formats.trident import write_bag
from jigsawmil.bags.tile_spec import TileSpec
from jigsawmil.nn.options import BASELINES, DEFAULT_METHOD, METHODS, PAPER_METHODS
from jigsawmil.slides import ExtractSettings, extract_slides
from jigsawmil.statistics.paired import holm
from jigsawmil.study.compare import compare_methods, summarise
from jigsawmil.study.executors import Event
from jigsawmil.study.job import LOGIT
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import phantom_slides, write_phantom
from jigsawmil.synthetic.phantom_options import phantom_spec
from jigsawmil.tasks import get_task
from jigsawmil.train.ensemble import combine
from jigsawmil.train.origin import origin
from jigsawmil.train.settings import Settings

from .. import RESULTS, ROOT, provenance, write
from .codex_data import read_cells
from .holdout import WORK

COMMAND = "python -m benchmarks.evidence.rivals"
OUT = RESULTS / "rivals.json"
SHARED = ROOT / ".." / "shared" / "data"
OURS, UNIT = DEFAULT_METHOD, "abmil"
TORCHMIL = (
    *("ABMIL", "CLAM_SB", "DSMIL", "DTFDMIL", "PatchGCN", "SmABMIL", "SmoothABMIL", "ProbSmoothABMIL", "TransMIL"),
    "VAEABMIL",
)
KINDS = "graph-abmil kinds"
SMALL_K, SAGE = "graph-abmil+jigsaw k=8", "graph-abmil+jigsaw sage"
EQUAL = "committee, equal weights"
CONTENDERS: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in (*PAPER_METHODS, "committee", *BASELINES)},
    **{f"torchmil {name}": {"method": f"torchmil:{name}"} for name in TORCHMIL},
}
CONTENDERS[KINDS] = {"method": "graph-abmil", "kinds": 8}
CONTENDERS[SMALL_K] = {"method": "graph-abmil+jigsaw", "k": 8}
CONTENDERS[SAGE] = {"method": "graph-abmil+jigsaw", "conv": "sage"}
CONTENDERS["torchmil TransMIL"]["options"] = {"att_dim": 128, "n_landmarks": 64}
LEVEL = 0.05


@dataclass(frozen=True)
class Contest:
    """A cohort and its folds. make: writes labels.csv and features into a folder. settings: of all contenders, as far
    as they use them; graph: of our graph methods, but for the committee. minutes: of one core, by the time of a step.
    control: again with shuffled positions. reading: options of the cohort. needs: data that may be absent."""

    make: Callable[[Path], None]
    folds: int
    seeds: tuple[int, ...]
    minutes: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)
    control: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    needs: Path | None = None

    def variants(self, names: Sequence[str]) -> dict[str, Settings]:
        own = {}
        for name in names:
            values = {**CONTENDERS[name], **self.settings}
            if METHODS[values["method"]].graph and name in (*PAPER_METHODS, KINDS, SAGE):
                values |= self.graph
            own[name] = Settings.from_flat(values, name)
        return own


def make_ucsb(folder: Path) -> None:
    """64-pixel tiles of EfficientNet-Lite0; the group stands where a patient would."""
    table = pd.read_csv(SHARED / "ucsb" / "labels.csv")
    tiles = TileSpec(patch=64, mpp=None)
    found = extract_slides(SHARED / "ucsb" / "images", folder, settings=ExtractSettings(tiles=tiles))
    if failed := [one for one in found if one.status not in ("done", "there")]:
        raise SystemExit(f"{len(failed)} images gave no features: {failed[0]}")
    renamed = {"image": "slide_id", "group": "patient_id"}
    write(folder / "labels.csv", table.rename(columns=renamed).to_csv(index=False))


def make_codex(folder: Path) -> None:
    cohort = read_cells(SHARED / "crc_codex" / "cells.csv.gz")
    rows = []
    for index, slide in enumerate(cohort.slides):
        write_bag(cohort.bag(index), folder / "features" / f"{slide.slide_id}.h5")
        rows.append([slide.slide_id, slide.patient_id, cohort.label_of(slide)])
    table = pd.DataFrame(rows, columns=["slide_id", "patient_id", "label"])
    write(folder / "labels.csv", table.to_csv(index=False))


def make_phantom(kind: str, seed: int, noise: float) -> Callable[[Path], None]:
    spec = phantom_spec(kind, seed=seed, slides=60, patches=200, dim=128, noise=noise, two_slides=0.0)
    return lambda folder: void(write_phantom(phantom_slides(spec), folder))


def void(_: object) -> None:
    """For what returns something that nobody asks for."""


CONTESTS = {
    "UCSB": Contest(make_ucsb, 5, (700, 701), 65, control=True, needs=SHARED / "ucsb"),
    "CODEX": Contest(
        make_codex,
        3,
        (700,),
        39,
        {"epochs": 10, "patience": 3},
        {"k": 10},
        control=True,
        reading={"allow_similar": True},  # one-hot columns of equally many cells have the same extremes
        needs=SHARED / "crc_codex",
    ),
    "composition": Contest(make_phantom("composition", 9401, 3.0), 3, (700,), 10),
    "arrangement": Contest(make_phantom("arrangement", 9501, 0.5), 3, (700,), 10),
    "position": Contest(make_phantom("position", 9601, 0.5), 3, (700,), 10),
}


def run(name: str, contest: Contest, names: Sequence[str], work: Path, processes: int = 1) -> dict[str, Any]:
    """All contenders on one cohort: the control first, whose unshuffled half the contest itself reads again."""
    folder = work / name
    if not (folder / "cohort" / "labels.csv").exists():
        contest.make(folder / "cohort")
    features = next(path for path in sorted((folder / "cohort").rglob("*.h5"))).parent
    spec = cohort_spec({"labels": folder / "cohort" / "labels.csv", "features": features, **contest.reading})
    variants = contest.variants(names)
    placed = {key: one for key, one in variants.items() if METHODS[one.method].sees_positions}
    study = Study(cohorts={name: spec}, variants=variants, folds=contest.folds, seeds=contest.seeds)
    tests = []
    if contest.control and placed:
        half = replace(study, variants=placed, seeds=contest.seeds[:1], shuffle_control=True)
        tests = cross_validate(half, folder / "run", processes=processes, listen=say).control_tests.to_dict("records")
    found = cross_validate(study, folder / "run", processes=processes, listen=say)
    if found.failed:
        raise SystemExit(f"{name}: {len(found.failed)} jobs failed: {next(iter(found.failed.items()))}")
    return {
        "slides": len(found.slides),
        "patients": int(found.slides["patient_id"].nunique()),
        "patches": int(found.slides["patches"].sum()),
        "folds": contest.folds,
        "seeds": contest.seeds,
        "rows": rows_of(found, name),
        "equal": equal_weights(found, name),
        "control": plain(tests),
        "commit": origin()["commit"],
    }


def say(event: Event) -> None:
    if event.ended:
        print(f"  {event.job.name}", flush=True)


def rows_of(found: Run, cohort: str) -> list[dict[str, Any]]:
    """One row per contender: accuracy, processor time, and how it compares with our default."""
    seconds = seconds_of(found)
    rows = found.summary.to_dict("records")
    for row in rows:
        row["seconds"] = seconds[row["variant"]]
        row["ratio"] = row["seconds"] / seconds[UNIT] if UNIT in seconds else None
    others = [row for row in rows if row["variant"] != OURS]
    if len(others) == len(rows):  # our default was not asked for
        return plain(rows)
    for row in others:
        both = found.predictions[found.predictions["variant"].isin([OURS, row["variant"]])]
        (pair,) = compare_methods(both, found.classes[cohort], found.task(cohort)).to_dict("records")
        sign = 1 if pair["variant_a"] == row["variant"] else -1
        row |= {"level": pair["level"], "difference": sign * pair["difference"]}
        row |= {key: pair[key] for key in ("delong_p", "t_p")}
    for key in ("delong_p", "t_p"):
        for row, p in zip(others, holm([row[key] for row in others]), strict=True):
            row[f"{key}_holm"] = float(p)
    for row in others:
        row["verdict"] = verdict(row["difference"], row["delong_p_holm"])
    return plain(rows)


def equal_weights(found: Run, cohort: str) -> dict[str, Any] | None:
    """What our default's members give with equal weights, from the logits that they have; None without them."""
    members = [job for job in found.jobs if job.variant == OURS and job.member is not None]
    if not members:
        return None
    task, classes = get_task(found.task(cohort)), found.classes[cohort]
    parts = []
    for (seed, fold), ours in found.predictions[found.predictions["variant"] == OURS].groupby(["seed", "fold"]):
        own = [job for job in members if (job.seed, job.fold) == (seed, fold)]
        tables = [pd.read_csv(job.files.predictions, dtype={"slide_id": str}).set_index("slide_id") for job in own]
        logits = [name for name in tables[0] if name.startswith(LOGIT)]
        scores = np.stack([table.loc[ours["slide_id"], logits].to_numpy() for table in tables])
        rows = [task.row(p, classes) for p in combine(scores, task.name, len(classes)).probabilities]
        parts.append(ours.assign(variant=EQUAL, **pd.DataFrame(rows, index=ours.index)))
    both = pd.concat([found.predictions[found.predictions["variant"] == OURS], *parts], ignore_index=True)
    [row] = summarise(pd.concat(parts), classes, task).to_dict("records")
    (pair,) = compare_methods(both, classes, task).to_dict("records")
    sign = 1 if pair["variant_a"] == EQUAL else -1
    return plain([{**row, "difference": sign * pair["difference"], "delong_p": pair["delong_p"]}])[0]


def verdict(difference: float, p: float) -> str:
    """Of a contender, held against our default."""
    if not p < LEVEL:
        return "not told apart"
    return "better" if difference > 0 else "worse"


def seconds_of(found: Run) -> dict[str, float]:
    """Of each contender: processor seconds of a fold with all its members, the median over folds and seeds."""
    table = pd.DataFrame(
        [[job.variant, job.settings["seed"], job.fold, job.seconds["processor"]] for job in found.jobs],
        columns=["variant", "seed", "fold", "seconds"],
    )
    whole = table.groupby(["variant", "seed", "fold"])["seconds"].sum()
    return {str(name): float(value) for name, value in whole.groupby("variant").median().items()}


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers that JSON knows; what is not defined is None."""

    def value(found: Any) -> Any:
        found = found.item() if isinstance(found, np.generic) else found
        return None if isinstance(found, float) and np.isnan(found) else found

    return [{str(key): value(found) for key, found in row.items()} for row in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Other people's models and ours under the same folds.")
    parser.add_argument("--cohorts", default=",".join(CONTESTS), help="some of them, comma separated")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="some of them, comma separated")
    parser.add_argument("--seed", type=int, help="in place of all seeds of the folds: to try the program")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--work", type=Path, default=WORK / "rivals", help="what is done stays here")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    names, about, found = options.contenders.split(","), provenance(), {}
    chosen = {name: CONTESTS[name] for name in options.cohorts.split(",")}
    print(f"One core needs about {sum(one.minutes for one in chosen.values())} minutes from nothing:")
    for name, contest in chosen.items():
        absent = contest.needs is not None and not contest.needs.exists()
        print(f"  {name:12} {f'left out: {contest.needs} is not there' if absent else f'{contest.minutes} minutes'}")
    for name, contest in chosen.items():
        if contest.needs is None or contest.needs.exists():
            print(name, flush=True)
            own = contest if options.seed is None else replace(contest, seeds=(options.seed,))
            found[name] = run(name, own, names, options.work, options.processes)
            best = max(found[name]["rows"], key=lambda row: row["auc_oof"])
            print(f"{name}: highest AUROC {best['auc_oof']:.3f}, {best['variant']}", flush=True)
            result = {**about, "contenders": CONTENDERS, "reference": OURS, "unit": UNIT, "cohorts": found}
            result["commits"] = sorted({str(one["commit"]) for one in found.values()})
            write(options.out, json.dumps(result, indent=2, default=str))


if __name__ == "__main__":
    main()
