"""What a person reads: the HTML report of a run, its tables and its plots.

Example:

    from jigsawmil.report import write_report

    write_report("run", "run/report.html")
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .finish import finish_run
    from .page import write_report
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "finish_run", "write_report",
]  # fmt: skip
