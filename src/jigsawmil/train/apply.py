"""A trained model on new slides."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..bags.bag import Bag
from ..bags.formats import BagInfo, peek_bag, read_bag
from ..bags.magnification import DIFFERENT, OTHER, Magnification, magnification, of_tiles, ratio
from ..bags.store import read_ahead
from ..cohort.covariates import Covariate, cells_of, coded, columns_of, unknown_categories
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

Known = Mapping[str, Mapping[str, Any]]  # slide -> covariates of its patient
Item = Bag | str | Path  # a slide in memory, or its feature file
Reader = Callable[[], Bag]  # what reads a slide
Group = tuple[str, Sequence[Item | Reader]]  # what is predicted as one: its name, and its slides
OnFailure = Callable[[str, FeatureError], None]


def apply_model(
    model: Model | Ensemble,
    card: ModelCard,
    bags: Sequence[Item],
    patient_of: Mapping[str, str] | None = None,
    *,
    device: str = "auto",
    known: Known | None = None,
    **reading: Any,
) -> Iterator[Seen]:
    """The model's output for every slide (or patient, if it was trained to pool patients); files are read ahead in a
    thread.

    What does not fit is refused before the first prediction. patient_of: slide -> patient, for a model that pools
    patients; without it TCGA barcodes say it, and slides by other names are patients of their own. known: slide ->
    covariates of its patient, for feature files and a model that uses them. reading: options of `read_bag`.

    Example: `[seen.name for seen in apply_model(*load_model("model"), ["a.h5"])]`
    """
    pick_device(device)
    for item in bags:
        check_fits(_header(item, reading), card)
    names = {item_name(item): item.covariates if isinstance(item, Bag) else None for item in bags}
    check_known(card, [(name, own or (known or {}).get(name)) for name, own in names.items()])
    yield from apply_groups(model, card, groups_of(bags, card, patient_of), device=device, known=known, **reading)


def groups_of(bags: Sequence[Item], card: ModelCard, patient_of: Mapping[str, str] | None = None) -> list[Group]:
    """What is predicted as one: slides, or patients if the model pools them."""
    names = [item_name(item) for item in bags]
    patients = [patient_of[name] for name in names] if patient_of else None
    return [(name, [bags[row] for row in rows]) for name, rows in group_slides(names, card.level, patients)]


def item_name(item: Item) -> str:
    """As a cohort names it."""
    return item.slide_id if isinstance(item, Bag) else slide_name(Path(item).name)


def notes_on(headers: Sequence[Bag | BagInfo], card: ModelCard) -> list[str]:
    """What is to be said of slides that fit the model, but not in everything."""
    return [note for note in (size_note(headers, card), _precision_note(headers, card)) if note]


def _precision_note(headers: Sequence[Bag | BagInfo], card: ModelCard) -> str:
    trained = card.encoding.precision if card.encoding else None
    known = [header.encoding.precision for header in headers if isinstance(header, BagInfo) and header.encoding]
    other = [precision for precision in known if trained and precision != trained]
    if not other:
        return ""
    return (
        f"{len(other)} of {len(headers)} slides have features computed in {other[0]}; the model was trained on "
        f"features computed in {trained}, which differ a little."
    )


def size_note(headers: Iterable[Bag | BagInfo], card: ModelCard) -> str:
    """What is to be said of the sizes of patches, beside what `check_fits` refuses; empty if they agree."""
    trained = _trained_size(card)
    sizes = [_size(header) for header in headers]
    other = [size for size in sizes if ratio(size, trained) > DIFFERENT]
    unknown = sum(not size.known for size in sizes)
    if other:
        words = f"{len(other)} of {len(sizes)} slides have {other[0].words}"
    elif trained.known and unknown:
        words = f"{unknown} of {len(sizes)} slides do not say how large their patches are in microns (--slide-mpp)"
    elif sizes and not trained.known and unknown < len(sizes):
        return f"The model does not state its patch size, so it is not compared with the slides' {sizes[0].words}."
    else:
        return ""
    return f"{words}; the model was trained on {trained.words}."


def apply_groups(
    model: Model | Ensemble,
    card: ModelCard,
    groups: Iterable[Group],
    *,
    device: str = "auto",
    known: Known | None = None,
    on_failure: OnFailure | None = None,
    **reading: Any,
) -> Iterator[Seen]:
    """The same for slides that are grouped already: name, and the slides that are pooled into one prediction.

    on_failure: called with those that cannot be read or answered, and why; without it, the first one ends all."""
    items = read_ahead(partial(_try_to_prepare, card, reading, known or {}), groups)
    for name, item in items:
        try:
            if isinstance(item, FeatureError):
                raise item
            yield from run_model(model, [item], device=device, precision=card.precision)
        except FeatureError as error:
            if on_failure is None:
                raise
            on_failure(name, error)


def _try_to_prepare(
    card: ModelCard, reading: dict[str, Any], known: Known, group: Group
) -> tuple[str, Prepared | FeatureError]:
    try:
        return group[0], _prepare(card, reading, known, group)
    except FeatureError as error:
        return group[0], error


def _prepare(card: ModelCard, reading: dict[str, Any], known: Known, group: Group) -> Prepared:
    name, items = group
    bags = tuple(_read(item, reading, known) for item in items)
    for bag in bags:
        check_fits(bag, card)
    shapes = [_shape(member) for member in card.members or (card,)]
    first = Batch.of(bags, *shapes[0]).as_one_bag()
    made = {shapes[0]: first} | {s: first.prepared_for(bags, *s) for s in dict.fromkeys(shapes) if s != shapes[0]}
    return Prepared(name, tuple(made[shape] for shape in shapes), bags)


def _shape(card: ModelCard) -> tuple[GraphConfig | None, Raster]:
    """What a slide is prepared with."""
    return (card.graph if METHODS[card.model.method].graph else None), card.model.raster


def _read(item: Item | Reader, reading: dict[str, Any], known: Known) -> Bag:
    if isinstance(item, Bag):
        return item
    if not isinstance(item, str | Path):
        return item()
    name = item_name(item)
    return dataclasses.replace(read_bag(item, **reading), slide_id=name, covariates=known.get(name))


def covariates_of_card(card: ModelCard) -> tuple[Covariate, ...]:
    """The columns that a model, or any member of an ensemble, uses."""
    return columns_of(next((text for one in card.members or (card,) if (text := one.model.covariate_columns)), ""))


def all_missing(card: ModelCard, items: Sequence[Item]) -> Known:
    """Of feature files: as if nothing were known of their patients. What patches contribute does not depend on it."""
    blank = {column.name: "" for column in covariates_of_card(card)}
    return {item_name(item): blank for item in items if not isinstance(item, Bag)} if blank else {}


def check_known(card: ModelCard, slides: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[str]:
    """Refuse slides without the covariates that the model uses; notes about categories that it does not know.

    slides: name and covariates of each."""
    columns = covariates_of_card(card)
    rows = [cells_of(columns, known, name) for name, known in slides] if columns else []
    for row in rows:
        coded(columns, row)
    return unknown_categories(columns, rows)


def _header(item: Item | Reader, reading: dict[str, Any]) -> Bag | BagInfo:
    return peek_bag(item, **reading) if isinstance(item, str | Path) else item if isinstance(item, Bag) else item()


def _size(bag: Bag | BagInfo) -> Magnification:
    return magnification(bag, bag.tiles if isinstance(bag, BagInfo) else None)


def _trained_size(card: ModelCard) -> Magnification:
    return of_tiles(card.patch_um, card.tiles)


def check_fits(bag: Bag | BagInfo, card: ModelCard) -> None:
    """Features of another encoder are refused, for their columns mean other things, and so are those of another
    magnification."""
    trained = f"{card.model.in_dim}" + (f" ({card.encoder})" if card.encoder else "")
    patches = len(bag) if isinstance(bag, Bag) else bag.n
    if patches == 0:
        raise FeatureError(f"{bag.slide_id}: the slide has no patches; expected at least one. Leave it out.")
    check_placed(bag, [member.model.method for member in card.members or (card,)])
    if bag.dim != card.model.in_dim:
        raise FeatureError(
            f"{bag.slide_id}: features have {bag.dim} columns{f' ({bag.encoder})' if bag.encoder else ''}, the model "
            f"was trained on {trained}. {_same_encoder(card)}"
        )
    if bag.encoder and card.encoder and our_name(bag.encoder) != our_name(card.encoder):
        raise FeatureError(
            f"{bag.slide_id}: features are of the encoder {bag.encoder}, the model was trained on {card.encoder}. "
            + (
                "Draw the phantoms with the --encoder-seed of the training cohort, see docs/phantoms.md."
                if is_phantom(bag.encoder)
                else _same_encoder(card)
            )
        )
    encoding = bag.encoding if isinstance(bag, BagInfo) else None
    if encoding and card.encoding and encoding.mark != card.encoding.mark:
        raise FeatureError(
            f"{bag.slide_id}: features made with other weights of the encoder {bag.encoder}, or with tiles prepared "
            f"otherwise (digest {encoding.mark}); the model was trained on {card.encoding.mark}. Extract with the same "
            "weights, or train on these features."
        )
    if ratio(_size(bag), _trained_size(card)) > OTHER:
        raise FeatureError(
            f"{bag.slide_id}: {_size(bag).words}, the model was trained on {_trained_size(card).words}. Extract at the "
            "same magnification with the same patch size, or train on these features."
        )


def _same_encoder(card: ModelCard) -> str:
    """What to do about features of another encoder."""
    several = (card.encoder or "").split("+")
    if len(several) > 1:
        return (
            f"It needs the features of {' and '.join(several)}, in this order: give --features for each, or the folder "
            "that `jigsawmil join` makes of them."
        )
    return "Extract with the same encoder, or train on these features."
