"""A trained model on new slides."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..bags.bag import Bag
from ..bags.formats import BagInfo, peek_bag, read_bag
from ..bags.store import read_ahead
from ..cohort.labels import group_slides, slide_name
from ..errors import FeatureError
from ..graph_config import GraphConfig, Raster
from ..nn.batch import Batch
from ..nn.model import METHODS, Model
from ..slides.encoders.spec import our_name
from ..synthetic.phantom_options import is_phantom
from .checkpoint import ModelCard
from .devices import pick_device
from .ensemble import Ensemble
from .infer import Prepared, Seen, run_model
from .places import check_placed

Item = Bag | str | Path  # a slide in memory, or its feature file


def apply_model(
    model: Model | Ensemble,
    card: ModelCard,
    bags: Sequence[Item],
    patient_of: Mapping[str, str] | None = None,
    *,
    device: str = "auto",
    **reading: Any,
) -> Iterator[Seen]:
    """What the model makes of every slide (or patient, if it was trained to pool patients), read ahead in a thread.

    What does not fit is refused before the first prediction. patient_of: slide -> patient, for a model that pools
    patients; without it TCGA barcodes say it, and slides by other names are patients of their own. reading: options of
    `read_bag`.

    Example: `[seen.name for seen in apply_model(*load_model("model"), ["a.h5"])]`
    """
    pick_device(device)
    for item in bags:
        check_fits(item if isinstance(item, Bag) else peek_bag(item, **reading), card)
    names = [item.slide_id if isinstance(item, Bag) else slide_name(Path(item).name) for item in bags]
    patients = [patient_of[name] for name in names] if patient_of else None
    groups = [(name, [bags[row] for row in rows]) for name, rows in group_slides(names, card.level, patients)]
    yield from apply_groups(model, card, groups, device=device, **reading)


def apply_groups(
    model: Model | Ensemble,
    card: ModelCard,
    groups: Iterable[tuple[str, Sequence[Item]]],
    *,
    device: str = "auto",
    **reading: Any,
) -> Iterator[Seen]:
    """The same for slides that are grouped already: name, and the slides that are pooled into one prediction."""
    items = read_ahead(partial(_prepare, card, reading), groups)
    return run_model(model, items, device=device, precision=card.precision)


def _prepare(card: ModelCard, reading: dict[str, Any], group: tuple[str, Sequence[Item]]) -> Prepared:
    name, items = group
    bags = tuple(_read(item, reading) for item in items)
    for bag in bags:
        check_fits(bag, card)
    shapes = [_shape(member) for member in card.members or (card,)]
    first = Batch.of(bags, *shapes[0]).as_one_bag()
    made = {shapes[0]: first} | {s: first.prepared_for(bags, *s) for s in dict.fromkeys(shapes) if s != shapes[0]}
    return Prepared(name, tuple(made[shape] for shape in shapes), bags)


def _shape(card: ModelCard) -> tuple[GraphConfig | None, Raster]:
    """What a slide is prepared with."""
    return (card.graph if METHODS[card.model.method].graph else None), card.model.raster


def _read(item: Item, reading: dict[str, Any]) -> Bag:
    if isinstance(item, Bag):
        return item
    return dataclasses.replace(read_bag(item, **reading), slide_id=slide_name(Path(item).name))  # as a cohort names it


def check_fits(bag: Bag | BagInfo, card: ModelCard) -> None:
    """Features of another encoder are refused: their columns mean other things."""
    trained = f"{card.model.in_dim}" + (f" ({card.encoder})" if card.encoder else "")
    patches = len(bag) if isinstance(bag, Bag) else bag.n
    if patches == 0:
        raise FeatureError(f"{bag.slide_id}: the slide has no patches; expected at least one. Leave it out.")
    check_placed(bag, [member.model.method for member in card.members or (card,)])
    if bag.dim != card.model.in_dim:
        raise FeatureError(
            f"{bag.slide_id}: features have {bag.dim} columns{f' ({bag.encoder})' if bag.encoder else ''}, the model "
            f"was trained on {trained}. Extract with the same encoder, or train on these features."
        )
    if bag.encoder and card.encoder and our_name(bag.encoder) != our_name(card.encoder):
        raise FeatureError(
            f"{bag.slide_id}: features are of the encoder {bag.encoder}, the model was trained on {card.encoder}. "
            + (
                "Draw the phantoms with the --encoder-seed of the training cohort, see docs/phantoms.md."
                if is_phantom(bag.encoder)
                else "Extract with the same encoder, or train on these features."
            )
        )
