"""What docs/maps.md says of maps against what was planted: a table of the figures in maps.json."""

from collections.abc import Mapping, Sequence

from .. import RESULTS, ROOT, placed, write
from .results_sections import Found, grid

COMMAND = "benchmarks.evidence.maps"
RESULT, PAGE = RESULTS / "maps.json", ROOT / "docs" / "maps.md"
COMMITTEE = "default committee"  # of both cohorts: what `compare` fits if nothing is set
MODELS: Mapping[str, Mapping[str, str]] = {
    "arrangement": {
        "mil-gat-k8": "graph-mil, GAT, k = 8",
        "jigsaw-sage-k8": "graph-abmil+jigsaw, SAGE, k = 8",
        "jigsaw-gat-k8": "graph-abmil+jigsaw, GAT, k = 8",
        "jigsaw-gat-k50": "graph-abmil+jigsaw, GAT, k = 50",
        "jigsaw-gat-k50, ensemble of 4": "the same, ensemble of 4",
        COMMITTEE: "the default, a committee of 15",
    },
    "position": {
        "jigsaw-sage-k50": "graph-abmil+jigsaw, SAGE, k = 50",
        "jigsaw-gat-k50": "graph-abmil+jigsaw, GAT, k = 50",
        "jigsaw-gat-k50, ensemble of 4": "the same, ensemble of 4",
        COMMITTEE: "the default, a committee of 15",
    },
}
SCORES = {
    "attribution, magnitude": "magnitude of attribution",
    "evidence, magnitude": "magnitude of contribution",
    "attention": "attention",
}
ALL = ("all", "planted")
BESIDE = (  # cohort, model, score, slides and region: the parts in which a map is sharper
    ("arrangement", "mil-gat-k8", "evidence, magnitude", "segregated", "planted"),
    ("arrangement", "jigsaw-sage-k8", "evidence, magnitude", "segregated", "B"),
    ("arrangement", "jigsaw-gat-k50, ensemble of 4", "attribution, magnitude", "segregated", "planted"),
    ("position", "jigsaw-sage-k50", "evidence, magnitude", "all", "B"),
)


def table(found: Found) -> str:
    """A row per model; AUROC of the planted patches within a slide, mean over slides and its interval."""
    known = {(r["kind"], r["variant"], r["score"], r["slides"], r["region"]): r for r in found["rows"]}
    lines: list[Sequence[str]] = []
    for kind, models in MODELS.items():
        for variant, name in models.items():
            own = {score: known.get((kind, variant, score, *ALL)) for score in SCORES}
            rows = [row for row in own.values() if row is not None]
            if not rows:
                lines.append([f"`{kind}`", name, *["not run"] * (len(SCORES) + 1)])
                continue
            cells = ["none" if row is None else _stated(row) for row in own.values()]
            for number, score in enumerate(SCORES):
                cells[number] += "".join(
                    f"; {_part(slides, region)} {_stated(known[kind, variant, score, slides, region])}"
                    for *which, slides, region in BESIDE
                    if which == [kind, variant, score]
                )
            lines.append([f"`{kind}`", name, f"{rows[0]['slide_auc']:.3f}", *cells])
    return f"\n{grid(['cohort', 'model', 'AUROC of slides', *SCORES.values()], lines)}\n"


def write_page(found: Found) -> None:
    write(PAGE, placed(PAGE.read_text(), COMMAND, table(found)).rstrip("\n"))


def _stated(row: Found) -> str:
    return f"{row['auc']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _part(slides: str, region: str) -> str:
    words = [f"in {slides} slides"] if slides != "all" else []
    return " ".join([*words, *([f"{region} alone"] if region != "planted" else [])])
