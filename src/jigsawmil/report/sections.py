"""The sections of a report about one cohort, each from the tables of the run."""

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..cohort.labels import COVARIATE
from ..errors import StudyError
from ..maps.attention_figure import attention_figure
from ..statistics.bands import RESAMPLES, Kind
from ..study.control import shuffle_control
from ..study.disagreement import disagreement
from ..study.predictions import Pooled, fold_areas
from ..study.trust import trust_file
from ..tasks import FIGURES
from .attention import attention_caption, attention_rows
from .choices import choice_lines, choice_table, choices_of
from .control import blind_variants, control_lines, control_table
from .describe import kind_words, known_settings
from .examples import SHOWN, example_cards, has_attention
from .headline import behind
from .html import Html, figures, join, listed, paragraphs, picture, table, tag
from .outcomes import horizons_section, risk_section, values_section
from .part import CohortPart
from .plots.agreement import calibration_figure, confusion_figure
from .plots.curves import band_figure
from .plots.forest import forest_figure
from .plots.training import read_traces, trace_figure
from .plots.trust import trust_figure
from .tables import bounded, capital, comparison_table, counted, designs, number, summary_table
from .trust import RULE
from .validation import validation_section

CALIBRATED = ("brier", "ece", "calibration_slope", "calibration_intercept")
CALIBRATION = tuple(FIGURES[name].replace("\n", " ") for name in CALIBRATED)  # a table of their own
MEMBER = ("variant", "seed", "fold", "member")
A_FIGURE = 9  # panels, so that a figure fits a page
Section = tuple[str, Html]  # title, content
TWO_TESTS = (
    "The two tests ask different questions. {} asks whether these trained models would differ on new patients; the "
    "corrected t-test asks whether the methods would differ if they were trained again. A difference that is "
    "significant in both is well supported; one that is significant only in the first may be due to chance in training."
)
ONE_TEST = (
    "The corrected t-test asks whether the methods would differ if they were trained again. DeLong's test, which asks "
    "whether these trained models would differ on new patients, needs two classes, so its column is empty."
)


def cohort_sections(part: CohortPart) -> Iterator[Section]:
    yield "Cohort", cohort_section(part)
    if part.summary.empty:
        return
    if part.run.record.validation is not None:
        yield "Results", validation_section(part.run, part.styles[part.answer.best][0])
    else:
        yield "Results", results_section(part)
        yield "Are the differences real?", comparison_section(part)
        if chosen := choices_section(part):
            yield "What was chosen", chosen
    for name in part.task.sections:
        title, section = OF_TASKS[name]
        yield title, section(part)
    if members := members_section(part):
        yield "Do the members agree?", members
    if len(part.run.control):
        yield "Does patch position matter?", control_section(part)
    if part.run.record.validation is None:
        yield "Losses and lambda", training_section(part)
    if attention := attention_section(part):
        yield "Attention", attention
    yield "Slides to look at", examples_section(part)
    if faithful := faithfulness_section(part):
        yield "Can the maps be trusted?", faithful


def cohort_section(part: CohortPart) -> Html:
    slides, cohort = part.rows(part.run.slides), part.run.record.cohorts[part.name]
    groups = part.task.cohort_rows([str(label) for label in slides["label"]], part.classes)
    rows = [
        [name, f"{len(own):,}", f"{own['patient_id'].nunique():,}", _share(len(own), len(slides))]
        for name, members in groups
        for own in [slides[members]]
    ]
    rows.append(["all", f"{len(slides):,}", f"{slides['patient_id'].nunique():,}", ""])
    patches = slides["patches"]
    facts = [
        f"Task: {part.task.describe(part.classes)}.",
        f"Patches: {int(patches.sum()):,} in all; a slide has {int(patches.median()):,} (median), "
        f"{int(patches.min()):,} to {int(patches.max()):,}.",
        f"Features: {cohort.dim} dimensions, encoder {cohort.encoder or 'not stated by the files'}, "
        f"from {cohort.features}; labels from {cohort.labels}.",
        _sites(part, slides),
        *_covariates(part, slides),
        *cohort.notes,
    ]
    head = [part.task.rows_title, "slides", "patients", "share of slides"]
    return join([table(head, rows), listed(facts), tag("h4", "Left out"), _left_out(part)], "\n")


def results_section(part: CohortPart) -> Html:
    shown = figures(summary_table(part.summary), part.marks, without=CALIBRATION)
    forest = forest_figure(part.summary, fold_areas(part.predictions, part.classes, part.task.name), part.styles)
    words = part.task.measure.words
    caption = f"Pooled {words} with its 95 % interval, the mean of the folds, and each test fold by itself."
    if part.repeated:
        caption = f"Mean {words} over the splits with its 95 % interval, and each test set by itself."
    elif designs(part.summary) == {"hold-out"}:
        caption = f"{words} on the test set with its 95 % interval, and each training by itself."
    return join([shown, picture(forest, f"{words} of each method with its interval", caption)])


def comparison_section(part: CohortPart) -> Html:
    if part.comparisons.empty:
        return tag("p", "Only one method was evaluated, so there is no pair to compare.")
    measure = part.task.measure
    words = [
        behind(part.comparisons, part.answer.best, part.baseline),
        (TWO_TESTS if part.comparisons[f"{measure.test}_p_holm"].notna().any() else ONE_TEST).format(
            capital(measure.test_words)
        ),
    ]
    if part.repeated:
        words[1] = (
            "The corrected t-test asks whether the methods would differ when trained again, and allows for splits "
            "that share patients. DeLong's test is not computed, because it assumes independent cases and here "
            "patients are tested several times."
        )
    elif int(part.comparisons["resamples"].max()) < 2:
        words[1] = (
            "There is one test set. DeLong's test asks whether these trained models would differ on new patients. "
            "Whether the methods would differ when trained again cannot be tested: the corrected t-test needs several "
            "test sets."
        )
    shown = figures(comparison_table(part.comparisons), part.marks)
    return join([paragraphs(filter(None, words)), shown], "\n")


def choices_section(part: CohortPart) -> Html:
    """What each fold chose inside its training patients; empty if nothing was."""
    parts = []
    for variant, rows in choices_of(part.run, part.name):
        first, *lines = choice_lines(part.run, part.name, variant, rows)
        parts += [tag("p", tag("b", first)), paragraphs(lines), figures(choice_table(variant, rows), part.marks)]
    return join(parts, "\n")


def curves_section(part: CohortPart) -> Html:
    single = len(part.task.curves(part.classes)) == 1  # then there is a panel for each method, else for each class
    banded = "each method" if single else part.answer.best
    caption = (
        f"{part.predicted}. Band: pointwise 95 % interval of {banded} over {RESAMPLES} resamples of "
        "patients within classes. "
    )
    if part.summary["auc_oof"].isin([0, 1]).any():
        caption += (
            "If classes are separated perfectly, the bootstrap interval is degenerate and no band is drawn: see "
            "the interval. "
        )
    chance = {"roc": "Dashed: chance.", "pr": "Dashed: the share of the class, which is chance."}
    if single and not part.repeated:
        chance["roc"] += " In brackets: DeLong's interval."
        chance["pr"] += " In brackets: the bootstrap's interval."
    behind = "Grey: the other methods. " if single and len(part.pooled) > 1 else ""
    pictures = []
    kinds: dict[Kind, str] = {"roc": "ROC curves", "pr": "Precision-recall curves"}
    for kind, name in kinds.items():
        rng = np.random.default_rng(0)
        for some in _some(part.pooled) if single else [part.pooled]:
            figure = band_figure(some, part.classes, kind, part.answer.best, part.styles, rng)
            pictures.append(picture(figure, f"{name} of {', '.join(some)}", f"{name}. {caption}{behind}{chance[kind]}"))
    return join(pictures, "\n")


def calibration_section(part: CohortPart) -> Html:
    of = part.task.calibration_words.subject
    caption = (
        f"Predicted probability of {of} against the observed frequency, in bins of equal numbers with Wilson's 95 % "
        "interval; on the dashed line predictions are perfectly calibrated. Ticks: single cases, at the top if the "
        "class was present. Brier score: mean squared error of the probability, lower is better. ECE: mean distance "
        "from the dashed "
        "line; biased upwards with few cases."
    )
    if part.repeated:
        caption += " The table shows means over the splits; the picture shows each slide's mean over them."
    shown = [name for name in CALIBRATED if name in part.summary]
    rows = [
        [join([part.marks[row["variant"]], row["variant"]]), *(number(float(row[name])) for name in shown)]
        for _, row in part.summary.iterrows()
    ]
    parts = [table(["variant", *(FIGURES[name].replace("\n", " ") for name in shown)], rows)]
    styles = {**part.styles, **dict.fromkeys(part.by_patient, part.styles[part.answer.best])}
    for some in _some({**part.pooled, **part.by_patient}):
        parts.append(picture(calibration_figure(some, styles), "Calibration", caption))
    return join(parts, "\n")


def confusion_section(part: CohortPart) -> Html:
    used = part.task.decision_words
    seeds = " on the mean over seeds" if len(part.run.seeds) > 1 else ""
    seeds = " on the mean over the splits that tested a slide" if part.repeated else seeds
    chosen = "" if part.run.record.validation else "; no threshold was chosen on data"
    caption = f"Decision rule: {used}{seeds}{chosen}. Colour: share of the true class."
    return join(
        [
            picture(confusion_figure(s, part.classes), "Confusion", caption)
            for s in _some({**part.pooled, **part.by_patient})
        ],
        "\n",
    )


def members_section(part: CohortPart) -> Html:
    """Whether disagreement of an ensemble's members points to errors; empty without ensembles."""
    found = disagreement(part.predictions, part.classes, part.task)
    if not found:
        return Html()
    words = (
        "Spread: the standard deviation over the members of the log-odds of the predicted class. If members disagree "
        "more about wrong predictions, the spread finds errors: AUROC above 0.5. It is useful beside the probability "
        "if it does so better than uncertainty alone (1 minus the probability of the predicted class)."
    )
    head = [
        "variant",
        "cases",
        "errors",
        "spread if right",
        "spread if wrong",
        "AUROC of spread",
        "AUROC of uncertainty",
    ]
    rows = [
        [
            join([part.marks[own.variant], own.variant]), f"{own.cases:,}", f"{own.errors:,}", number(own.right),
            number(own.wrong), "-" if own.auroc is None else bounded(*own.auroc),
            "-" if own.confidence is None else number(own.confidence),
        ]
        for own in found
    ]  # fmt: skip
    return join([tag("p", words), table(head, rows), weights_table(part)], "\n")


def weights_table(part: CohortPart) -> Html:
    """How much each kind of model in a committee counts; empty if all members count the same."""
    weights = part.rows(part.run.weights)
    if weights.empty:
        return Html()
    kinds = {(job.variant, job.seed, job.fold, job.member): kind_words(job.settings) for job in part.run.jobs}
    keys = zip(*(weights[name] for name in MEMBER), strict=True)
    kind = [kinds.get(key, "a member whose job folder is missing") for key in keys]
    shares = weights.assign(kind=kind).groupby(["variant", "kind", "seed", "fold"], sort=False)["weight"].sum()
    rows = [
        [join([part.marks[variant], variant]), kind, number(own.mean()), number(own.min()), number(own.max())]
        for (variant, kind), own in shares.groupby(level=["variant", "kind"], sort=False)
    ]
    words = (
        "Weights of the kinds of model, learnt in each fold from training patients that their members were not "
        "fitted to:"
    )
    return join([tag("p", words), table(["variant", "kind", "mean", "least", "largest"], rows)], "\n")


def control_section(part: CohortPart) -> Html:
    moved = part.rows(part.run.control).dropna(axis="columns", how="all")
    both = [method for method in part.summary["variant"] if method in set(moved["variant"])]
    intro = (
        "The study was repeated with patch coordinates shuffled within each slide (negative control). Performance "
        "lost by shuffling came from patch positions."
    )
    try:
        true, shuffled = (frame[frame["variant"].isin(both)] for frame in (part.predictions, moved))
        training = part.run.training(part.name)
        control = shuffle_control(true, shuffled, part.classes, part.task.name, training=training)
    except (StudyError, ValueError) as error:  # some of its folds are not there
        return paragraphs([intro, f"The control is incomplete: {error}"])
    first, *lines = control_lines(control, blind_variants(part.methods))
    parts = [tag("p", intro), tag("p", tag("b", first)), figures(control_table(control), part.marks)]
    return join([*parts, listed(lines)], "\n")


def training_section(part: CohortPart) -> Html:
    try:
        traces = part.rows(read_traces(part.run.folder))
    except StudyError as error:
        return tag("p", f"No training curves: {error}")
    caption = "One line per job (fold and seed) over its epochs; a dot marks the epoch whose weights were kept."
    figure = trace_figure(traces, across=2, styles=part.styles)
    return picture(figure, f"Losses, lambda and validation {part.task.measure.words} over epochs", caption)


def attention_section(part: CohortPart) -> Html:
    """The attention figure; empty if no attention was kept."""
    rows = attention_rows(part.run, part.name)
    if not rows:
        return Html()
    words = f"Attention weights of {', '.join(panel.variant for panel in rows[0].panels)} on {len(rows)} test slides"
    return picture(attention_figure(rows), words, attention_caption(rows, of_classes=part.task.of_classes))


def examples_section(part: CohortPart) -> Html:
    best = part.answer.best
    what = "patients" if (part.predictions["slide_id"] == part.predictions["patient_id"]).all() else "slides"
    chosen = "that {} predicted with the highest confidence, at most {} of each kind"
    chosen = chosen if part.task.of_classes else "predicted by {}, at most {} of each kind"
    parts = [tag("p", f"The {what} {chosen.format(best, SHOWN)}.")]
    for title, cards in example_cards(part.run, part.name, best, part.pooled[best], part.classes):
        parts += [tag("h4", title), cards]
    if has_attention(part.run, part.name, best):
        scale = tag("span", "least", tag("i"), "most", class_="note scale")
        note = (
            "Each map shows the patches at their positions, coloured by the percentile of their attention within the "
            "slide, without the slide's image. Attention shows where the model looked, not why."
        )
        parts += [scale, tag("p", note, class_="note")]
    else:
        parts.append(tag("p", "The run did not keep attention (--attention), so there are no maps.", class_="note"))
    return join(parts, "\n")


def faithfulness_section(part: CohortPart) -> Html:
    """What `faithfulness/<cohort>/<variant>.json` says, with the curves of the best; empty where it was not asked."""
    items, pictures = [], []
    for method in part.summary["variant"]:
        file = trust_file(part.run, part.name, method, "json")
        if not file.is_file():
            continue
        try:
            values = json.loads(file.read_text())
            items.append(f"{method}: {values['sentence']}")
            if method == part.answer.best:
                over = counted(len(values["slides"]), "slide")
                caption = (
                    f"{method}: mean over {over}, patches removed or added in the order of each map, or at random."
                )
                pictures.append(picture(trust_figure(values["curves"]), "Deletion and insertion curves", caption))
        except (OSError, ValueError, KeyError, TypeError) as error:
            items.append(f"{method}: {file.name} cannot be read ({error!r}).")
    return join([tag("p", RULE), listed(items), *pictures], "\n") if items else Html()


OF_TASKS = {
    "curves": ("ROC and precision-recall", curves_section),
    "calibration": ("Calibration", calibration_section),
    "confusion": ("Confusion matrix", confusion_section),
    "risk-groups": ("Survival by predicted risk", risk_section),
    "horizons": ("Calibration at horizons", horizons_section),
    "values": ("Predicted and true values", values_section),
}  # name in `Task.sections` -> title, section


def _sites(part: CohortPart, slides: pd.DataFrame) -> str:
    known = slides[slides["site"] != ""]
    if known.empty:
        return "Sites: not known."
    counts = known["site"].value_counts()
    share = _share(int(counts.iloc[0]), len(slides))
    words = f"Sites: {len(counts)}; the largest, {counts.index[0]}, gave {share} of the slides"
    unknown = len(slides) - len(known)
    words += f", {counted(unknown, 'slide')} without one" if unknown else ""
    if part.run.record.validation is not None:
        return f"{words}."
    rows = part.rows(part.run.predictions).merge(known[["patient_id", "site"]].drop_duplicates(), on="patient_id")
    folds = rows.groupby(["seed", "site"])["fold"].nunique()
    apart = len(folds) > 0 and folds.max() == 1
    return words + (". No site is in two folds." if apart else ". Slides of a site are in several folds.")


def _covariates(part: CohortPart, slides: pd.DataFrame) -> list[str]:
    """Which clinical columns were read, for how many patients, and which variants use them."""
    columns = {name.removeprefix(COVARIATE): name for name in slides if name.startswith(COVARIATE)}
    if not columns:
        return []
    patients = slides.drop_duplicates("patient_id")
    known = [f"{name} ({int((patients[column] != '').sum()):,})" for name, column in columns.items()]
    using = [name for name in part.run.variants if known_settings(part.run.settings[name]).uses_covariates]
    used = f"used by {', '.join(using)}" if using else "no variant uses them"
    return [
        f"Clinical covariates, with the number of the {len(patients):,} patients who have one: "
        f"{', '.join(known)}; {used}. Missing ones take the mean of the training fold."
    ]


def _left_out(part: CohortPart) -> Html:
    """Names under their reason."""
    left = part.rows(part.run.left_out)
    if left.empty:
        return tag("p", "None: every labelled slide with features was used.")
    reasons = left.groupby("reason", sort=False)["name"].agg(list)
    return listed(f"{reason} ({len(names)}): {', '.join(map(str, names))}" for reason, names in reasons.items())


def _some(pooled: dict[str, Pooled]) -> Iterator[dict[str, Pooled]]:
    names = list(pooled)
    for start in range(0, len(names), A_FIGURE):
        yield {name: pooled[name] for name in names[start : start + A_FIGURE]}


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"
