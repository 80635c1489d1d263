"""Feature bags: the patches of one slide, how they were made, and the file formats they are read from and written to.

Example:

    from jigsawmil.bags import read_bag

    bag = read_bag("features/0001.h5")
    bag.features, bag.coords  # (patch, feature) and (patch, 2)
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .bag import Bag
    from .counts import PatchStatistics, patch_statistics
    from .digest import content_digest
    from .formats import BagInfo, find_bags, peek_bag, read_bag, register_format, write_bag
    from .join import join_features
    from .provenance import Encoding
    from .tile_spec import TileSpec
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "Bag", "BagInfo", "Encoding", "PatchStatistics", "TileSpec", "content_digest", "find_bags", "join_features",
    "patch_statistics", "peek_bag", "read_bag", "register_format", "write_bag",
]  # fmt: skip
