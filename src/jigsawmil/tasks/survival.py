"""Time until an event, such as death or relapse, of cases some of which are censored: followed to some time without it.

In text a target is the time and 1 (the event happened then) or 0 (censored then): `12.5 1`.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import statistics
from ..config import require
from ..errors import LabelError
from .measure import resampled_measure, resampled_test
from .numeric import not_numbers, quantile_groups
from .outcome import counts_words, event_of, median_survival, outcome, outcome_words
from .task import Task
from .terms import Booleans, Floats, Integers, LabelCells, LabelProblem, Sorted, Targets

if TYPE_CHECKING:
    from .heads import Head

# Names of columns as cBioPortal, nnMIL, PathBench, MCAT and PORPOISE write them, in lower case
TIME_NAMES = (
    *("os_months", "os_days", "os_time", "time", "survival_months", "survival_days", "survival_time"),
    *("overall_survival_months", "pfs_months", "dfs_months", "dss_months", "months", "days"),
)
EVENT_NAMES = (
    *("os_status", "os_event", "event", "status", "vital_status", "death", "censorship", "censored"),
    *("overall_survival_status", "pfs_status", "dfs_status", "dss_status"),
)
HORIZONS = 15  # at most so many times at which curves are reported
HALVES_FROM = 20  # patients with (or without) the event, from which folds also spread early and late evenly
STRATA = ("censored, early", "censored, late", "event, early", "event, late")


class SurvivalTask(Task):
    """A curve of survival and a risk. Its outputs are the risk (the mean log cumulative hazard) and the survival at the
    horizons: quantiles of the event times of the cohort, at which curves are reported and judged;
    no model learns of them.
    """

    name = "survival"
    measure = resampled_measure(
        "c_index", "C-index", "time to an event", chance=0.5, least=0.0,
        intervals=("c_index", "uno_c", "dynamic_auc", "integrated_brier", "brier_gain"),
    )  # fmt: skip
    losses = {  # noqa: RUF012
        "nll": "discrete-time negative log-likelihood over intervals between quantiles of the event times of training",
        "cox": "Cox's partial likelihood, with a baseline hazard that is estimated before each epoch",
    }
    headers = {  # noqa: RUF012
        "c_index_patient": "C by\npatient",
        "uno_c": "Uno's C",
        "dynamic_auc": "AUROC\nover time",
        "integrated_brier": "integr.\nBrier",
        "brier_gain": "Brier gain\nover K.-M.",
    }
    sections = ("risk-groups", "horizons")
    rows_title = "outcome"
    column_options = ("time_column", "event_column")
    horizons: tuple[float, ...] = ()

    # Labels

    def pick_columns(self, table: LabelCells, named: Mapping[str, Any], taken: set[str | None]) -> tuple[str, ...]:
        known = {"time": TIME_NAMES, "event": EVENT_NAMES}
        found = {role: table.pick(role, names, named[f"{role}_column"]) for role, names in known.items()}
        for role, name in found.items():
            if name is None:
                raise LabelError(
                    f"{table.name}: no column of {role}s is recognised. Found {table.found()}. Name it: {role}_column= "
                    f"or --{role}-column."
                )
        return tuple(str(name) for name in found.values())

    def join_cells(self, columns: Sequence[str], cells: Sequence[str]) -> str:
        """A column called censorship or censored says the opposite of one of events."""
        time, event = cells
        if not time or not event:
            return ""
        happened = event_of(event)
        if happened is not None and columns[1].lower().startswith("censor"):
            happened = not happened
        return f"{time} {event if happened is None else int(happened)}"

    def text_of(self, label: object) -> str:
        """Also a pair of time and event, or a row of scikit-survival's structured array."""
        if isinstance(label, np.void) and label.dtype.names:
            event, time = (label[name] for name in label.dtype.names)
            return f"{float(time)!r} {int(event)}"
        if isinstance(label, tuple | list | np.ndarray):
            time, event = label
            return f"{float(time)!r} {event if isinstance(event, str) else int(event)}"
        return str(label).strip()

    def targets(self, labels: Sequence[str], positive: str | None = None) -> Targets:
        if positive is not None:
            raise LabelError(
                f"positive={positive!r} applies to classification only; the task is {self.name}. Leave it out."
            )
        values = self.values_of(labels, ())
        times = values[values[:, 1] > 0, 0]
        if not len(times):
            raise LabelError(f"None of {len(labels)} slides has the event: {self.name} cannot be learned.")
        shares = np.arange(1, HORIZONS + 1) / (HORIZONS + 1)
        names = dict.fromkeys(f"{time:.4g}" for time in np.quantile(times, shares) if time > 0)
        return Targets(("risk", *names), values)

    def values_of(self, labels: Sequence[str], classes: Sequence[str]) -> Floats:
        pairs = [outcome(label) for label in labels]
        if wrong := [label for label, pair in zip(labels, pairs, strict=True) if pair is None]:
            raise LabelError(
                f"{len(wrong)} of {len(labels)} labels are not pairs of time and event: "
                f"{', '.join(map(repr, wrong[:5]))}; expected a time from 0 on, and 1 for an event or "
                "0 for a censored case. Correct the table."
            )
        return np.array(pairs, dtype=np.float64).reshape(len(labels), 2)

    def label_problems(self, slides: Sequence[tuple[str, str]]) -> Iterator[LabelProblem]:
        bad: dict[str, set[str]] = {"no-time": set(), "no-event": set()}
        of_patient: dict[str, set[tuple[float, float]]] = defaultdict(set)
        for patient, label in slides:
            time, _, event = label.partition(" ")
            if not_numbers([time]) or float(time) < 0:
                bad["no-time"].add(f"{patient}: {time!r}")
            if event_of(event) is None:
                bad["no-event"].add(f"{patient}: {event!r}")
            if (found := outcome(label)) is not None:
                of_patient[patient].add(found)
        words = {"no-time": "time", "no-event": "event"}
        remedies = {
            "no-time": "Times are numbers from 0 on, in any unit. Correct the table, or name another column "
            "(--time-column).",
            "no-event": "An event is 1, true, dead, deceased or `1:...`; a censored case 0, false, alive, living, "
            "censored or `0:...`. Correct the table, or name another column (--event-column).",
        }
        for kind, names in bad.items():
            if names:
                text = f"{len(names)} {words[kind]}{'s' * (len(names) > 1)} that cannot be used"
                yield LabelProblem(kind, text, remedies[kind], tuple(sorted(names)))
        if twice := sorted(patient for patient, found in of_patient.items() if len(found) > 1):
            text = f"{len(twice)} patient{'s' * (len(twice) > 1)} with several outcomes"
            yield LabelProblem("several-outcomes", text, "A patient has one time and one event.", tuple(twice))
        outcomes = [found for own in of_patient.values() for found in own]
        if slides and not any(bad.values()) and not any(event for _, event in outcomes):
            yield LabelProblem("constant", "No slide has the event: all are censored", "Is it the right column?")

    def label_counts(self, labels: Sequence[str]) -> str:
        known = [pair for label in labels if (pair := outcome(label)) is not None]
        return f"Slides: {counts_words(np.array(known))}." if known else ""

    def cohort_rows(self, labels: Sequence[str], classes: Sequence[str]) -> list[tuple[str, Booleans]]:
        event = self.values_of(labels, classes)[:, 1] > 0
        return [("event", event), ("censored", ~event)]

    def cohort_words(self, labels: Sequence[str], classes: Sequence[str]) -> str:
        return counts_words(self.values_of(labels, classes))

    def strata(self, values: Floats) -> Integers:
        """Events and censored cases, and early and late ones of each if there are enough."""
        found = np.zeros(len(values), dtype=np.int64)
        both = len(set(values[:, 1])) > 1
        for event in (0, 1):
            own = values[:, 1] == event
            if len(set(values[own, 0])) >= HALVES_FROM or (own.any() and not both):
                found[own] = quantile_groups(values[own, 0], 2)
            found[own] += 2 * event
        return found

    def stratum_names(self, classes: Sequence[str]) -> Sequence[str]:
        return STRATA

    def check_enough(self, values: Floats, patients: ArrayLike, folds: int) -> str:
        events = len(set(np.asarray(patients)[values[:, 1] > 0]))
        if events < folds:
            have = "patients have" if events != 1 else "patient has"
            return f"{events} {have} the event; {folds} folds need one each at least. Use fewer folds."
        return ""

    def check_fold(self, train: Floats, test: Floats, classes: Sequence[str]) -> str:
        for values, part in ((train, "training"), (test, "test")):
            if not (values[:, 1] > 0).any():
                return f"all {len(values)} slides of the {part} part are censored; expected an event. Use other folds."
        return ""

    def label(self, value: Any, classes: Sequence[str]) -> str:
        time, event = value
        return f"{float(time)!r} {int(event)}"

    def label_words(self, label: str) -> str:
        found = outcome(label)
        return label if found is None else outcome_words(found)

    def truth(self, value: Any, classes: Sequence[str]) -> dict[str, float]:
        return {"time": float(value[0]), "event": int(value[1])}

    # Model

    def check_classes(self, number: int) -> None:
        require("classes", number, number >= 2, f"at least 2 for {self.name}: the risk, and times")

    def head_for(self, width: int, classes: int, loss: str = "") -> Head:
        from .value_heads import CoxHead, IntervalHead

        self.check_loss(loss)
        heads: dict[str, Callable[[int, int], Head]] = {"nll": IntervalHead, "cox": CoxHead}
        return heads[loss or next(iter(self.losses))](width, classes - 1)

    def probabilities(self, scores: Floats, classes: int) -> Floats:
        return np.hstack([scores.mean(axis=1, keepdims=True), np.exp(-np.exp(scores))])

    def validation(self, y: Floats, p: Floats, losses: Floats) -> tuple[float, float]:
        return float(np.mean(losses)), self.area(y, p)

    # Predictions

    def of(self, classes: Sequence[str]) -> Self:
        task = copy.copy(self)
        task.horizons = tuple(float(name) for name in classes[1:])
        return task

    def columns(self, classes: Sequence[str]) -> tuple[str, ...]:
        return ("risk", *(f"survival_{name}" for name in classes[1:]))

    def row(self, p: ArrayLike, classes: Sequence[str]) -> dict[str, Any]:
        values = np.asarray(p, dtype=float)
        stated = dict(zip(self.columns(classes), map(float, values), strict=True))
        return {"risk": stated.pop("risk"), "median": median_survival(classes, values), **stated}

    def said(self, p: Floats, classes: Sequence[str]) -> str:
        median = median_survival(classes, p)
        reached = f"{median:.4g}" if median is not None else f"beyond {classes[-1]}"
        return f"risk {p[0]:.2f}, median survival {reached}"

    def row_words(self, row: Mapping[str, Any], classes: Sequence[str]) -> str:
        return self.said(np.array([row[name] for name in self.columns(classes)]), classes)

    def column_words(self, column: str, classes: Sequence[str]) -> str:
        return column.replace("survival_", "survival at ")

    # Figures

    def area(self, y: ArrayLike, p: ArrayLike) -> float:
        outcome, said = np.asarray(y), np.asarray(p)
        return statistics.harrell_c(outcome[:, 0], outcome[:, 1], said[:, 0])

    def score(self, y: ArrayLike, p: ArrayLike) -> dict[str, float]:
        """Censoring is estimated from the same cases; horizons beyond the last of them are left out."""
        time, event = np.asarray(y, dtype=float).T
        own, said = (time, event), np.asarray(p, dtype=float)
        curve, horizons = self._judged(time, event, said)
        figures = {"c_index": self.area(y, p), "uno_c": statistics.uno_c(*own, *own, said[:, 0])}
        further = dict.fromkeys(("dynamic_auc", "integrated_brier", "integrated_brier_km", "brier_gain"), float("nan"))
        if len(horizons):
            known = np.tile(statistics.kaplan_meier(*own).at(horizons), (len(time), 1))
            areas = statistics.dynamic_auc(*own, *own, 1 - curve, horizons)
            ours, theirs = (statistics.integrated_brier(*own, *own, one, horizons) for one in (curve, known))
            further = {
                "dynamic_auc": float(np.nanmean(areas)) if np.isfinite(areas).any() else float("nan"),
                "integrated_brier": ours,
                "integrated_brier_km": theirs,
                "brier_gain": theirs - ours,
            }
        figures |= further
        return figures | {"undefined": float(sum(np.isnan(value) for value in figures.values()))}

    def _judged(self, time: Floats, event: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Predicted survival (case, horizon) at the horizons between the first event and the end of follow-up."""
        times = np.array(self.horizons)
        kept = (times < time.max()) & (times >= time[event > 0].min()) if event.any() else np.zeros(len(times), bool)
        return p[:, 1:][:, kept], times[kept]

    def bounds(
        self, y: Floats, p: Floats, patients: ArrayLike, *, resamples: int = 2000, seed: int = 0
    ) -> dict[str, float]:
        own, (curve, horizons) = (y[:, 0], y[:, 1]), self._judged(y[:, 0], y[:, 1], p)
        found = {
            "c_index": statistics.c_interval(*own, p[:, 0], patients, seed, resamples=resamples),
            "uno_c": statistics.c_interval(*own, p[:, 0], patients, seed, train=own, resamples=resamples),
        }
        if len(horizons):
            given = (*own, *own, curve, horizons, patients, seed)
            risks = (*own, *own, 1 - curve, horizons, patients, seed)
            found |= {
                "dynamic_auc": statistics.mean_auc_interval(*risks, resamples=resamples),
                "integrated_brier": statistics.integrated_brier_interval(*given, resamples=resamples),
                "brier_gain": statistics.brier_gain_interval(*given, resamples=resamples),
            }
        nothing = statistics.Interval(*[float("nan")] * 3)
        each = {name: found.get(name, nothing) for name in self.measure.intervals}
        return {f"{name}_{end}": getattr(one, end) for name, one in each.items() for end in ("low", "high")}

    def test(
        self, y: Floats, p: Floats, q: Floats, patients: ArrayLike, *, clustered: bool = False
    ) -> dict[str, float]:
        return resampled_test(statistics.c_difference(y[:, 0], y[:, 1], p[:, 0], q[:, 0], patients, 0))

    # Report

    def describe(self, classes: Sequence[str]) -> str:
        return "time to an event"

    def sort_cases(self, y: Floats, p: Floats) -> list[Sorted]:
        order = np.argsort(-p[:, 0], kind="stable")
        return [Sorted("Highest predicted risk", order), Sorted("Lowest predicted risk", order[::-1])]

    def case_lines(self, y: Any, p: Floats, classes: Sequence[str]) -> list[str]:
        return [outcome_words(y), self.said(p, classes)]

    # Maps

    def shown(self, p: Floats) -> int:
        return 0

    def evidence(self, evidence: Floats, index: int) -> Floats:
        """What a patch adds to the log hazard (Cox), or to the log-odds of the event, mean over the intervals."""
        return evidence.mean(axis=1)

    def against(self, index: int, classes: Sequence[str]) -> str:
        return "for a lower risk"


TASK = SurvivalTask()
