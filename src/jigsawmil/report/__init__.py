"""What a person reads: the HTML report of a run, its tables and its plots.

Example:

    from jigsawmil.report import write_report

    write_report("run", "run/report.html")
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .attention import attention_points, attention_rows, write_attention_figure
    from .finish import finish_run, validate
    from .page import write_report
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "attention_points", "attention_rows", "finish_run", "validate", "write_attention_figure", "write_report",
]  # fmt: skip
