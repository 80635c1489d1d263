"""Poolings rho: the hidden states of a bag to one vector, one per file.

Slides are few, so a loop over bags is plain and exact. A method names its pooling (`METHODS` in `nn/options.py`).
"""

from typing import TYPE_CHECKING

from ...registry import Table

if TYPE_CHECKING:
    from ..parts import Pooling

POOLINGS: "Table[type[Pooling]]" = Table(__name__, __path__)
