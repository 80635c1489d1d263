"""The only place where a trained model runs: cross-validation, `predict`, maps and the viewer are views of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bags.bag import Bag
from ..errors import NotANumberError
from ..nn.batch import Batch
from ..nn.model import Model, Output
from .devices import autocast, pick_device
from .ensemble import Ensemble, Weights, average, combine, members_of


class Prepared(NamedTuple):
    """What is predicted as one (a slide, or all slides of a patient), ready for the model.

    batches: of one bag; one for all members of an ensemble, or one for each.
    """

    name: str
    batches: tuple[Batch, ...]
    bags: tuple[Bag, ...] = ()  # as they were read; a training keeps batches only


@dataclass(frozen=True)
class Seen:
    """What a model was given, and what it made of it."""

    name: str  # slide, or patient if the model pools patients
    bags: tuple[Bag, ...]
    batch: Batch
    output: Output
    probabilities: NDArray[np.float64]  # (class,)
    scores: NDArray[np.float64]  # (score,): what the members of an ensemble average, of classes the logits
    members: "tuple[Seen, ...]" = ()  # of an ensemble
    spread: float | None = None  # how far the members of an ensemble disagree, see `Combined`

    @property
    def attention(self) -> tuple[NDArray[np.float32], ...]:
        """(patch,) per slide, in the order of its file."""
        return tuple(part.float().cpu().numpy() for part in self.batch.in_file_order(self.output.attention))

    @property
    def coords(self) -> tuple[NDArray[np.float64], ...]:
        """(patch, 2) per slide, in the order of its file."""
        return tuple(part.numpy() for part in self.batch.in_file_order(self.batch.coords))


def run_model(model: Model | Ensemble, items: Iterable[Prepared], *, device: str, precision: str) -> Iterator[Seen]:
    """The model in evaluation mode on each item. precision: the one it was trained in."""
    where = pick_device(device)
    model.to(where).eval()
    members = members_of(model)
    for name, batches, bags in items:
        if len(batches) == 1:
            batches *= len(members)
        found = tuple(
            _run(member, name, batch.to(where), bags, precision) for member, batch in zip(members, batches, strict=True)
        )
        yield found[0] if isinstance(model, Model) else _together(found, members[0], model.weights)


def _run(model: Model, name: str, batch: Batch, bags: tuple[Bag, ...], precision: str) -> Seen:
    with torch.inference_mode():
        with autocast(batch.features.device, precision):
            output = model(batch)
        logits = output.logits.float()  # bfloat16 knows 128 probabilities above 1/2
        p = model.probabilities(output._replace(logits=logits))[0].double().cpu().numpy()
        scores = model.head.scores(logits)[0].double().cpu().numpy()
    if not np.isfinite(p).all():
        raise NotANumberError(
            f"{name}: the model returned {p.tolist()}, expected finite probabilities. Its weights or these features "
            "are damaged or too large; check the features, or train again with a lower lr."
        )
    return Seen(name, bags, batch, output, p, scores)


def _together(found: tuple[Seen, ...], first: Model, weights: Weights | None) -> Seen:
    """What an ensemble makes of it: average scores, logits and attention; hidden states belong to its members."""
    scores = np.stack([seen.scores for seen in found])[:, None]
    mean, probabilities, spread = combine(scores, first.config.task, first.config.classes, weights)
    output, device = found[0].output, found[0].output.logits.device
    none = output.hidden[:, :0]
    output = Output(
        logits=torch.from_numpy(average(np.stack([s.output.logits.double().cpu() for s in found]), weights)).to(device),
        attention=_average(torch.stack([seen.output.attention.float() for seen in found]), weights),
        hidden=none,
        jigsaw_logits=None,
        embedding=none[:0],
    )
    batch, bags = found[0].batch, found[0].bags
    return Seen(found[0].name, bags, batch, output, probabilities[0], mean[0], found, float(spread[0]))


def _average(values: Tensor, weights: Weights | None) -> Tensor:
    """Over the members, which are the first axis, on the values' device."""
    return values.mean(dim=0) if weights is None else torch.tensordot(values.new_tensor(weights), values, dims=1)


def held_out_loss(model: Model, seen: Seen, labels: Tensor) -> float:
    """Of a bag that the model was not fitted to. labels: (1,) or (1, several)"""
    with torch.inference_mode():
        logits = seen.output.logits.float()
        return float(model.head.held_out(logits, labels.to(logits.device))[0])
