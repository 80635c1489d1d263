"""Rules that decide which rows stay, and the account of what each of them kept and dropped."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pandas as pd

from ...errors import LabelError
from ..labels import listed

SAMPLE_CODES = {"diagnostic": ("DX",), "frozen": ("TS", "MS", "BS"), "both": ("DX", "TS", "MS", "BS")}
# Sample type and slide of a TCGA name: 01 in -01Z-, DX in -DX1; either may be absent from a shortened name.
BARCODE = re.compile(r"TCGA-\w{2}-\w{4}(?:-(?P<sample>\d{2})[A-Z]?(?:-\d{2}-(?P<kind>DX|TS|MS|BS)\w*)?)?", re.ASCII)
SAMPLES = {"02": "recurrence", "05": "second primary", "06": "metastasis", "11": "normal tissue"}
ONE_SLIDE = "one slide per patient"
WORDS = {"slide_id": "slide", "patient_id": "patient", "label": "label"}


class Count(NamedTuple):
    slides: int
    patients: int


@dataclass(frozen=True)
class Rule:
    """name: what stays, in words. reason: why each row goes, "" where it stays. role: the column it looks at.

    remedy: what to do if nothing stays. if_needed: told only where it drops something (repeated rows, blank names).
    """

    name: str
    reason: Callable[[pd.DataFrame], Sequence[str]]
    role: str = ""
    remedy: str = "Is it the right table?"
    if_needed: bool = False


@dataclass(frozen=True)
class Step:
    """What one rule did. dropped: how many for each reason, the commonest first; a patient goes with the last row.
    rows: dropped in all; a patient may have several.

    opens: no rule, but what a table or folder held to begin with. classes: rows kept of each class, once there are
    labels.
    """

    rule: str
    kept: Count
    dropped: Mapping[str, Count]
    rows: int = 0
    opens: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> Count:
        return Count(sum(n.slides for n in self.dropped.values()), sum(n.patients for n in self.dropped.values()))


@dataclass(frozen=True, eq=False)
class Account:
    """Rows that are still there, those that are not (slide_id, patient_id, rule, reason), and every step so far.

    rows: string columns slide_id ("" in a table of patients) and patient_id, and what the rules look at.
    """

    rows: pd.DataFrame
    dropped: pd.DataFrame
    steps: tuple[Step, ...]

    @classmethod
    def open(cls, rows: pd.DataFrame, what: str) -> "Account":
        nothing = pd.DataFrame(columns=["slide_id", "patient_id", "rule", "reason"], dtype=str)
        return cls(rows, nothing, (Step(what, count(rows), {}, opens=True),))

    def go_on_with(self, rows: pd.DataFrame, what: str) -> "Account":
        """Other rows, the same account."""
        return replace(self, rows=rows, steps=(*self.steps, Step(what, count(rows), {}, opens=True)))

    def apply(self, *rules: Rule) -> "Account":
        account = self
        for rule in rules:
            account = account._apply(rule)
        return account

    def _apply(self, rule: Rule) -> "Account":
        why = pd.Series(list(rule.reason(self.rows)), index=self.rows.index, dtype=str)
        rows, gone = self.rows[why == ""], self.rows[why != ""].assign(rule=rule.name, reason=why[why != ""])
        classes = dict(rows["label"].value_counts()) if "label" in rows else {}
        step = Step(rule.name, count(rows), _by_reason(gone, set(rows["patient_id"])), len(gone), classes=classes)
        if rows.empty:
            raise LabelError(
                f"No row is left after the rule {rule.name!r}: it dropped {reasons_text(step)}. {rule.remedy}".rstrip()
            )
        if rule.if_needed and gone.empty:
            return self
        dropped = pd.concat([self.dropped, gone[list(self.dropped)]], ignore_index=True)
        return Account(rows, dropped, (*self.steps, step))

    def lost(self, key: str) -> dict[str, str]:
        """Slide or patient -> why it, or one of its rows, was dropped."""
        return dict(zip(self.dropped[key], self.dropped["reason"], strict=True))


def count(rows: pd.DataFrame) -> Count:
    return Count(int((rows["slide_id"] != "").sum()), rows.loc[rows["patient_id"] != "", "patient_id"].nunique())


def _by_reason(gone: pd.DataFrame, still_there: set[str]) -> dict[str, Count]:
    lost = gone[~gone["patient_id"].isin(still_there)].drop_duplicates("patient_id")
    counts = {str(reason): count(rows) for reason, rows in gone.groupby("reason", sort=True)}
    patients = lost.loc[lost["patient_id"] != "", "reason"].value_counts()
    counts = {reason: Count(n.slides, int(patients.get(reason, 0))) for reason, n in counts.items()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1].slides, -item[1].patients)))


def reasons_text(step: Step, limit: int = 12) -> str:
    """`READ: 155, BRCA: 3`: slides where there are slides, else patients; no figure where a row was all that went."""
    slides = step.lost.slides > 0
    counts = {reason: n.slides if slides else n.patients for reason, n in step.dropped.items()}
    return listed([f"{reason}: {n:,}" if n else reason for reason, n in counts.items()], limit)


def named(key: str) -> Rule:
    """Rows without a slide or patient go."""
    blank = f"no {WORDS[key]}"
    return Rule(f"names a {WORDS[key]}", lambda rows: ["" if v else blank for v in rows[key]], key, if_needed=True)


def once(key: str, says: str) -> Rule:
    """Rows that say the same of a slide or patient again go; rows that contradict each other are an error."""
    what = WORDS[key]

    def repeated(rows: pd.DataFrame) -> list[str]:
        said = rows[[key, says]].drop_duplicates()
        if (twice := said[said.duplicated(key, keep=False)]).size:
            clash = [f"{name} ({' / '.join(found)})" for name, found in twice.groupby(key, sort=False)[says]]
            raise LabelError(
                f"{len(clash)} {what}{'s' * (len(clash) > 1)} with more than one {WORDS[says]}: {listed(clash, 5)}. "
                f"Expected one for each {what}. Correct the table."
            )
        return ["repeated row" if again else "" for again in rows.duplicated(key)]

    return Rule(f"one row per {what}", repeated, key, if_needed=True)


def primary(column: str) -> Rule:
    """TCGA: labels are of the primary tumour. A name that does not tell its sample stays."""

    def other(rows: pd.DataFrame) -> list[str]:
        samples = [barcode(name)[0] for name in rows[column]]
        return ["" if s in ("", "01") else f"{SAMPLES.get(s, 'other sample')} ({s})" for s in samples]

    return Rule("primary tumour (01)", other, column, "Labels are of primary tumours: give their slides.")


def of_kind(kind: str) -> Rule:
    """TCGA: diagnostic (formalin-fixed) or frozen slides. A name that does not tell its kind stays."""

    def other(rows: pd.DataFrame) -> list[str]:
        kinds = [barcode(name)[1] for name in rows["slide_id"]]
        wanted = ("", *SAMPLE_CODES[kind])
        return ["" if k in wanted else f"{'diagnostic' if k == 'DX' else 'frozen'} ({k})" for k in kinds]

    names = {"both": "diagnostic or frozen slide"}
    name = names.get(kind, f"{kind} slide ({', '.join(SAMPLE_CODES[kind])})")
    return Rule(name, other, "slide_id", "Take the others with --kind diagnostic, frozen or both.")


def single() -> Rule:
    """Patients with more than one slide go, all their slides with them."""

    def several(rows: pd.DataFrame) -> list[str]:
        slides = rows.groupby("patient_id")["slide_id"].transform("size")
        return ["" if n == 1 else f"{n} slides" for n in slides]

    return Rule(ONE_SLIDE, several, "slide_id", "Keep all their slides with --several keep.")


def barcode(name: str) -> tuple[str, str]:
    """Sample type and kind of slide in a TCGA name, "" for what it does not tell."""
    match = BARCODE.match(name)
    return (match["sample"] or "", match["kind"] or "") if match else ("", "")
