"""A trained model on new slides."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..bags.bag import Bag
from ..bags.formats import BagInfo, peek_bag, read_bag
from ..bags.store import read_ahead
from ..cohort.labels import patients_of, slide_name
from ..errors import FeatureError
from ..nn.batch import Batch
from ..nn.model import METHODS, Model
from ..slides.encoders.spec import our_name
from .checkpoint import ModelCard
from .fit import pick_device


class Prediction(NamedTuple):
    name: str  # slide, or patient where the model pools patients
    bags: tuple[Bag, ...]
    probabilities: np.ndarray  # (class,)
    attention: tuple[np.ndarray, ...]  # one a bag, in the order of its file


def apply_model(
    model: Model, card: ModelCard, bags: Sequence[Bag | Path], *, device: str = "auto", **reading: Any
) -> Iterator[Prediction]:
    """A prediction for every slide (or patient, as the model was trained), read ahead in a thread.

    What does not fit is refused before the first prediction. reading: options of `read_bag`.
    """
    where = pick_device(device)
    for item in bags:
        check_fits(item if isinstance(item, Bag) else peek_bag(item, **reading), card)
    model.to(where).eval()
    graph = card.graph if METHODS[card.model.method].graph else None

    def read_one(item: Bag | Path) -> Bag:
        if isinstance(item, Bag):
            return item
        return dataclasses.replace(read_bag(item, **reading), slide_id=slide_name(item.name))  # as a cohort names it

    def prepare(group: Sequence[Bag | Path]) -> tuple[tuple[Bag, ...], Batch]:
        read = tuple(read_one(item) for item in group)
        batch = Batch.of(read, graph, card.model.grid)
        return read, batch.as_one_bag() if card.level == "patient" else batch

    for read, batch in read_ahead(prepare, _groups(bags, card.level)):
        with torch.inference_mode():
            batch = batch.to(where)
            output = model(batch)
            attention = tuple(part.cpu().numpy() for part in batch.in_file_order(output.attention))
            p = model.probabilities(output)[0].double().cpu().numpy()
        name = read[0].slide_id
        yield Prediction(patients_of([name])[0][0] if card.level == "patient" else name, read, p, attention)


def check_fits(bag: Bag | BagInfo, card: ModelCard) -> None:
    """Features of another encoder are refused: their columns mean other things."""
    trained = f"{card.model.in_dim}" + (f" ({card.encoder})" if card.encoder else "")
    patches = len(bag) if isinstance(bag, Bag) else bag.n
    if patches == 0:
        raise FeatureError(f"{bag.slide_id}: the slide has no patches; expected at least one. Leave it out.")
    if bag.dim != card.model.in_dim:
        raise FeatureError(
            f"{bag.slide_id}: features have {bag.dim} columns{f' ({bag.encoder})' if bag.encoder else ''}, the model "
            f"was trained on {trained}. Extract with the same encoder, or train on these features."
        )
    if bag.encoder and card.encoder and our_name(bag.encoder) != our_name(card.encoder):
        raise FeatureError(
            f"{bag.slide_id}: features are of the encoder {bag.encoder}, the model was trained on {card.encoder}. "
            "Extract with the same encoder, or train on these features."
        )


def _groups(bags: Sequence[Bag | Path], level: str) -> Iterable[list[Bag | Path]]:
    if level == "slide":
        return [[bag] for bag in bags]
    names = [bag.slide_id if isinstance(bag, Bag) else slide_name(bag.name) for bag in bags]
    groups: dict[str, list[Bag | Path]] = {}
    for patient, bag in zip(patients_of(names)[0], bags, strict=True):
        groups.setdefault(patient, []).append(bag)
    return groups.values()
