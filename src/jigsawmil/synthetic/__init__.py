"""Synthetic cohorts (phantoms) and slides whose answer is known.

Example:

    from jigsawmil.synthetic import make_phantom, write_phantom

    phantom = make_phantom("arrangement", slides=100, seed=0)
    write_phantom(phantom, "cohort")  # features/ and labels.csv
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .painted import paint_cohort
    from .phantom import Phantom, make_phantom, phantom_slides, write_phantom
    from .phantom_options import PhantomSpec, phantom_spec
    from .phantom_slide import PhantomSlide
    from .planted import Planted, read_planted
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "Phantom", "PhantomSlide", "PhantomSpec", "Planted", "make_phantom", "paint_cohort", "phantom_slides",
    "phantom_spec", "read_planted", "write_phantom",
]  # fmt: skip
