"""Methods that use positions need coordinates; features without them are for the others."""

from collections.abc import Iterable

from ..bags.bag import Bag
from ..bags.formats import BagInfo
from ..cohort.cohort import Cohort
from ..cohort.labels import listed
from ..errors import ConfigError, FeatureError
from ..graph import most_ties
from ..nn.options import METHODS
from .settings import Settings


def blind_methods() -> list[str]:
    """Methods that use no positions."""
    return [name for name, method in METHODS.items() if not method.sees_positions]


def check_places(cohort: Cohort, settings: Iterable[Settings], *, shuffled: bool = False) -> None:
    """Refuse methods that use positions on a cohort that has none, or none of use for a graph. shuffled: they are to
    be shuffled."""
    settings = list(settings)
    check_piles(cohort, settings)
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


def check_piles(cohort: Cohort, settings: Iterable[Settings]) -> None:
    """Refuse methods whose graphs cannot be built, for too many patches of a slide have one position."""
    for one in settings:
        k = min((own.graph.k for own in one.each_member() if own.needs_graph and own.graph.kind == "knn"), default=None)
        if k is None:
            continue
        piles = {s.slide_id: s.survey.piled for s in cohort.slides if s.survey and s.survey.piled > most_ties(k)}
        if piles:
            raise FeatureError(
                f"{len(piles)} slide{'s' * (len(piles) > 1)} with too many patches at the same position for the "
                f"graph of {one.method} (k={k}), expected at most {most_ties(k)}: "
                f"{listed([f'{name} ({n})' for name, n in piles.items()], 5)}. "
                "Extract them again, leave them out with --skip-bad (skip_bad=True), or use a method without a graph."
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
