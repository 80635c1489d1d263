"""Do maps point to what was planted? Patch-level AUC on phantom cohorts, out of fold; and the time of an export.

    .venv/bin/python -m benchmarks.evidence.maps          # about 15 minutes on one core
    .venv/bin/python -m benchmarks.evidence.maps --add    # only what the file lacks; its other rows stay as they are

Truth. `position`: the planted region is the two nests (about 12 % of a slide); which of them lies high is the label,
and the tissue around them is the same in both classes. `arrangement`: the planted region is all patches of the types A
and B (70 to 90 %); whether they lie in clumps or mixed is the label, and the other three types say nothing. Either type
(or nest) alone tells the label, so a map that marks all of one and nothing of the other is right, and stands at 0.75
against both: the AUC of A, and of B, against what was not planted is therefore given beside.

Scores: attention; the magnitude of evidence, how much a patch speaks; evidence for the class that the model gives the
slide; the same two of the input attribution. At k = 50 (GAT) also an ensemble: four models per fold that differ in the
seed of the study (folds, weights, order); its maps and logits are the means of theirs. Each slide is scored by models
that had it in their test fold. AUC is within a slide, then averaged over slides, with a 95 % interval (Student's, over
slides). The variants were chosen on other cohorts (seed 5), the input attribution on cohorts of the seeds 31 and 32.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from jigsawmil.graph import GraphConfig
from jigsawmil.maps.attribution import attribute
from jigsawmil.maps.geometry import level0_squares
from jigsawmil.maps.patch_maps import PatchMaps, explain
from jigsawmil.maps.qupath import write_geojson
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.model import build_model
from jigsawmil.study.cases import case_maps, cases
from jigsawmil.study.run import Run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import Phantom, make_phantom, write_phantom
from jigsawmil.synthetic.phantom_slide import PhantomSlide
from jigsawmil.train.checkpoint import ModelCard
from jigsawmil.train.settings import Settings

from .. import provenance, write
from ..speed.contenders import tissue_slide
from .results_maps import COMMITTEE, RESULT, write_page

KNOBS = {"slides": 45, "patches": 400, "dim": 64, "seed": 6}  # of a size and number that a few minutes allow
FOLDS = 3
MEMBERS = (0, 1, 2, 3)  # seeds of the ensemble; the single model is the first
ENSEMBLE = "jigsaw-gat-k50"
SHARED = {"epochs": 15, "patience": 0, "members": 1}
JIGSAW = {"method": "graph-abmil+jigsaw"}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "arrangement": {
        "jigsaw-gat-k50": {**JIGSAW, "lr": 5e-4},  # the paper's graph
        "jigsaw-gat-k8": {**JIGSAW, "lr": 5e-4, "k": 8},
        "jigsaw-sage-k8": {**JIGSAW, "lr": 5e-4, "k": 8, "conv": "sage"},  # a patch keeps a term of its own
        "mil-gat-k8": {"method": "graph-mil", "lr": 5e-4, "k": 8},  # mean pooling: every patch has its say
    },
    "position": {
        "jigsaw-gat-k50": {**JIGSAW, "lr": 1e-3},
        "jigsaw-sage-k50": {**JIGSAW, "lr": 1e-3, "conv": "sage"},
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--add", action="store_true", help="only variants that the file lacks, if there is one")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    about, began = provenance(), time.perf_counter()
    add = options.add and options.out.is_file()
    old = json.loads(options.out.read_text()) if add else {"rows": []}
    known = {(row["kind"], row["variant"]) for row in old["rows"]}
    rows: list[dict[str, Any]] = []
    for kind in VARIANTS:
        asked = {name: own for name, own in variants(kind).items() if (kind, name) not in known}
        with tempfile.TemporaryDirectory() as folder:
            rows += judge(make_phantom(kind, **KNOBS), asked, Path(folder)) if asked else []
    if add:
        show(rows)
        took = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time()}
        added = {**old.get("added", {}), **{row["variant"]: {**about, **took} for row in rows}}
        found = {**old, "rows": old["rows"] + rows, "added": added}
    else:
        found = {"rows": rows, **whole(), **about, "seconds": time.perf_counter() - began}
        show(rows)
    write(options.out, json.dumps(found, indent=2))
    if options.out == RESULT:
        write_page(found)


def whole() -> dict[str, Any]:
    """What belongs to a run of everything: the time of an export, and what was asked."""
    seconds, cost = geojson_seconds(), attribution_cost()
    print(f"\nGeoJSON of 12,050 patches: {seconds:.2f} s")
    print(f"Attribution of 12,050 x 1024: {cost['attribution']:.1f} s; a prediction: {cost['prediction']:.2f} s (CPU)")
    asked = {"phantoms": KNOBS, "members": MEMBERS, "settings": SHARED, "variants": VARIANTS}
    return {"geojson_seconds": seconds, "cost": cost, **asked}


def variants(kind: str) -> dict[str, Settings]:
    """Of a cohort, with the settings of each."""
    singles = {name: Settings.from_flat({**SHARED, **own}) for name, own in VARIANTS[kind].items()}
    return {**singles, COMMITTEE: Settings()}


def judge(phantom: Phantom, settings: Mapping[str, Settings], folder: Path) -> list[dict[str, Any]]:
    """Cross-validate each variant, and hold its maps against the truth."""
    kind = phantom.spec.kind
    cohort = write_phantom(phantom, folder / "cohort")
    spec = cohort_spec({"labels": cohort / "labels.csv", "features": cohort / "features"})
    print(f"{kind}: {len(phantom.slides)} slides, {', '.join(settings)} ...", flush=True)
    study = Study(cohorts={kind: spec}, variants=settings, folds=FOLDS, seeds=MEMBERS[:1])
    run = cross_validate(study, folder / "run")
    truth, rows = {slide.bag.slide_id: slide for slide in phantom}, []
    for variant in settings:
        single = slide_maps(run, kind, variant, MEMBERS[0])
        rows += against_truth(single, truth, kind, variant)
        if variant == ENSEMBLE:
            seeds = dataclasses.replace(study, variants={variant: settings[variant]}, seeds=MEMBERS[1:])
            more = cross_validate(seeds, folder / "more")
            members = [single, *(slide_maps(more, kind, variant, seed) for seed in MEMBERS[1:])]
            mean = [mean_maps([member[i] for member in members]) for i in range(len(single))]
            rows += against_truth(mean, truth, kind, f"{variant}, ensemble of {len(MEMBERS)}")
    return rows


def slide_maps(run: Run, kind: str, variant: str, seed: int) -> list[PatchMaps]:
    """Of every slide, by the model that had it in its test fold."""
    found = cases(run, kind, variant=variant, seed=seed)
    return [case_maps(run, case, neighbours=False, attribution=True)[0] for case in found]


def mean_maps(members: list[PatchMaps]) -> PatchMaps:
    """Of an ensemble whose logit is the mean of its members' logits."""
    names = ("attention", "evidence", "bias", "logits", "attribution", "reference", "gap")
    mean = {name: np.mean([getattr(maps, name) for maps in members], axis=0) for name in names}
    p = 1 / (1 + np.exp(-mean["logits"][0]))
    return dataclasses.replace(members[0], probabilities=np.array([1 - p, p]), **mean)


def against_truth(
    maps: list[PatchMaps], truth: dict[str, PhantomSlide], kind: str, variant: str
) -> list[dict[str, Any]]:
    """A row per score, region and class of slides."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for each in maps:
        slide = truth[each.name]
        for score, values in scores(each).items():
            for region, inside in regions(slide).items():
                among = inside | (slide.plant == 0)  # of two types, the other is set aside
                area = float(roc_auc_score(inside[among], values[among]))
                for slides in ("all", slide.label):
                    found.setdefault((score, region, slides), []).append(area)
    positive = [truth[each.name].label == each.classes[-1] for each in maps]
    gaps = [abs(each.gap[0]) for each in maps if each.gap is not None]
    about: dict[str, Any] = {
        "kind": kind,
        "variant": variant,
        "slide_auc": float(roc_auc_score(positive, [each.logits[0] for each in maps])),
        "gap": {"mean": float(np.mean(gaps)), "largest": float(max(gaps))},
        "logit_from_reference": float(
            np.mean([abs(m.logits[0] - m.reference[0]) for m in maps if m.reference is not None])
        ),
    }
    return [
        {**about, "score": score, "region": region, "slides": slides, **interval(areas)}
        for (score, region, slides), areas in found.items()
    ]


def regions(slide: PhantomSlide) -> dict[str, np.ndarray]:
    return {"planted": slide.plant == 1, "A": slide.types == 0, "B": slide.types == 1}


def scores(maps: PatchMaps) -> dict[str, np.ndarray]:
    found = {}
    for name, values in (("evidence", maps.evidence_for), ("attribution", maps.attribution_for)):
        shown = values(maps.prediction)
        found |= {f"{name}, magnitude": np.abs(shown), f"{name} for the prediction": shown}
    return found if np.ptp(maps.attention) < 1e-9 else {"attention": maps.attention, **found}


def interval(values: list[float]) -> dict[str, float]:
    """Mean and 95 % interval over slides."""
    mean = float(np.mean(values))
    half = float(student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return {"n": len(values), "auc": mean, "low": mean - half, "high": mean + half}


def show(rows: list[dict[str, Any]]) -> None:
    print("\n| cohort | variant | AUC of slides | score | slides | planted | A alone | B alone |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    table: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        key = (row["kind"], row["variant"], f"{row['slide_auc']:.3f}", row["score"], row["slides"])
        table.setdefault(key, {})[row["region"]] = f"{row['auc']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
    for key, cells in table.items():
        print("| " + " | ".join([*key, *cells.values()]) + " |")


def geojson_seconds() -> float:
    """Median of three, for a slide of 12,050 patches; of the writing alone, the maps being there."""
    bag = tissue_slide(12_050)
    bag = dataclasses.replace(bag, features=bag.features[:, :64])
    model = build_model("graph-abmil+jigsaw", 64)
    card = ModelCard(model=model.config, graph=GraphConfig(), classes=("no", "yes"))
    [maps] = explain(model, card, bag, neighbours=False)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            start = time.perf_counter()
            write_geojson(maps, level0_squares(bag), Path(folder) / "maps.geojson")
            times.append(time.perf_counter() - start)
    return median(times)


def attribution_cost() -> dict[str, float]:
    """CPU seconds of one thread for 12,050 patches in 1,024 dimensions; median of three, without reading and graph."""
    bag, model = tissue_slide(12_050), build_model("graph-abmil+jigsaw", 1024).eval()
    card = ModelCard(model=model.config, graph=GraphConfig(), classes=("no", "yes"))
    batch = Batch.of(bag, card.graph)
    times: dict[str, list[float]] = {"prediction": [], "attribution": []}
    for _ in range(3):
        start = time.process_time()
        with torch.inference_mode():
            model(batch)
        times["prediction"].append(time.process_time() - start)
        start = time.process_time()
        attribute(model, card, batch)
        times["attribution"].append(time.process_time() - start)
    return {name: median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()
