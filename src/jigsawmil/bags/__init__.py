"""Feature bags: one slide's patches, how they were made, and the file formats they are read from and written to.

from jigsawmil.bags import read_bag

bag = read_bag("features/slide.h5")
bag.features, bag.coords    # (patch, feature) and (patch, 2)
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .bag import Bag
    from .formats import find_bags, peek_bag, read_bag, write_bag
else:
    __getattr__ = attach(__name__, __file__)

__all__ = ["Bag", "find_bags", "peek_bag", "read_bag", "write_bag"]
