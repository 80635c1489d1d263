"""Patches per slide as a paper prints them: statistics down, cohorts across."""

from collections.abc import Mapping

from ..bags.counts import PatchStatistics
from ..study.published import PATCH_ROWS, Published
from .paper_tables import PHANTOM, printed_table
from .tables import Column, Table

LABELS = {
    "slides": "Slides",
    "dim": "Embedding dim",
    "mean": "Patches per slide (mean)",
    "fewest": "Patches per slide (min)",
    "most": "Patches per slide (max)",
}
HEADERS = "Read from the headers of the feature files."
PLANNED = "Patch counts of the synthetic stand-ins."


def patch_tables(
    found: Mapping[str, PatchStatistics], published: Published | None = None, *, phantom: bool = False
) -> list[Table]:
    """Ours with the paper's beside them; after those of phantoms, the paper's in a table of their own."""
    columns = [Column("", [LABELS[row] for row in PATCH_ROWS], name=True)]
    for name, statistics in found.items():
        ours = [_text(getattr(statistics, row)) for row in PATCH_ROWS]
        columns.append(Column(name.replace(" ", "\n", 1) if phantom else name, ours))
        if published and not phantom:
            given = published.figures.get(name, {})
            columns.append(Column("paper", [given.get(row, "-") for row in PATCH_ROWS], attached=True))
    notes = [PLANNED if phantom else HEADERS]
    if published and not phantom:
        notes.append(f"paper: {published.source}; - where it gives no figure.")
    ours_table = Table("Patches per slide", columns, notes, warning=PHANTOM if phantom else "")
    return [ours_table, published_patch_table(published)] if published and phantom else [ours_table]


def published_patch_table(published: Published) -> Table:
    """The paper's table alone."""
    return printed_table(published, "Digits as the paper prints them.")


def _text(value: float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
