"""The report: one HTML file made from a run folder alone, that opens offline and prints well."""

from collections.abc import Sequence
from html import unescape
from pathlib import Path
from re import sub

from ..drawing import own_style
from ..errors import StudyError
from ..files import writing
from ..study.run import Run, open_run
from ..study.run_folder import RunFolder
from ..tasks import get_task
from .headline import overall
from .html import Html, join, listed, tag
from .outcomes import check_horizons
from .part import CohortPart
from .plots.styles import method_styles
from .provenance import (
    methods_section,
    missing_section,
    phantom_section,
    rerun_section,
    settings_section,
    software_section,
)
from .sections import Section, cohort_sections

CSS = Path(__file__).with_name("report.css")
COLUMNS_NEEDED = {
    "summary": ("variant", "folds", "slides", "patients"),
    "comparisons": ("variant_a", "variant_b", "difference", "t_p_holm"),
    "predictions": ("variant", "seed", "fold", "slide_id", "patient_id", "label"),
    "slides": ("slide_id", "patient_id", "label", "site", "patches"),
    "left_out": ("name", "reason"),
}


def write_report(run: str | Path, out: str | Path, *, name: str | None = None, horizons: Sequence[float] = ()) -> Path:
    """Read a run folder, write its report, and give back the file. name: of the run; None: that of its folder.
    horizons: times at which predicted survival is judged; none: quartiles of the event times.

    Example: `write_report("run", "run/report.html", horizons=[12, 36, 60])`
    """
    out = Path(out)
    if out.is_dir():
        raise StudyError(f"{out}: found a folder, expected a file to write. Give {RunFolder(out).report}.")
    page = report_page(_opened(Path(run)), name, horizons)
    with writing(out) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out


def _opened(path: Path) -> Run:
    """The run, or an error that names the table that is damaged or not there."""
    again = "Run the study again: finished jobs are kept, and the tables are rewritten."
    run = open_run(path)
    for name, columns in COLUMNS_NEEDED.items():
        table, file = getattr(run, name), run.files.table(name)
        if not file.is_file():
            raise StudyError(f"{file}: not there; expected the tables of a run in its folder. {again}")
        if name == "summary":
            columns = (*columns, *(need for own in run.cohorts for need in get_task(run.task(own)).measure.needed))
        if missing := [column for column in dict.fromkeys(columns) if len(table) and column not in table]:
            raise StudyError(f"{file}: no column {', '.join(missing)}. {again}")
    return run


def report_page(run: Run, name: str | None = None, horizons: Sequence[float] = ()) -> Html:
    """The whole page. The same run gives the same bytes. name: of the run; None: that of its folder."""
    if not run.jobs:
        raise StudyError(f"{run.folder}: no job is finished, so there is nothing to report. Run the study again.")
    check_horizons(run, horizons)
    styles = method_styles(run.variants)
    parts = [CohortPart(view, name, styles, tuple(horizons)) for name, view in run.by_target]
    with own_style():
        cohorts = [(part, list(cohort_sections(part))) for part in parts]
    headline, further = _answer(parts)
    several = len(parts) > 1
    body = [
        tag("p", " · ".join(["jigsawmil report", name or run.folder.resolve().name, *run.cohorts]), class_="eyebrow"),
        *(tag("p", line, class_="positive") for line in run.record.positive_lines),
        tag("h1", headline),
        *further,
        phantom_section(run),
        missing_section(run),
        _contents(cohorts, several),
        *_block("Methods", methods_section(run)),
    ]
    for part, sections in cohorts:
        blocks = [html for title, content in sections for html in _block(title, content, part.title if several else "")]
        heading = [tag("h2", part.title)] if several else []
        body.append(tag("section", *heading, *blocks, class_="cohort" if several else "only"))
    body += _block("Settings", settings_section(run))
    body += _block("Software, machine and time", software_section(run))
    body += _block("How to run it again", rerun_section(run))
    figures = "docs/statistics.md defines every figure and test, with references and limits."
    body.append(tag("p", f"{figures} Research software: not a medical device.", class_="note"))
    return _page(headline, join(body, "\n"))


def _answer(parts: Sequence[CohortPart]) -> tuple[str, list[Html]]:
    """The headline, and what must be read with it."""
    judged = [part for part in parts if len(part.summary)]
    if not judged:
        return "No method has finished all folds, so there are no results yet.", []
    if len(judged) == 1:
        one = judged[0].answer
        return one.headline, [tag("p", " ".join(one.further))] if one.further else []
    answers = {part.title: part.answer for part in judged}
    baselines = {part.baseline for part in judged}
    items = [join([tag("b", name), f": {one.headline} {' '.join(one.further)}"]) for name, one in answers.items()]
    what = "targets" if all(part.run.target for part in judged) else "cohorts"
    return overall(answers, baselines.pop() if len(baselines) == 1 else "", what), [listed(items)]


def _contents(cohorts: Sequence[tuple[CohortPart, list[Section]]], several: bool) -> Html:
    titles = [("Methods", "")]
    for part, sections in cohorts:
        named = [(title, part.title if several else "") for title, _ in sections]
        titles += named[:1] if several else named
    titles += [(title, "") for title in ("Settings", "Software, machine and time", "How to run it again")]
    links = [tag("a", cohort or title, href=f"#{_anchor(title, cohort)}") for title, cohort in titles]
    return tag("nav", join(links, " "))


def _block(title: str, content: Html, cohort: str = "") -> list[Html]:
    level = "h3" if cohort else "h2"
    return [tag(level, title, id=_anchor(title, cohort)), content]


def _anchor(title: str, cohort: str) -> str:
    return sub(r"\W+", "-", f"{cohort} {title}".strip().lower()).strip("-")


def _page(title: str, body: Html) -> Html:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", unescape(title)),
        tag("style", Html(CSS.read_text(encoding="utf-8"))),
    )
    return Html(f"<!doctype html>\n{tag('html', head, tag('body', body), lang='en')}\n")
