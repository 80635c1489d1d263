"""What is wrong between a label table and its features: every problem by name, all at once, before anything runs."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from ..bags.formats import BagInfo
from ..bags.spelling import plain_id, spellings
from ..bags.survey import Survey
from ..errors import FeatureError, LabelError
from ..tasks import Task, choose_task, sort_classes
from .covariates import Covariate, check_patients, recognise
from .feature_audit import mixed_features, same_features, slide_faults
from .labels import COVARIATE, LabelTable, listed
from .overview import Overview, overview
from .positive import is_guess
from .tables import MISSING, is_unknown

Severity = Literal["error", "note"]
About = Literal["labels", "features"]

# Every kind of problem: an error stops, a note is recorded.
PROBLEMS: dict[str, tuple[Severity, About]] = {
    "table": ("note", "labels"),
    "no-name": ("error", "labels"),
    "no-patient": ("error", "labels"),
    "duplicated": ("note", "labels"),
    "conflicting-labels": ("error", "labels"),
    "conflicting-patients": ("error", "labels"),
    "similar-patients": ("error", "labels"),  # a note under allow_similar
    "similar-slides": ("note", "labels"),
    "similar-sites": ("note", "labels"),
    "similar-labels": ("error", "labels"),
    "missing-label": ("note", "labels"),
    "missing-target": ("note", "labels"),
    "no-labels": ("error", "labels"),
    "no-slides": ("note", "labels"),
    "one-class": ("error", "labels"),
    "not-classes": ("error", "labels"),
    "single-member": ("note", "labels"),
    "no-number": ("error", "labels"),
    "no-time": ("error", "labels"),
    "no-event": ("error", "labels"),
    "constant": ("error", "labels"),
    "several-outcomes": ("error", "labels"),
    "mixed-patients": ("note", "labels"),
    "covariate": ("error", "labels"),
    "missing-covariate": ("note", "labels"),
    "no-features": ("error", "features"),  # these three are notes under skip_missing
    "unreadable": ("error", "features"),
    "empty": ("error", "features"),
    "no-label": ("note", "features"),
    "mixed-dimensions": ("error", "features"),
    "mixed-encoders": ("error", "features"),
    "mixed-encodings": ("note", "features"),
    "mixed-magnifications": ("error", "features"),
    "near-magnifications": ("note", "features"),
    "unknown-magnification": ("note", "features"),
    "not-finite": ("error", "features"),  # these and others are left out under skip_bad, see BAD
    "zero-features": ("error", "features"),
    "constant-features": ("error", "features"),
    "far-coordinates": ("error", "features"),
    "stacked": ("note", "features"),
    "piled": ("note", "features"),
    "outside-slide": ("note", "features"),
    "other-units": ("note", "features"),
    "other-grid": ("error", "features"),
    "zero-patches": ("note", "features"),
    "shared-places": ("note", "features"),
    "single-patch": ("note", "features"),
    "same-features": ("error", "features"),  # a note under allow_similar
    "copied-slides": ("note", "features"),
    "no-coordinates": ("note", "features"),
    "nothing-left": ("error", "features"),
}
BAD = {  # left out under skip_bad, and the reason in a phrase
    "unreadable": "the feature file cannot be read",
    "empty": "no patch in the feature file",
    "not-finite": "NaN or infinity in the feature file",
    "zero-features": "all features are 0",
    "constant-features": "all patches have the same features",
    "far-coordinates": "implausible coordinates",
    "stacked": "all patches have the same position",
    "piled": "very many patches at the same position",
    "outside-slide": "patches outside of the slide",
    "other-units": "coordinates in other units",
}
# Those that leave slides out of the cohort where they do not stop it, and the reason in a phrase.
LEAVES_OUT = {
    "missing-label": "no label in the table",
    "no-label": "not in the table",
    "no-features": "no feature file",
    "unreadable": BAD["unreadable"],
    "empty": BAD["empty"],
}
SAYS_WHY = ("missing-label",)  # kinds whose details go with the reason
BLIND = (
    "Methods that use no positions, such as abmil (--methods abmil, --method abmil), can be trained on them; graph and "
    "jigsaw methods cannot."
)
SKIPPABLE = ("no-features", "unreadable", "empty")
ALLOWED = ("similar-patients", "same-features")  # notes under allow_similar


class LeftOut(NamedTuple):
    name: str
    reason: str


class Entry(NamedTuple):
    """A slide with a label and with features. label: as written in the table."""

    slide_id: str
    patient_id: str
    label: str
    site: str | None
    path: Path | None
    survey: Survey
    covariates: tuple[str, ...] = ()  # cells, in the order of the columns

    @property
    def info(self) -> BagInfo:
        return self.survey.info


@dataclass(frozen=True)
class Problem:
    """names: all of them. details: none, or a remark on each name."""

    kind: str
    severity: Severity
    about: About
    text: str
    names: tuple[str, ...]
    details: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        shown = [f"{n} ({d})" for n, d in zip(self.names, self.details, strict=True)] if self.details else self.names
        return f"{self.text}{': ' + listed(shown) if shown else ''}. {self.remedy}".rstrip()


@dataclass(frozen=True)
class Audit:
    """What a label table and a folder of features hold together, and what is wrong with them; made by `check`.

    entries: the slides that can be used, sorted by slide id. problems: errors, which stop a run, and notes.
    """

    source: str
    problems: tuple[Problem, ...]
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    task: Task
    overview: Overview = field(default_factory=Overview)
    covariates: tuple[Covariate, ...] = ()
    label_columns: Mapping[str, str] = field(default_factory=dict)  # options that name the columns of the label

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def notes(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "note")

    @property
    def classes(self) -> dict[str, int]:
        """Number of usable slides for each label; nothing of a task that predicts no class."""
        if not self.task.of_classes:
            return {}
        counts = Counter(entry.label for entry in self.entries)
        return {name: counts[name] for name in sort_classes(counts)}

    def summary(self, *, overview: bool = True, usable: bool = True) -> str:
        """Plain text; lists of names are cut at ten (`problems` has them whole). overview: also what was taken. usable:
        begin with what can be used, not with what is wrong."""
        patients = {entry.patient_id for entry in self.entries}
        able = f"{_count(self.entries, 'slide')} of {_count(patients, 'patient')} can be used"
        lines = [f"{self.source}: {able if usable else 'cannot be used as given'}."]
        lines += [self.task.label_counts([entry.label for entry in self.entries])] if self.entries else []
        lines += self.overview.lines() if overview else []
        for title, problems in (("error", self.errors), ("note", self.notes)):
            lines += [f"{_count(problems, title)}:"] if problems else []
            lines += [f"  - {problem}" for problem in problems]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, with every name, for programs."""
        content = {
            "source": self.source,
            "slides": len(self.entries),
            "patients": len({entry.patient_id for entry in self.entries}),
            "classes": self.classes,
            **self.overview.to_dict(),
            "problems": [vars(problem) for problem in self.problems],
            "left_out": [item._asdict() for item in self.left_out],
        }
        return json.dumps(content, indent=2)

    def raise_errors(self) -> None:
        """One exception for all errors together, nothing where there are only notes."""
        if self.errors:
            kind = LabelError if any(problem.about == "labels" for problem in self.errors) else FeatureError
            raise kind(self.summary(overview=False, usable=False))


def audit(
    labels: LabelTable,
    found: Mapping[str, Path | None],
    surveys: Mapping[str, Survey | FeatureError],
    *,
    skip_missing: bool = False,
    skip_bad: bool = False,
    allow_similar: bool = False,
    positive: str | None = None,
    ordinal: bool = False,
    task: str | None = None,
) -> Audit:
    """Hold a table against the features found for it.

    found: slide id -> file, for all files. surveys: what they hold, or an error, at least for labelled slides found.
    skip_missing: labelled slides without usable features are noted and left out instead of stopping. skip_bad: those
    whose features are bad, see `BAD`. allow_similar: patients whose ids differ only in spelling, or with the same
    features, are noted instead of stopping. positive, ordinal, task: what the labels are for, as for `Cohort.read`.
    """
    slides = _slides(labels)
    labelled = {slide_id: row for slide_id, row in slides.items() if row.label}
    readable: dict[str, Survey] = {}
    broken: dict[str, str] = {}
    for slide_id in sorted(labelled.keys() & found.keys()):
        survey = surveys[slide_id]
        if isinstance(survey, FeatureError):
            broken[slide_id] = str(survey)
        else:
            readable[slide_id] = survey
    entries = tuple(
        Entry(
            slide_id, *labelled[slide_id][:2], labelled[slide_id].site or None, found[slide_id], survey,
            labelled[slide_id].covariates,
        )
        for slide_id, survey in readable.items()
        if survey.info.n > 0
    )  # fmt: skip
    faults = list(slide_faults(entries))
    bad = {name: problem.kind for problem in faults if skip_bad and problem.kind in BAD for name in problem.names}
    entries = tuple(entry for entry in entries if entry.slide_id not in bad)
    empty = [slide_id for slide_id, survey in readable.items() if survey.info.n == 0]
    absent = sorted(labelled.keys() - found.keys())
    hint = describe_mismatch(sorted(labelled), sorted(found)) if absent else ""
    skipped = (SKIPPABLE if skip_missing else ()) + (tuple(BAD) if skip_bad else ())
    tell = _Teller(skipped + (ALLOWED if allow_similar else ()))
    _table_problems(tell, labels, slides)
    # Where no slide can be used, the table alone may still be seen to hold one class.
    pairs = [e[1:3] for e in entries] or [row[:2] for row in labelled.values()]
    kind = choose_task((label for _, label in pairs), task, ordinal)
    _label_problems(tell, pairs, labels.level, kind)
    _similar_names(tell, entries)
    columns = _covariates(tell, labels.covariates, entries)
    tell("no-features", "labelled slide", "without a feature file", absent, hint + tell.way_out("no-features"))
    tell("unreadable", "labelled slide", "with an unreadable file", broken, tell.way_out("unreadable"), broken.values())
    tell("empty", "labelled slide", "without a single patch", empty, tell.way_out("empty"))
    tell("no-label", "feature file", "without a row in the table", sorted(found.keys() - slides.keys()))
    for problem in (*faults, *mixed_features(entries), *same_features(entries)):
        if problem.one:
            left = skip_bad and problem.kind in BAD
            tell(*problem._replace(remedy="They are left out." if left else problem.remedy))
        else:
            tell.once(problem.kind, problem.text, problem.remedy, problem.names, problem.details)
    unplaced = [entry.slide_id for entry in entries if not entry.info.placed]
    tell("no-coordinates", "slide", "with features without coordinates", unplaced, BLIND)
    if labelled and not entries:
        tell.once("nothing-left", "No slide has both a label and usable features")
    reasons = {**LEAVES_OUT, **(BAD if skip_bad else {})}
    left_out = [
        LeftOut(name, f"{reason} ({why})" if problem.kind in SAYS_WHY and why else reason)
        for problem in tell.problems
        if problem.kind in reasons and problem.severity == "note"
        for reason in [reasons[problem.kind]]
        for name, why in zip(problem.names, problem.details or [""] * len(problem.names), strict=True)
    ]
    once = tuple({entry.name: entry for entry in reversed(left_out)}.values())[::-1]  # by its first reason
    classes = _two_classes([entry.label for entry in entries], kind, positive)
    guessed = bool(classes) and positive is None and is_guess(classes)
    seen = overview(labels.columns, entries, classes[-1] if classes else None, guessed)
    return Audit(labels.source, tuple(tell.problems), entries, once, kind, seen, columns, labels.label_columns)


def _two_classes(labels: Sequence[str], task: Task, positive: str | None) -> Sequence[str]:
    """The classes, the positive one last; none if no class is called positive, or if the labels do not fit the task."""
    try:
        classes = task.targets(labels, positive).classes if labels else ()
    except LabelError:
        return ()
    return classes if classes and task.positive(classes) is not None else ()


class _Row(NamedTuple):
    patient_id: str = ""
    label: str = ""
    site: str = ""
    covariates: tuple[str, ...] = ()


class _Teller:
    """Collects problems; severities are defined in PROBLEMS."""

    def __init__(self, allowed: Collection[str]) -> None:
        """allowed: kinds that are noted and do not stop."""
        self.problems: list[Problem] = []
        self.allowed = allowed

    def way_out(self, kind: str) -> str:
        if kind in self.allowed:
            return "They are left out."
        option = "--skip-bad (skip_bad=True)" if kind in BAD else "--skip-missing (skip_missing=True)"
        again = " again" if kind in BAD else ""
        return f"Extract them{again}, or leave them out with {option}; reports then name them."

    def once(
        self, kind: str, text: str, remedy: str = "", names: Iterable[str] = (), details: Iterable[str] = ()
    ) -> None:
        severity, about = PROBLEMS[kind]
        if kind in self.allowed:
            severity = "note"
        self.problems.append(Problem(kind, severity, about, text, tuple(names), tuple(details), remedy))

    def __call__(
        self, kind: str, one: str, text: str, names: Iterable[str], remedy: str = "", details: Iterable[str] = ()
    ) -> None:
        """A problem of things with names, if there are any."""
        if names := tuple(names):
            self.once(kind, f"{_count(names, one)} {text}", remedy, names, details)


def _slides(labels: LabelTable) -> dict[str, _Row]:
    """Slide id -> what the table says: of each cell, the first that is not missing."""
    slides: dict[str, _Row] = {}
    columns = [labels.rows[name] for name in ("slide_id", "patient_id", "label", "site")]
    clinical = zip(*(labels.rows[COVARIATE + name] for name in labels.covariates), strict=True)
    for slide_id, *cells in zip(*columns, clinical if labels.covariates else [()] * len(labels.rows), strict=True):
        if slide_id:
            before = slides.get(slide_id, _Row())
            first = before.covariates or ("",) * len(cells[-1])
            merged = tuple(old or new for old, new in zip(first, cells[-1], strict=True))
            named = (before.patient_id, before.label, before.site)
            patient, label, site = (old or new for old, new in zip(named, cells[:3], strict=True))
            slides[slide_id] = _Row(patient, label, site, merged)
    return slides


def _covariates(tell: _Teller, names: Sequence[str], entries: Sequence[Entry]) -> tuple[Covariate, ...]:
    """What the clinical columns hold, and what is wrong with them."""
    found = []
    for index, name in enumerate(names if entries else ()):
        cells = [entry.covariates[index] for entry in entries]
        try:
            found.append(recognise(name, cells))
            check_patients(name, ((entry.patient_id, cell) for entry, cell in zip(entries, cells, strict=True)))
        except LabelError as error:
            tell.once("covariate", str(error).rstrip("."))
        blank = [entry.slide_id for entry, cell in zip(entries, cells, strict=True) if not cell]
        tell("missing-covariate", "slide", f"without {name}", blank, "Models take the mean of their training fold.")
    return tuple(found)


def _table_problems(tell: _Teller, labels: LabelTable, slides: Mapping[str, _Row]) -> None:
    """What is wrong with the table by itself."""
    for note in labels.notes:
        tell.once("table", note.rstrip("."))
    rows, level = labels.rows, labels.level
    named, nameless = rows[rows["slide_id"] != ""], rows[rows["slide_id"] == ""]
    lost = nameless if level == "slide" else nameless[nameless["patient_id"] == ""]
    idle = nameless[(nameless["patient_id"] != "") & (nameless["label"] != "")]
    twice = named[named.duplicated(["slide_id", "patient_id", "label"])]
    blank = [slide_id for slide_id, row in slides.items() if not row.label]

    def contradictions(column: str) -> dict[str, str]:
        values: dict[str, dict[str, None]] = defaultdict(dict)
        for slide_id, value in zip(named["slide_id"], named[column], strict=True):
            if value:
                values[slide_id][value] = None
        return {slide_id: " / ".join(found) for slide_id, found in values.items() if len(found) > 1}

    clash, shared = contradictions("label"), contradictions("patient_id")
    if level == "patient":  # the name that stands beside the label in the table
        clash = {slides[slide_id].patient_id: found for slide_id, found in clash.items()}

    lines = [f"line {line}" for line in lost["line"]]
    tell("no-name", "row", f"without a {level}", lines, "Fill in the cell, or delete the row.")
    strays = [slide_id for slide_id, row in slides.items() if not row.patient_id]
    tell("no-patient", "slide", "without a patient", strays, "Fill in the patient; folds are made by patient.")
    names = dict.fromkeys(twice["slide_id" if level == "slide" else "patient_id"])
    tell("duplicated", level, "with the same row more than once", names, "It counts once.")
    tell("conflicting-labels", level, "with more than one label", clash, "Correct the table.", clash.values())
    tell("conflicting-patients", "slide", "with more than one patient", shared, "Correct the table.", shared.values())
    written = _written(labels)
    whys = [repr(written[name]) if name in written else "an empty cell" for name in blank] if written else ()
    tell("missing-label", "slide", "without a label", blank, details=whys)
    if level == "patient":
        tell("no-slides", "labelled patient", "without a slide", dict.fromkeys(idle["patient_id"]))
    if len(blank) == len(slides):
        tell.once("no-labels", f"No slide has a label in the column {labels.columns['label']!r}")


def _written(labels: LabelTable) -> dict[str, str]:
    """Slide id -> a label that says that nobody knows it, as written."""
    if "written" not in labels.rows:
        return {}
    pairs = zip(labels.rows["slide_id"], labels.rows["written"], strict=True)
    return {slide_id: cell for slide_id, cell in pairs if slide_id and is_unknown(cell) and cell not in MISSING}


def _similar_names(tell: _Teller, entries: Sequence[Entry]) -> None:
    """Patients, slides and sites that are most likely one, written in several ways."""
    patients = [entry.patient_id for entry in entries]
    people = [" / ".join(names) for names in spellings(patients)]
    remedy = (
        "If they are one person, slides of that person could be on both sides of a split: write the id in one way. "
        "If they are different people, give --allow-similar (allow_similar=True)."
    )
    tell("similar-patients", "patient id", "written in several ways", people, remedy)
    own = set() if patients != [entry.slide_id for entry in entries] else set(people)
    slides = [" / ".join(names) for names in spellings((e.slide_id for e in entries), _plain_slide)]
    slides = [names for names in slides if names not in own]
    tell("similar-slides", "slide id", "written in several ways", slides, "Is one slide listed more than once?")
    sites = [" / ".join(names) for names in spellings(entry.site or "" for entry in entries)]
    tell("similar-sites", "site", "written in several ways", sites, "Folds by site would take them for several sites.")


def _plain_slide(slide_id: str) -> str:
    return plain_id(slide_id, barcode=False)


def _label_problems(tell: _Teller, slides: Sequence[tuple[str, str]], level: str, task: Task) -> None:
    """What is wrong with the labels. slides: (patient_id, label) of each."""
    for problem in task.label_problems(slides):
        tell.once(*problem)
    labels_of: dict[str, set[str]] = defaultdict(set)
    for patient_id, label in slides:
        labels_of[patient_id].add(label)
    if level == "slide":
        both = [patient_id for patient_id, found in labels_of.items() if len(found) > 1]
        tell("mixed-patients", "patient", "with slides of more than one label", both)


def describe_mismatch(table: Sequence[str], features: Sequence[str]) -> str:
    """Where few names of slides in the table and of feature files agree: two of each, and what differs. Else ""."""
    common = len(set(table) & set(features))
    if not table or not features or 2 * common >= min(len(table), len(features)):
        return ""
    edits: list[tuple[str, Callable[[str], str]]] = [
        ("upper and lower case", str.casefold),
        ("leading zeros", lambda name: name.lstrip("0")),
        ("blanks, dashes, dots or underscores", lambda name: re.sub(r"[\W_]+", "", name)),
    ]
    guesses = [
        (len(set(map(edit, table)) & set(map(edit, features))), f"they differ in {what}") for what, edit in edits
    ]
    for short, long, side in ((table, features, "feature files"), (features, table, "slides of the table")):
        for where, turn in (("end", 1), ("beginning", -1)):
            extras = _extras([name[::turn] for name in short], [name[::turn] for name in long])
            if extras:
                example = Counter(extras).most_common(1)[0][0][::turn]
                guesses.append((len(extras), f"the {side} carry more at the {where}, such as {example!r}"))
    agree, guess = max(guesses, key=lambda pair: pair[0])
    shown = [", ".join(map(repr, names[:2])) for names in (table, features)]
    why = f"; {guess} ({agree} would agree without)" if agree > common else ""
    return f"Only {common} of {_count(table, 'name')} agree: the table has {shown[0]}, the features {shown[1]}{why}. "


def _extras(short: Sequence[str], long: Sequence[str]) -> list[str]:
    """What a long name adds to a short one, from a mark on that is neither letter nor digit; case set aside."""
    known = {name.lower() for name in short}
    extras = []
    for name in long:
        cuts = (cut for cut in range(len(name) - 1, 0, -1) if not name[cut].isalnum() and name[:cut].lower() in known)
        if cut := next(cuts, None):
            extras.append(name[cut:])
    return extras


def _count(items: Collection[object], one: str) -> str:
    return f"{len(items)} {one}{'' if len(items) == 1 else 's'}"
