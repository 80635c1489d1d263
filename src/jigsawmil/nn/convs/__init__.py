"""Graph convolutions on one graph with one set of distance weights, one per file. Each reads like its equation.

All project first and sum over neighbours after: a linear map commutes with the sum, and 256 columns travel
instead of 1024. The activation belongs to the encoder.
"""

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from ..parts import Conv

CONVS: "Registry[type[Conv]]" = Registry(__name__, __path__)
