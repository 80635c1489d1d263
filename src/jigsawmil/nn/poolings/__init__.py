"""Poolings rho: the hidden states of a bag to one vector, one per file.

Slides are few, so a loop over bags is plain and exact. A method names its pooling (`METHODS` in `nn/options.py`).
"""

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from ..parts import Pooling

POOLINGS: "Registry[type[Pooling]]" = Registry(__name__, __path__)
