"""What this machine has, and whether every kernel gives the right answer on it.

Example:

    from jigsawmil.doctor import examine

    found = examine("features")
    found.right  # of the kernels
    found.tables  # as `jigsawmil doctor` prints them
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .examination import Examination, examine
else:
    __getattr__ = attach(__name__, __file__)

__all__ = ["Examination", "examine"]
