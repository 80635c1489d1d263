"""Jigsaw tasks: self-supervised questions about where patches lie, one per file.

Each gives one loss per slide. None sees a coordinate: only the hidden states do the answering.
"""

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from ..parts import Jigsaw

JIGSAWS: "Registry[type[Jigsaw]]" = Registry(__name__, __path__)
