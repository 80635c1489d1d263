"""Tables of results as plain data: each figure with its interval, and notes on how to read it.

`cli/terminal.py` prints them, `html.py` puts them into the report.
Input are the tables of a run folder: summary.csv (one row per variant) and comparisons.csv (one row per pair). What
every figure is: docs/statistics.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..errors import StudyError
from ..tasks import Measure, figure_headers, measure_of

if TYPE_CHECKING:
    from ..statistics.intervals import Interval

ALPHA = 0.05
REPEATED = (
    "Repeated hold-out: test sets share patients, so nothing is pooled and DeLong's test is not computed. All figures "
    "are means over the splits; the interval is Nadeau and Bengio's, which accounts for the overlap."
)
FEW_FOLDS = 5  # below which the corrected t has little power (docs/statistics.md)
CLEARLY_LOWER = 0.05  # pooled below the mean over folds: the folds' models are calibrated differently


class Column(NamedTuple):
    header: str
    cells: list[str]
    optional: bool = False  # left out if the terminal is too narrow
    name: bool = False  # a name: left-aligned, and may be broken over lines
    bold: tuple[bool, ...] = ()  # one per cell; empty if none is bold
    attached: bool = False  # stays beside the column before it


@dataclass(frozen=True)
class Table:
    """Columns of text. title: above them, and all there is without columns. ends: numbers of rows that end a group.

    warning: what must not be overlooked; notes: how to read it, both below.
    """

    title: str
    columns: Sequence[Column] = ()
    notes: Sequence[str] = ()
    ends: Sequence[int] = ()
    warning: str = ""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))


def summary_table(summary: pd.DataFrame) -> Table:
    """One row per variant, with every figure of summary.csv that a reader may want."""
    summary = _grouped(summary)
    title = "\n".join(cohort_line(name, rows) for name, rows in cohorts(summary))
    return Table(title, _summary_columns(summary), _summary_notes(summary), _ends(summary))


def comparison_table(comparisons: pd.DataFrame) -> Table:
    """One row per pair of variants, the higher AUROC (or other measure) first; p-values Holm-adjusted, bold
    below 0.05. All cohorts have one measure."""
    if comparisons.empty:
        return Table("One method: no pair to compare")
    measure = measure_of(comparisons)
    rows = _grouped(_higher_first(comparisons, measure))
    ends = zip(rows[f"{measure.name}_a"], rows[f"{measure.name}_b"], strict=True)
    differences, several = [signed(d) for d in rows["difference"]], int(rows["resamples"].max()) > 1
    if measure.bounded:
        bounds = zip(rows["low"], rows["high"], strict=True)
        differences = [f"{d} [{signed(a)}, {signed(b)}]" for d, (a, b) in zip(differences, bounds, strict=True)]
    columns = [
        *_cohort_column(rows),
        Column(f"higher {measure.words}", [str(m) for m in rows["variant_a"]], name=True),
        Column(f"lower {measure.words}", [str(m) for m in rows["variant_b"]], name=True),
        Column("difference" + "\n[95 % interval]" * measure.bounded, differences),
        p_column(f"{measure.test_name}\np", rows[f"{measure.test}_p_holm"]),
        p_column("corrected\nt-test p", rows["t_p_holm"]),
        *[Column("mean of\nfolds", [signed(d) for d in rows["fold_difference"]], optional=True)] * several,
        Column("AUROCs" if measure.words == "AUROC" else "both", [f"{a:.3f}, {b:.3f}" for a, b in ends], optional=True),
    ]
    title = f"Differences of {measure.words} between methods"
    return Table(title, columns, _comparison_notes(rows, measure), _ends(rows))


def run_comparison_table(pairs: pd.DataFrame) -> Table:
    """`comparison_table` of two runs: each variant with the run it is from. pairs: of `compare_runs`."""
    places = {"a": "run_a", "b": "run_b"}
    short = {end: Path(str(pairs[column].iloc[0])).name for end, column in places.items()}
    if len(set(short.values())) == 1:
        short = {end: str(pairs[column].iloc[0]) for end, column in places.items()}
    named = {f"variant_{end}": pairs[f"variant_{end}"].astype(str) + f" [{name}]" for end, name in short.items()}
    shown = comparison_table(pairs.assign(**named))
    return replace(shown, title=f"Differences of {measure_of(pairs).words} between two runs")


def _summary_columns(summary: pd.DataFrame) -> list[Column]:
    measure = measure_of(summary)
    _require(summary, measure.needed)
    quoted = f"{measure.words}, {_quoted(summary)}\n[95 % interval]"
    columns = [
        *_cohort_column(summary),
        Column("variant", [str(m) for m in summary["variant"]], name=True),
        *([] if _one_test_set(summary) else [_folds_column(summary, measure)]),
        Column(quoted, [_broken(bounded(*reached(row)), measure.bounded) for row in rows_of(summary)]),
    ]
    shown = {
        name: header for name, header in figure_headers().items() if name in summary and summary[name].notna().any()
    }
    return columns + [
        Column(header, [with_bounds(row, name) for row in rows_of(summary)], optional=True)
        for name, header in shown.items()
    ]


def _folds_column(summary: pd.DataFrame, measure: Measure) -> Column:
    ends = zip(summary[f"{measure.name}_mean"], summary[f"{measure.name}_std"], strict=True)
    return Column(f"{measure.words},\nmean of folds", [plus_minus(mean, std) for mean, std in ends])


def _one_test_set(summary: pd.DataFrame) -> bool:
    """Whether each row is of one test set and one training: the mean over folds is the figure itself."""
    return designs(summary) == {"hold-out"} and int(summary["folds"].max()) == 1 and _seeds(summary) == 1


def is_repeated(row: Mapping[str, Any] | pd.Series) -> bool:
    """Whether the figures are means over repeated hold-out; runs of older versions do not say."""
    return row.get("design") == "repeated hold-out"


def reached(row: Mapping[str, Any] | pd.Series) -> "Interval":
    """The AUROC (or other measure) to quote, with its interval: the pooled one; of repeated hold-out the mean over the
    splits."""
    from ..statistics.intervals import Interval  # scipy, which the paper's own tables can do without

    measure = measure_of(row)
    found = row.get(f"{measure.name}_mean" if is_repeated(row) else measure.pooled)
    return Interval(float("nan") if found is None else float(found), *interval(row))


def interval(row: Mapping[str, Any] | pd.Series) -> tuple[float, float]:
    """Bounds of the AUROC to quote: DeLong's, or the bootstrap's where there are more than two classes; of repeated
    hold-out Nadeau and Bengio's of the mean. Those of another measure."""
    if is_repeated(row):
        return float(row["mean_low"]), float(row["mean_high"])
    name = measure_of(row).name
    kind = name if pd.notna(row.get(f"{name}_low")) else "boot"
    return float(row.get(f"{kind}_low", np.nan)), float(row.get(f"{kind}_high", np.nan))


def designs(rows: pd.DataFrame) -> set[str]:
    return set(rows["design"].astype(str)) if "design" in rows else {"cross-validation"}


def _quoted(summary: pd.DataFrame) -> str:
    """What is quoted in the column of `reached`."""
    words = {"repeated hold-out": "mean of folds", "hold-out": "test set", "cross-validation": "pooled"}
    return " or ".join(words[name] for name in words if name in designs(summary))


def cohorts(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each cohort's name and rows, in the order of the table; of several targets, each is one for itself."""
    names = frame["cohort"].astype(str)
    if "target" in frame:
        targets = frame["target"].fillna("").astype(str)
        names += targets.where(targets == "", ", " + targets)
    for name, rows in frame.groupby(names, sort=False):
        yield str(name), rows


def cohort_line(name: str, rows: pd.DataFrame) -> str:
    """What one cohort's figures are of: positive class, slides, patients, folds."""
    of = measure_of(rows).of(rows["positive"].iloc[0] if "positive" in rows else None)
    patients = counted(rows["patients"], "patient")
    one_each = rows["slides"].equals(rows["patients"])  # one slide, or one bag of all its slides
    cases = f"{patients}, one case each" if one_each else f"{counted(rows['slides'], 'slide')} of {patients}"
    folds = {"hold-out": "training", "repeated hold-out": "overlapping test set"}
    fold = folds.get(next(iter(designs(rows))), "fold")
    runs = counted(rows["folds"], fold) + (f" x {rows['seeds'].max()} seeds" if _seeds(rows) > 1 else "")
    runs = f"one test set, {runs}" if fold == "training" else runs
    return (f"{name}: " if name else "") + f"{of}; {cases}; {runs}"


def _summary_notes(summary: pd.DataFrame) -> list[str]:
    over = "test folds and seeds" if _seeds(summary) > 1 else "test folds"
    spread = [f"Mean of folds: ± is the standard deviation over {over}, not a standard error."]
    first = [] if _one_test_set(summary) else spread
    single = summary[[not is_repeated(row) for row in rows_of(summary)]]
    if len(single):
        together = "Pooled: all out-of-fold predictions together"
        if designs(single) == {"hold-out"}:
            several = int(single["folds"].max()) > 1 or _seeds(single) > 1
            together = "Test set: each case once" + ", with its mean probability over the trainings" * several
        first.append(f"{together}, with {' and '.join(_interval_names(single))}.")
    notes = [" ".join(first)]
    if len(single) < len(summary):
        notes.append(REPEATED)
    undefined = int(summary["undefined_folds"].max()) if "undefined_folds" in summary else 0
    if undefined:
        notes.append(f"Up to {counted(undefined, 'test fold')} without all classes left out of the mean.")
    if lower := far_below_folds(summary):
        notes.append(
            f"Pooled far below the folds for {', '.join(lower)}: its folds are calibrated differently. Quote the mean "
            "of folds and compare with the corrected t-test."
        )
    return notes


def far_below_folds(summary: pd.DataFrame) -> list[str]:
    """The variants whose pooled AUROC says less than their folds do."""
    measure = measure_of(summary)
    if f"{measure.name}_mean" not in summary:
        return []
    lower = summary.loc[summary[f"{measure.name}_mean"] - summary[measure.pooled] > CLEARLY_LOWER, "variant"]
    return list(dict.fromkeys(map(str, lower)))


def _interval_names(summary: pd.DataFrame) -> list[str]:
    if measure_of(summary).bounded:
        return ["a bootstrap interval over patients"]
    delong = summary["auc_low"].notna() if "auc_low" in summary else pd.Series(False, summary.index)
    names = ["DeLong's interval"] * bool(delong.any()) + ["a bootstrap interval over patients"] * (not delong.all())
    return [f"{names[0]} (two classes)", f"{names[1]} (more)"] if len(names) == 2 else names


def _comparison_notes(rows: pd.DataFrame, measure: Measure) -> list[str]:
    own = f"{measure.test}_p"
    folds, tested = int(rows["resamples"].max()), rows[own].notna().any() if own in rows else True
    pairs = max(len(part) for _, part in cohorts(rows))
    notes = [
        f"p-values are Holm-adjusted for {counted(pairs, 'pair')} (bold: below {ALPHA}); a case is {case_of(rows)}.",
        f"{capital(measure.test_name)}: would these trained models differ on new patients?"
        if tested
        else "DeLong's test needs two classes and one prediction per case; here only the corrected t-test is computed.",
        f"Corrected t-test (Nadeau and Bengio, {counted(folds, 'test fold')}): would the methods differ if trained "
        "again?",
    ]
    if folds < 2:
        notes[-1] = "The corrected t-test needs several test sets, and there is one."
    elif folds < FEW_FOLDS:
        notes.append(f"With {counted(folds, 'fold')} the latter finds only large, consistent differences.")
    return [*notes, f"A p above {ALPHA} does not show that two methods are equal."]


def _higher_first(comparisons: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    ends = (f"{measure.name}_a", f"{measure.name}_b")
    needed = ["variant_a", "variant_b", "level", *ends, "difference", f"{measure.test}_p_holm", "t_p_holm"]
    _require(comparisons, [*needed, "resamples", "fold_difference"])
    rows, swap = comparisons.copy(), comparisons["difference"].astype(float) < 0
    for a, b in (("variant_a", "variant_b"), ends):
        rows[a], rows[b] = comparisons[a].where(~swap, comparisons[b]), comparisons[b].where(~swap, comparisons[a])
    for name in ("difference", "fold_difference"):
        rows[name] = comparisons[name].astype(float).where(~swap, -comparisons[name].astype(float))
    if measure.bounded:
        low, high = (comparisons[name].astype(float) for name in ("low", "high"))
        rows["low"], rows["high"] = low.where(~swap, -high), high.where(~swap, -low)
    return rows


def p_column(header: str, values: pd.Series) -> Column:
    return Column(header, [p_text(p) for p in values], bold=tuple(p < ALPHA for p in values))


def _grouped(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a cohort beside each other."""
    return pd.concat([rows for _, rows in cohorts(frame)])


def _cohort_column(frame: pd.DataFrame) -> list[Column]:
    """Names of cohorts, each at its first row, where there are several."""
    sizes = [(name, len(rows)) for name, rows in cohorts(frame)]
    if len(sizes) < 2:
        return []
    return [Column("cohort", [cell for name, n in sizes for cell in (name, *[""] * (n - 1))], name=True)]


def _ends(frame: pd.DataFrame) -> list[int]:
    """Numbers of the rows that end a cohort."""
    return (np.cumsum([len(rows) for _, rows in cohorts(frame)]) - 1).tolist()


def rows_of(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


def by_measure(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of the cohorts that are judged by one measure."""
    if frame.empty:
        return [frame]
    groups: dict[str, list[pd.DataFrame]] = {}
    for _, rows in cohorts(frame):
        groups.setdefault(measure_of(rows).name, []).append(rows)
    return [pd.concat(parts) for parts in groups.values()]


def _require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    if missing := [c for c in columns if c not in frame]:
        raise StudyError(f"Column {', '.join(missing)} missing from the table of results. Run the study again.")


def case_of(frame: pd.DataFrame) -> str:
    level = " or ".join(dict.fromkeys(map(str, frame["level"])))
    return f"a {level}".replace("slide, clustered", "slide, those of a patient taken together")


def _seeds(frame: pd.DataFrame) -> int:
    return int(frame["seeds"].max()) if "seeds" in frame else 1


def counted(n: "int | pd.Series[int]", noun: str) -> str:
    """`1 fold`, `3 folds`, or `3 to 5 folds` where rows differ."""
    low, high = (n, n) if isinstance(n, int) else (int(n.min()), int(n.max()))
    return (f"{high:,}" if low == high else f"{low:,} to {high:,}") + f" {noun}" + ("s" if high != 1 else "")


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def p_text(p: float) -> str:
    if np.isnan(p):
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def signed(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:+.3f}"


def plus_minus(mean: float, std: float) -> str:
    return number(mean) if np.isnan(std) else f"{mean:.3f} ± {std:.3f}"


def with_bounds(row: Mapping[str, Any] | pd.Series, name: str) -> str:
    """A figure of a summary, its interval below it if it has one."""
    bounds = (float(row.get(f"{name}_{end}", np.nan)) for end in ("low", "high"))
    return _broken(bounded(float(row[name]), *bounds))


def _broken(cell: str, broken: bool = True) -> str:
    """A figure with its interval below it, where other figures have one, too."""
    return cell.replace(" ", "\n", 1) if broken else cell


def bounded(value: float, low: float, high: float) -> str:
    return number(value) if np.isnan(low) else f"{value:.3f} [{low:.3f}, {high:.3f}]"
