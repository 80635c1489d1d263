"""A method in words, and a run as the study file that makes it again."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..config import settings_of
from ..errors import StudyError
from ..nn.convs import CONVS
from ..nn.factories import options_of
from ..nn.jigsaws import JIGSAWS
from ..nn.options import COVARIATES, DEFAULT_METHOD, METHODS, UNLOADED, Method, peek_method
from ..nn.poolings import POOLINGS
from ..study.run import Run
from ..train.choice import Choice
from ..train.config import TrainConfig
from ..train.ensemble import parts_held_out
from ..train.settings import Settings


def method_words(settings: Mapping[str, Any]) -> str:
    """What a variant is: graph, encoder, pooling, jigsaw and the policy of lambda."""
    s = known_settings(settings)
    method, model = peek_method(s.method), s.model
    if method.foreign:
        return _foreign_words(s, method)
    if s.method == COVARIATES:
        return "A regression on the clinical covariates alone; the model does not use slides."
    if method.members:
        kinds = [method_words(own.flat()) for own in s.each_member()[:: s.members]]
        return "Several kinds of model whose logits are averaged: " + " ".join(
            f"({i}) {k}" for i, k in enumerate(kinds, 1)
        )
    pooled = "All slides of a patient are pooled into one prediction." * (s.level == "patient")
    if method.regression:
        value = "the largest value of each feature over its patches" if method.pooling == "max" else "its mean features"
        beside = " and the clinical covariates" if model.covariates else ""
        words = f"each slide is described by {value}{beside}, standardised, as input of a regression"
        return f"No network: {words}. {pooled}"
    layers = f"{model.layers} layer{'s' * (model.layers != 1)}"
    if method.graph:
        heads = f", {model.heads} heads" if model.heads > 1 else ""
        parts = [f"{s.graph.describe()}; {layers} of {CONVS[model.conv].describe(model)}, width {model.hidden}{heads}"]
        if model.kinds:
            parts.append(f"in addition, how often {model.kinds} kinds of patches are neighbours of each other")
    else:
        parts = [f"each patch is processed by itself, by {layers} of a perceptron of width {model.hidden}"]
    parts.append(POOLINGS[method.pooling_with(model)].describe(model))
    jigsaw = f"jigsaw: {JIGSAWS[model.jigsaw].describe(model)}; {s.train.lambda_.rule().describe()}"
    parts.append(jigsaw if method.jigsaw else "no jigsaw")
    if model.covariates:
        parts.append("the clinical covariates are joined to the vector of the slide before the head")
    return f"{'. '.join(part[0].upper() + part[1:] for part in parts)}. {pooled}".strip()


def _foreign_words(settings: Settings, method: Method) -> str:
    """Of a model that is not ours: who makes it, and with which options."""
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options_of(settings.model.options).items())
    words = f"A model from outside this package, made by {settings.method}"
    words += f" with {options}. " if options else " with its own defaults. "
    words += f"Its batches have a graph: {settings.graph.describe()}. " if method.graph else ""
    return words + "All slides of a patient are pooled into one prediction." * (settings.level == "patient")


def training_words(settings: Mapping[str, Any]) -> str:
    level, train = known_settings(settings).level, known_settings(settings).train
    members, parts = len(known_settings(settings).each_member()), parts_held_out(known_settings(settings))
    if peek_method(known_settings(settings).method).regression:
        several = f"{members} models, whose logits are averaged{_own_part(train)}; each " if members > 1 else ""
        return (
            f"{several or 'A regression '}fitted at once, with the ridge penalty that has the least loss in a "
            f"cross-validation over the training patients{', classes weighted by rarity' * train.class_weights}."
        )
    held = train.validation if members == 1 else 1 / parts
    if train.patience:
        stop = (
            f"at most {train.epochs} epochs; {held:.0%} of the training patients are held out for validation; training "
            f"stops when their loss has not fallen by {train.margin:g} for {train.patience} epochs; the best "
            "epoch is kept"
        )
    else:
        stop = f"{train.epochs} epochs on all training slides, the last weights are kept"
    if members > 1:
        stop = f"{members} models, whose logits are averaged, each with its own seed{_own_part(train)}; {stop}"
    weights = ", classes weighted by rarity" if train.class_weights else ""
    batch = f"{train.batch_size} {level}{'s' * (train.batch_size != 1)} per step"
    return f"Adam, learning rate {train.lr:g}, weight decay {train.weight_decay:g}, {batch}{weights}; {stop}."


def _own_part(train: TrainConfig) -> str:
    return " and its own held-out part of the training patients" if train.patience else ""


def known_settings(settings: Mapping[str, Any]) -> Settings:
    """Those of a job that are settings of the method, without seed and marks."""
    names = {setting.name for setting in settings_of(Settings)}
    method = str(settings.get("method", DEFAULT_METHOD))
    if METHODS.peek(method) is None:  # known only to the process that registered it
        METHODS.register(method, UNLOADED)
    return Settings(**{name: value for name, value in settings.items() if name in names})


def kind_words(settings: Mapping[str, Any]) -> str:
    """A kind of model in a committee: what its members have that other kinds may not."""
    own = known_settings(settings)
    graph = [f"k = {own.graph.k}", own.model.conv] if own.needs_graph else []
    kinds = [f"kinds = {own.model.kinds}"] if own.needs_graph and own.model.kinds else []
    return ", ".join([own.method, *graph, *kinds])


def known_choice(values: Mapping[str, Any]) -> Choice:
    """What a variant chose from, as study.json has it."""
    return Choice(**{field.name: values[field.name] for field in fields(Choice) if field.name in values})


def study_toml(run: Run) -> str:
    """A study file that asks for this run again."""
    settings = {name: known_settings(own) for name, own in run.settings.items()}
    default = Settings().flat()
    differ, shared = different(settings)
    one = settings[run.jobs[0].variant].flat()
    folds = {cohort: _given_folds(run, cohort) for cohort in run.cohorts}
    made = any(given is None for given in folds.values())
    lines = [f"folds = {max(job.fold for job in run.jobs) + 1}"] * made + [f"seeds = {list(run.seeds)}"]
    lines += ["by_site = true"] * run.record.by_site
    choices = {name: known_choice(values) for name, values in run.record.choices.items()}
    for choice in list(choices.values())[:1]:
        lines += [f"choose_{name} = {getattr(choice, name)}" for name in ("folds", "repeats", "most")]
        lines += ["choose_only = true"]  # the variants with default settings are named below
    lines += ["shuffle_control = true"] * (not run.control.empty)
    lines += ["attention = true"] * any(job.files.attention.is_file() for job in run.jobs)
    for cohort in run.cohorts:
        source = run.record.cohorts[cohort]
        lines += ["", f"[cohorts.{_text(cohort)}]"]
        given = {"labels": source.labels, "features": source.features, **source.options.given()}
        if folds[cohort] is not None:
            given["splits"] = str(folds[cohort])
        lines += [f"{key} = {_text(value)}" for key, value in given.items()]
    common = {name: one[name] for name in shared if one[name] != default[name] or name == "method"}  # else its name is
    own: dict[str, dict[str, Any]] = {
        name: {key: settings[name].flat()[key] for key in differ} for name in run.variants
    }
    for name, choice in choices.items():
        own[name] |= {f"choose.{key}": list(values) for key, values in choice.options.items()}
    tables = {"defaults": common} | {f"variants.{_text(name)}": values for name, values in own.items()}
    for title, values in tables.items():
        lines += ["", f"[{title}]"] + [f"{key.rstrip('_')} = {_text(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def different(variants: Mapping[str, Settings]) -> tuple[list[str], list[str]]:
    """Names of the settings in which variants differ, and of those that all share."""
    flat = [settings.flat() for settings in variants.values()]
    differ = [name for name in flat[0] if len({values[name] for values in flat}) > 1]
    return differ, [name for name in flat[0] if name not in differ]


def _given_folds(run: Run, cohort: str) -> Path | None:
    """The file of folds that no seed made: they were given, and have to be given again."""
    for file in run.files.fold_files(cohort):
        try:
            if dict(json.loads(file.read_text())).get("seed") is None:
                return file.resolve()
        except (ValueError, TypeError) as error:
            raise StudyError(f"{file}: not a file of folds ({error}). Remove it and run the study again.") from error
    return None


def _text(value: Any) -> str:
    """A value or a quoted key as TOML writes it; JSON's strings, numbers and booleans are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
