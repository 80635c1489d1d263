"""What docs/results.md says of how a step scales, and of cohorts larger than memory, from their files of results."""

from ..speed.scaling import MEMBERS, table
from .results_sections import Found, grid


def scaling(found: Found) -> list[str]:
    how = found["how"]
    parts = [
        f"Ratios, medians of steps taken in turn, on slides of {found['patches']:,} patches, by {how['by']} on "
        f"{how['threads']} thread{'s' if how['threads'] > 1 else ''}. The step of `graph-abmil+jigsaw` over that of "
        "our `abmil` in the same precision, by number of neighbours:",
        table(found["k"]),
        f"{found['epochs']} epochs of M members that share what was read, over those of one:",
        table(found["members"]),
        f"The first matrix products of {max(MEMBERS)} members at once, over one after the other:",
        table([found["wide"]]),
    ]
    if "threads" in found:
        parts += ["The step on one thread over that on T:", table(found["threads"])]
    return parts


def out_of_core(found: Found) -> list[str]:
    header = ["way", "first epoch, s", "slides per second", "rate / memory", "the same by processor time"]
    lines = [
        [way, f"{row['first_epoch_s']:.1f}", *(f"{row[key]:.2f}" for key in ("rate", "clock", "processor"))]
        for way, row in found["rows"].items()
    ]
    checked = found["check"]
    return [
        f"{found['slides']} slides of {int(found['patches']):,} patches in HDF5, {found['prepared_gb']:.1f} GB when "
        f"prepared, on {found['threads']} threads. *memory* holds them all; the others may hold "
        f"{found['memory_gb']:.1f} GB: *disk* maps the rest from the cache on disk, *disk, cold* with the system's "
        "copies dropped before each epoch, *again* reads and prepares the rest each time.",
        grid(header, lines),
        f"`jigsawmil check` of {checked['files']:,} files: {checked['first']:.1f} s, the second time "
        f"{checked['warm']:.1f} s.",
    ]
