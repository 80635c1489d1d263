"""How a run came about: settings, versions, machine, time, and how to make it again."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..nn.options import peek_method
from ..study.gather import by_reason
from ..study.run import Run
from ..synthetic.phantom_options import is_phantom
from ..tasks import get_task
from ..train.settings import Settings, unused
from .describe import different, known_choice, known_settings, method_words, study_toml, training_words
from .html import Html, join, listed, paragraphs, table, tag
from .tables import counted, designs
from .validation import validation_command, validation_words

VERSIONS = ("jigsawmil", "commit", "python", "torch", "numpy", "machine", "threads")


def methods_section(run: Run) -> Html:
    """Each variant in words; how all were trained."""
    of = run.settings
    entries = [
        join([tag("dt", _titled(name, of[name])), tag("dd", method_words(of[name]) + _chosen(run, name))])
        for name in run.variants
    ]
    trained: dict[str, list[str]] = {}
    for name in of:
        trained.setdefault(training_words(of[name]) + _loss(run, name), []).append(name)
    several = len(trained) > 1
    words = [f"{', '.join(names)}: {how}" if several else how for how, names in trained.items()]
    folds = validation_words(run) or (
        f"{' and '.join(sorted(designs(run.summary))).capitalize()} by patient: the slides of a patient are never on "
        "both sides. The test fold is used only for scoring, never for stopping or to choose an epoch, lambda or "
        "threshold."
    )
    return join([tag("dl", *entries), tag("h4", "Training"), paragraphs([*words, folds])], "\n")


def settings_section(run: Run) -> Html:
    variants = {name: known_settings(run.settings[name]) for name in run.variants}
    differ, shared = different(variants)
    flat = {name: settings.flat() for name, settings in variants.items()}
    one = next(iter(flat.values()))
    parts = [tag("p", _presets(variants.values()))]
    if differ == ["method"] and all(s.method == name for name, s in variants.items()):
        parts.append(tag("p", "The variants differ only in their method. Settings of all variants:"))
    elif differ:
        header = ["setting", *variants]
        rows = [[name.rstrip("_"), *(_shown(values[name]) for values in flat.values())] for name in differ]
        if len(variants) > len(rows) or len(variants) > 6:  # wider than the page: turned
            header, *rows = [list(cells) for cells in zip(header, *rows, strict=True)]
            header[0] = "variant"
        parts += [
            tag("p", "Settings that differ between variants:"),
            table(header, rows, class_="words"),
        ]
        parts.append(tag("p", "Settings of all variants:"))
    silent = set.intersection(*(unused(settings.method) for settings in variants.values())) | {"device"}
    pairs = [
        f"{name.rstrip('_')} = {_shown(one[name])}"
        for name in shared
        if name.rstrip("_") not in silent and one[name] != ""
    ]
    return join([*parts, tag("p", " · ".join(pairs), class_="note")], "\n")


def software_section(run: Run) -> Html:
    """Versions, commit and machine of every job; several where jobs ran on different ones."""
    origins = [job.origin for job in run.jobs if job.origin] or [run.record.origin]
    rows = []
    for key in VERSIONS:
        counts = Counter(str(origin[key]) for origin in origins if origin.get(key) is not None)
        values = list(counts) if len(counts) < 2 else [f"{v} ({counted(n, 'job')})" for v, n in counts.items()]
        rows.append([key, ", ".join(values) or "not recorded"])
    rows += [["jobs", _jobs(run)], ["seeds", ", ".join(map(str, run.seeds))], ["time", _time(run)]]
    return table(["", ""], rows, names=2, class_="words plain")


def rerun_section(run: Run) -> Html:
    """The study file and the command."""
    if run.record.validation is not None:
        return tag("pre", validation_command(run))
    steps = [
        "Save this as study.toml and adapt the paths to your machine.",
        Html(tag("pre", study_toml(run))),
        "Run it. With the same versions and number of threads the results are bit-identical.",
        Html(tag("pre", "jigsawmil study study.toml --out rerun\njigsawmil report rerun")),
    ]
    return join([step if isinstance(step, Html) else tag("p", step) for step in steps], "\n")


def phantom_section(run: Run) -> Html:
    """A warning where slides are artificial; empty where they are real."""
    made = [name for name in run.cohorts if is_phantom(run.record.cohorts[name].encoder)]
    if not made:
        return Html()
    verb, result = ("is", "it says") if len(made) == 1 else ("are", "they say")
    words = f"{', '.join(made)} {verb} synthetic (docs/phantoms.md); {result} nothing about real tissue."
    return tag("section", tag("h3", "Synthetic cohort"), tag("p", words), class_="missing")


def missing_section(run: Run) -> Html:
    """What a reader would expect and does not find; empty where nothing is missing."""
    items = [f"Failed: {', '.join(jobs)}. {why}" for why, jobs in by_reason(run.failed).items()]
    for cohort in run.cohorts:
        summary = run.summary[run.summary["cohort"] == cohort] if len(run.summary) else run.summary
        judged = set(summary["variant"]) if len(summary) else set()
        absent = [name for name in run.variants if name not in judged]
        if not judged:
            items.append(f"{cohort}: no method has finished all folds, so none is evaluated.")
        elif absent:
            items.append(f"{cohort}: not evaluated, because some folds are missing: {', '.join(absent)}.")
    if not items:
        return Html()
    items.append("Run the same study again: only what is missing runs.")
    return tag("section", tag("h3", "What is missing"), listed(items), class_="missing")


def _presets(variants: Iterable[Settings]) -> str:
    """Which preset the variants took, and what none of them took from it."""
    found = [settings.nearest_preset for settings in variants]
    name = Counter(preset for preset, _ in found).most_common(1)[0][0]
    if any(preset != name for preset, _ in found):
        return "The variants use different presets."
    first = found[0][1]
    shared = [key for key in first if all(own.get(key) == first[key] for _, own in found)]
    but = [f"{key.rstrip('_')} = {_shown(first[key])}" for key in shared]
    return f"Preset {name}" + (f", but {', '.join(but)}." if but else ".")


def _loss(run: Run, variant: str) -> str:
    """What a variant minimises; empty if its cohorts' tasks have one loss each."""
    settings = known_settings(run.settings[variant])
    loss, own = settings.model.loss, ", unless the model has a loss of its own" * peek_method(settings.method).foreign
    found = {get_task(run.task(cohort)).loss_words(loss): None for cohort in run.cohorts}
    return "".join(f" Loss: {words}{own}." for words in found if words)


def _chosen(run: Run, variant: str) -> str:
    """What a variant chose from; empty if it chose nothing."""
    if variant not in run.record.choices:
        return ""
    choice = known_choice(run.record.choices[variant])
    options = "; ".join(f"{name}: {', '.join(map(_shown, values))}" for name, values in choice.options.items())
    times = f", {choice.repeats} times" * (choice.repeats > 1)
    return (
        f" Chosen in each fold: {options}, by cross-validation in {choice.folds} inner folds of the training "
        f"patients{times}. The description above is of the default settings."
    )


def _titled(name: str, settings: Mapping[str, Any]) -> str:
    return name if name == settings.get("method") else f"{name} ({settings.get('method')})"


def _jobs(run: Run) -> str:
    control = len(run.files.control.finished_jobs())
    words = counted(len(run.jobs), "job") + (f", and {control} of the control" if control else "")
    expected = run.record.jobs
    return words if expected in (None, len(run.jobs) + control) else f"{words}, of {expected} planned"


def _time(run: Run) -> str:
    if run.record.validation is not None:
        return f"{duration(sum(float(job.seconds.get('predict') or 0) for job in run.jobs))} of prediction"
    fit = sum(float(job.seconds.get("fit") or 0) for job in run.jobs)
    predict = sum(float(job.seconds.get("predict") or 0) for job in run.jobs)
    epochs = sum(int(job.seconds.get("epochs") or 0) for job in run.jobs)
    return f"{duration(fit)} of training ({epochs:,} epochs), {duration(predict)} of prediction, sum over all jobs"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
