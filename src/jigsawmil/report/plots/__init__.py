"""Pictures of a run. Each `*_plot` writes a file (.png, .pdf or .svg) made from the `*_figure` beside it.

No global state of matplotlib is read or changed, and the same input gives the same bytes.
"""

from .agreement import calibration_figure, confusion_figure
from .curves import band_figure, roc_figure, roc_plot
from .forest import forest_figure, forest_plot
from .training import read_traces, trace_figure, trace_plot
from .trust import trust_figure

__all__ = [
    "band_figure",
    "calibration_figure",
    "confusion_figure",
    "forest_figure",
    "forest_plot",
    "read_traces",
    "roc_figure",
    "roc_plot",
    "trace_figure",
    "trace_plot",
    "trust_figure",
]
