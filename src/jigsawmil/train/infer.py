"""The only place where a trained model runs: cross-validation, `predict`, maps and the viewer are views of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..bags.bag import Bag
from ..nn.batch import Batch
from ..nn.model import Model, Output
from .devices import autocast, pick_device


class Prepared(NamedTuple):
    """What is predicted as one (a slide, or all slides of a patient), ready for the model."""

    name: str
    batch: Batch  # of one bag
    bags: tuple[Bag, ...] = ()  # as they were read; a training keeps batches only


@dataclass(frozen=True)
class Seen:
    """What a model was given, and what it made of it."""

    name: str  # slide, or patient if the model pools patients
    bags: tuple[Bag, ...]
    batch: Batch
    output: Output
    probabilities: NDArray[np.float64]  # (class,)

    @property
    def attention(self) -> tuple[NDArray[np.float32], ...]:
        """(patch,) per slide, in the order of its file."""
        return tuple(part.float().cpu().numpy() for part in self.batch.in_file_order(self.output.attention))

    @property
    def coords(self) -> tuple[NDArray[np.float64], ...]:
        """(patch, 2) per slide, in the order of its file."""
        return tuple(part.numpy() for part in self.batch.in_file_order(self.batch.coords))


def run_model(model: Model, items: Iterable[Prepared], *, device: str, precision: str) -> Iterator[Seen]:
    """The model in evaluation mode on each item. precision: the one it was trained in."""
    where = pick_device(device)
    model.to(where).eval()
    for name, batch, bags in items:
        with torch.inference_mode():  # not around the yield, where it would hold for the caller too
            batch = batch.to(where)
            with autocast(where, precision):
                output = model(batch)
            single = output._replace(logits=output.logits.float())  # bfloat16 knows 128 probabilities above 1/2
            p = model.probabilities(single)[0].double().cpu().numpy()
        yield Seen(name, bags, batch, output, p)
