"""Methods that use positions need coordinates; features without them are for the others."""

from collections.abc import Iterable

from ..bags.bag import Bag
from ..bags.formats import BagInfo
from ..cohort.cohort import Cohort
from ..cohort.labels import listed
from ..errors import ConfigError, FeatureError
from ..nn.options import METHODS
from .settings import Settings


def blind_methods() -> list[str]:
    """Methods that use no positions."""
    return [name for name, method in METHODS.items() if not method.sees_positions]


def check_places(cohort: Cohort, settings: Iterable[Settings], *, shuffled: bool = False) -> None:
    """Refuse methods that use positions on a cohort that has none. shuffled: they are to be shuffled."""
    lacking = cohort.unplaced
    if not lacking:
        return
    found = f"Features without coordinates in {len(lacking)} of {len(cohort)} slides: {listed(lacking, 3)}"
    seeing = list(dict.fromkeys(one.method for one in settings if METHODS[one.method].sees_positions))
    if seeing:
        raise ConfigError(
            f"{found}. {', '.join(seeing)}: expected coordinates, which {_uses(seeing)}. Choose methods that use none "
            f"({', '.join(blind_methods())}) with --methods (compare), --method (train) or method= (study files, "
            "Python), or give patch features that have coordinates."
        )
    if shuffled:
        raise ConfigError(
            f"{found}. The control shuffles positions, but these features have none. Leave --shuffle-control out."
        )


def check_placed(bag: Bag | BagInfo, methods: Iterable[str]) -> None:
    """Refuse a slide without coordinates for a trained model that uses them. methods: of all its members."""
    seeing = [name for name in dict.fromkeys(methods) if METHODS[name].sees_positions]
    if seeing and not bag.placed:
        raise FeatureError(
            f"{bag.slide_id}: features without coordinates; the model ({', '.join(seeing)}) was trained with "
            "coordinates and uses them. Give patch features that have coordinates, or train one of "
            f"{', '.join(blind_methods())}."
        )


def _uses(methods: list[str]) -> str:
    return "this method uses" if len(methods) == 1 else "these methods use"
