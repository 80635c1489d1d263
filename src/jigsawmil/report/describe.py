"""A method in words, and a run as the study file that makes it again."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import StudyError
from ..nn.model import METHODS
from ..study.run_folder import Run
from ..train.settings import Settings

CONVS = {
    "gat": "graph attention discounted by distance (GAT)",
    "gcn": "graph convolution (GCN)",
    "gin": "graph isomorphism (GIN)",
    "sage": "GraphSAGE",
}
SIGMAS = {
    "max-knn": "sigma is the largest distance between neighbours",
    "max-nearest": "sigma² is the largest distance to a nearest neighbour",
}
LAMBDAS = {
    "em": "lambda = a / (b + jigsaw loss) with a = {a:g}, b = {b:g}, renewed every {every}",
    "em-per-slide": "each slide its lambda, a / (b + its jigsaw loss) with a = {a:g}, b = {b:g}, renewed every {every}",
    "balanced": "lambda = MIL loss / jigsaw loss, so that both terms weigh the same, renewed every {every}",
}


def method_words(settings: Mapping[str, Any]) -> str:
    """What a variant is: graph, encoder, pooling, jigsaw and the policy of lambda."""
    s = known_settings(settings)
    method = METHODS[s.method]
    layers = f"{s.layers} layer{'s' * (s.layers != 1)}"
    if method.graph:
        heads = f", {s.heads} heads" if s.heads > 1 else ""
        parts = [f"{_graph(s)}; {layers} of {CONVS[s.conv]}, width {s.hidden}{heads}"]
        if s.kinds:
            parts.append(f"beside it, how often {s.kinds} kinds of patches are neighbours of each other")
    else:
        parts = [f"each patch is seen by itself, through {layers} of a perceptron of width {s.hidden}"]
    pooling = "gated attention pooling" if s.gated else "attention pooling"
    parts.append(pooling if method.attention else "mean pooling: every patch counts the same")
    parts.append(f"jigsaw: {_jigsaw(s)}; {_lambda(s)}" if method.jigsaw else "no jigsaw")
    if s.level == "patient":
        parts.append("all slides of a patient are pooled into one prediction")
    return f"{'. '.join(part[0].upper() + part[1:] for part in parts)}."


def training_words(settings: Mapping[str, Any]) -> str:
    s = known_settings(settings)
    if s.patience:
        stop = (
            f"at most {s.epochs} epochs; {s.validation:.0%} of the training patients are held back and training "
            f"stops when their loss has not fallen by {s.margin:g} for {s.patience} epochs; the best epoch is kept"
        )
    else:
        stop = f"{s.epochs} epochs on all training slides, the last weights are kept"
    weights = ", classes weighted by rarity" if s.class_weights else ""
    batch = f"{s.batch_size} {s.level}{'s' * (s.batch_size != 1)} a step"
    return f"Adam, learning rate {s.lr:g}, weight decay {s.weight_decay:g}, {batch}{weights}; {stop}."


def known_settings(settings: Mapping[str, Any]) -> Settings:
    """Those of a job that are settings of the method, without seed and marks."""
    return Settings(**{key: value for key, value in settings.items() if key in Settings.__dataclass_fields__})


def study_toml(run: Run) -> str:
    """A study file that asks for this run again."""
    settings = {job.variant: known_settings(job.settings) for job in run.jobs}
    default = Settings()
    differ, shared = different(settings)
    one = settings[run.jobs[0].variant]
    folds = {cohort: _given_folds(run, cohort) for cohort in run.cohorts}
    lines = [f"folds = {max(job.fold for job in run.jobs) + 1}", f"seeds = {list(run.seeds)}"]
    lines += ["by_site = true"] * bool(run.about.get("by_site"))
    lines += ["shuffle_control = true"] * (not run.control.empty)
    lines += ["attention = true"] * any((job.folder / "attention.safetensors").is_file() for job in run.jobs)
    for cohort in run.cohorts:
        source = run.about["cohorts"][cohort]
        lines += ["", f"[cohorts.{_text(cohort)}]"]
        given = {"labels": source["labels"], "features": source["features"], **dict(source["options"])}
        if folds[cohort] is not None:
            given["splits"] = str(folds[cohort])
        lines += [f"{key} = {_text(value)}" for key, value in given.items()]
    common = {name: getattr(one, name) for name in shared if getattr(one, name) != getattr(default, name)}
    own = {name: {key: getattr(settings[name], key) for key in differ} for name in run.variants}
    tables = {"defaults": common} | {f"variants.{_text(name)}": values for name, values in own.items()}
    for title, values in tables.items():
        lines += ["", f"[{title}]"] + [f"{key.rstrip('_')} = {_text(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def different(variants: Mapping[str, Settings]) -> tuple[list[str], list[str]]:
    """Names of the settings in which variants differ, and of those that all share."""
    names = list(Settings.__dataclass_fields__)
    differ = [name for name in names if len({getattr(s, name) for s in variants.values()}) > 1]
    return differ, [name for name in names if name not in differ]


def _graph(s: Settings) -> str:
    if s.graph == "radius":
        return f"patches within {s.radius:g} microns of each other are joined, weights falling with distance"
    sigma = SIGMAS[s.sigma] if isinstance(s.sigma, str) else f"sigma = {s.sigma:g} of the slide's longer side"
    return f"each patch is joined to its {s.k} nearest neighbours, with weights exp(-distance² / sigma²) where {sigma}"


def _jigsaw(s: Settings) -> str:
    return {
        "position": f"every patch is asked in which of {s.grid} x {s.grid} cells of its slide it lies "
        f"({s.share:.0%} of the patches a step)",
        "consistency": "a discriminator tells patches in their own places from patches whose features were permuted",
        "equivariance": "the encoder is penalised where permuting patches and encoding them do not commute",
    }[s.jigsaw]


def _lambda(s: Settings) -> str:
    policy = LAMBDAS.get(str(s.lambda_))
    if policy is None:
        return f"fixed weight lambda = {float(s.lambda_):g}"
    every = "epoch" if s.lambda_every == 1 else f"{s.lambda_every} epochs"
    return policy.format(a=s.lambda_a, b=s.lambda_b, every=every)


def _given_folds(run: Run, cohort: str) -> Path | None:
    """The file of folds that no seed made: they were given, and have to be given again."""
    files: Sequence[Path] = [run.folder / "folds.json", *sorted(run.folder.glob(f"folds-{cohort}-seed*.json"))]
    for file in filter(Path.is_file, files):
        try:
            if dict(json.loads(file.read_text())).get("seed") is None:
                return file.resolve()
        except (ValueError, TypeError) as error:
            raise StudyError(f"{file}: not a file of folds ({error}). Remove it and run the study again.") from error
    return None


def _text(value: Any) -> str:
    """A value or a quoted key as TOML writes it; JSON's strings, numbers and booleans are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
