"""Why a model says what it says: for each patch its attention, its exact share of every logit, on request its input
attribution, where the jigsaw puts it, and which neighbours it looks at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bags.bag import Bag
from ..errors import ConfigError
from ..graph_config import Raster
from ..nn.batch import Batch, raster_extent
from ..nn.model import Model
from ..tasks import get_task
from ..train.apply import Item, all_missing, apply_groups, apply_model
from ..train.checkpoint import ModelCard
from ..train.devices import autocast
from ..train.ensemble import Ensemble, Weights, average
from ..train.infer import Seen
from .attribution import attribute
from .values import attends

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_EVIDENCE = "This model does not define what each patch contributes, so there is no contribution (evidence) map."


@dataclass(frozen=True)
class EdgeAttention:
    """What each patch of a slide attends to: CSR over patches in the batch's order; `order`: their row in the file."""

    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    weight: NDArray[np.float32]
    order: Ints

    def row(self, patch: int) -> tuple[Ints, Floats]:
        place = int(np.flatnonzero(self.order == patch)[0])
        span = slice(self.indptr[place], self.indptr[place + 1])
        weight = self.weight[span].astype(np.float64)
        heaviest = np.argsort(-weight, kind="stable")
        return self.order[self.indices[span][heaviest]], weight[heaviest]


@dataclass(frozen=True, kw_only=True)
class PatchMaps:
    """The maps of one slide: what the model computed for every patch. All arrays are in the order of the slide's file.

    name: what was predicted as one, the slide or its patient. attention sums to 1 over the bag: over the slide, or over
    all slides of the patient. So does evidence, with its bias, to the logits: sum over patches + bias = logit, exactly.
    What belongs to the bag as a whole (the co-occurrence of `kinds`) is in the bias; so are all logits if the pooling
    cannot state contributions, and evidence is None then.
    attribution: of the input patches, through the graph layers; see `attribute`. Over the bag, sum + reference + gap =
    logits. All three are None unless asked for, or the model has neither attention nor evidence.
    task: its name; what the logits are is up to the task.
    jigsaw: the corner at which the model expects each patch (mean of the bins' centres under the softmax), to be
    compared with `bag.coords`; None for models without a position jigsaw.
    """

    name: str
    bag: Bag
    task: str
    classes: tuple[str, ...]
    attention: Floats  # (patch,)
    evidence: Floats | None  # (patch, logit), signed
    bias: Floats  # (logit,)
    logits: Floats  # (logit,) of the whole bag
    probabilities: Floats  # (class,) of the whole bag, or what else is predicted of it
    jigsaw: Floats | None  # (patch, 2) in the unit of bag.coords
    edges: EdgeAttention | None  # of GAT models, where asked for
    attribution: Floats | None = None  # (patch, logit), signed
    reference: Floats | None = None  # (logit,) if every patch is replaced by the mean of its slide
    gap: Floats | None = None  # (logit,) error of the attribution's quadrature
    threshold: float | None = None  # of the model's decision, see `ModelCard`

    def __len__(self) -> int:
        return len(self.bag)

    @property
    def coords(self) -> Floats:
        return self.bag.coords.numpy()

    @property
    def prediction(self) -> str:
        """The class that is called, or what else is predicted."""
        return self.classes[get_task(self.task).at(self.threshold).called(self.probabilities)]

    @property
    def said(self) -> str:
        """The prediction in a few words."""
        return get_task(self.task).at(self.threshold).said(self.probabilities, self.classes)

    @property
    def shown_class(self) -> str:
        """The class that a map of evidence is about: the last (positive, highest), or the likeliest of several."""
        return self.classes[get_task(self.task).shown(self.probabilities)]

    @property
    def shows_attention(self) -> bool:
        """Whether patches differ in attention; with neither evidence nor attribution it is shown in any case."""
        return (self.evidence is None and self.attribution is None) or attends(self.attention)

    def of_target(self, name: str | None) -> "PatchMaps":
        """Of several targets, the maps of one, as those of a model of that target alone; its logits are log-odds if it
        has two classes."""
        target = get_task(self.task).find_target(self.classes, name)
        if not target.name:
            return self
        logits = ("evidence", "bias", "logits", "attribution", "reference", "gap")
        of_logits = {key: values for key in logits if (values := getattr(self, key)) is not None}
        own: dict[str, Any] = {key: target.scores(values) for key, values in of_logits.items()}
        return replace(
            self,
            task=target.task.name,
            classes=target.classes,
            probabilities=target.probabilities(self.probabilities),
            **own,
        )

    def evidence_for(self, name: str | None = None) -> Floats:
        """(patch,): what speaks for a class if positive, against it if negative; None: for `shown_class`.

        How it follows from the logits: `evidence` of each task.
        """
        if self.evidence is None:
            raise ConfigError(f"{self.bag.slide_id}: evidence was requested. {NO_EVIDENCE} Use attention.")
        return get_task(self.task).evidence(self.evidence, self._index(name))

    def attribution_for(self, name: str | None = None) -> Floats:
        """(patch,): the same of the input attribution."""
        if self.attribution is None:
            raise ConfigError(
                f"{self.bag.slide_id}: the maps were made without input attribution. Ask for it: attribution=True, or "
                "--attribution on the command line."
            )
        return get_task(self.task).evidence(self.attribution, self._index(name))

    def signed_for(self, name: str | None = None) -> Floats:
        """(patch,): evidence, or the input attribution of a model that has none."""
        return self.attribution_for(name) if self.evidence is None else self.evidence_for(name)

    def _index(self, name: str | None) -> int:
        name = self.shown_class if name is None else name
        if name not in self.classes:
            raise ConfigError(f"class {name!r} is unknown to the model; expected one of {', '.join(self.classes)}.")
        return self.classes.index(name)

    def neighbours(self, patch: int) -> tuple[Ints, Floats] | None:
        """Patches that one attends to (itself among them) and how much, most first; the weights sum to 1.

        The attention of the last graph layer, mean over its heads: what the patch's pooled state is a sum of, one
        for one. None for models without graph attention.
        """
        if not 0 <= patch < len(self):
            raise ConfigError(f"patch {patch}: {self.bag.slide_id} has patches 0 to {len(self) - 1}.")
        return None if self.edges is None else self.edges.row(patch)


def explain(
    model: Model | Ensemble,
    card: ModelCard,
    bags: Item | Sequence[Item],
    *,
    device: str = "auto",
    neighbours: bool = True,
    attribution: bool = False,
    **reading: Any,
) -> list[PatchMaps]:
    """The maps of every slide, a patient's slides one after the other; see `explain_each`.

    Example: `[maps] = explain(model, card, bag)`
    """
    items = [bags] if isinstance(bags, Item) else bags
    return list(
        explain_each(model, card, items, device=device, neighbours=neighbours, attribution=attribution, **reading)
    )


def explain_each(
    model: Model | Ensemble,
    card: ModelCard,
    bags: Sequence[Item],
    *,
    device: str = "auto",
    neighbours: bool = True,
    attribution: bool = False,
    **reading: Any,
) -> Iterator[PatchMaps]:
    """Maps slide by slide, for cohorts larger than memory. Slides are read, checked and grouped as by `apply_model`.

    neighbours: keep the attention between patches, where the model has one; about 0.4 kB a patch, and a second pass
    through the encoder. attribution: also of the input patches; 16 forward and backward passes, 30 to 60 times the time
    of a prediction. reading: options of `read_bag`. Feature files have no covariates: a model that uses some takes them
    as missing, which no contribution of a patch depends on.

    Example: `for maps in explain_each(model, card, paths): write_heatmap(maps, f"{maps.bag.slide_id}.png")`
    """
    for seen in apply_model(model, card, bags, device=device, known=all_missing(card, bags), **reading):
        yield from seen_maps(model, card, seen, neighbours=neighbours, attribution=attribution)


def explain_patient(
    model: Model | Ensemble,
    card: ModelCard,
    patient: str,
    bags: Sequence[Bag],
    *,
    device: str = "auto",
    neighbours: bool = True,
    attribution: bool = False,
) -> list[PatchMaps]:
    """The slides of one patient, pooled into one bag whatever their names; `explain` knows TCGA barcodes only.

    Example: `explain_patient(model, card, "patient 1", [bag, other])  # one per slide`
    """
    [seen] = apply_groups(model, card, [(patient, bags)], device=device)
    return seen_maps(model, card, seen, neighbours=neighbours, attribution=attribution)


def seen_maps(
    model: Model | Ensemble, card: ModelCard, seen: Seen, *, neighbours: bool = True, attribution: bool = False
) -> list[PatchMaps]:
    """Maps of each slide that the model saw as one bag; those of an ensemble are the averages of its members' maps."""
    if isinstance(model, Ensemble):
        members = zip(model, card.members, seen.members, strict=True)
        found = [seen_maps(*member, neighbours=neighbours, attribution=attribution) for member in members]
        together = [_mean_maps(own, seen, model.weights) for own in zip(*found, strict=True)]
        return [replace(maps, threshold=card.threshold) for maps in together]
    batch, output = seen.batch, seen.output
    with torch.inference_mode():
        share, bias = model.contributions(batch, output)
    blind = share is None and not any(map(attends, seen.attention))  # nothing else to show of such a model
    inputs = attribute(model, card, batch) if attribution or blind else None
    attributed = [] if inputs is None else batch.in_file_order(inputs.values)
    with torch.inference_mode():
        evidence: Sequence[Tensor | None] = [None] * len(seen.bags)
        if share is not None:
            evidence = batch.in_file_order(share)
        guesses = None if output.jigsaw_logits is None else batch.in_file_order(output.jigsaw_logits)
        edges = _edges(model, card, batch) if neighbours else [None] * len(seen.bags)
        parts = zip(seen.bags, seen.attention, evidence, edges, strict=True)
        return [
            PatchMaps(
                name=seen.name,
                bag=bag,
                task=card.model.task,
                classes=card.classes,
                attention=attention.astype(np.float64),
                evidence=None if own is None else _numpy(own),
                bias=_numpy(bias[0]),
                logits=_numpy(output.logits[0]),
                probabilities=seen.probabilities,
                jigsaw=None if guesses is None else expected_place(guesses[i], bag.coords, card.model.raster),
                edges=attends_to,
                attribution=None if inputs is None else _numpy(attributed[i]),
                reference=None if inputs is None else _numpy(inputs.reference),
                gap=None if inputs is None else _numpy(inputs.gap),
                threshold=card.threshold,
            )
            for i, (bag, attention, own, attends_to) in enumerate(parts)
        ]


def _mean_maps(members: Sequence[PatchMaps], seen: Seen, weights: Weights | None) -> PatchMaps:
    """Of one slide. Contributions and their bias add up to the average logits, as each member's do to its own; so do
    attributions. Only some members have a jigsaw: theirs count the same."""
    evidence = [maps.evidence for maps in members]
    jigsaw = [maps.jigsaw for maps in members if maps.jigsaw is not None]
    whole = all(own is not None for own in evidence)
    return replace(
        members[0],
        attention=average(np.stack([maps.attention for maps in members]), weights),
        evidence=_mean(evidence, weights),
        bias=average(np.stack([maps.bias if whole else maps.logits for maps in members]), weights),
        logits=average(np.stack([maps.logits for maps in members]), weights),
        probabilities=seen.probabilities,
        jigsaw=np.mean(jigsaw, axis=0) if jigsaw else None,
        edges=_mean_edges([maps.edges for maps in members], weights),
        attribution=_mean([maps.attribution for maps in members], weights),
        reference=_mean([maps.reference for maps in members], weights),
        gap=_mean([maps.gap for maps in members], weights),
    )


def _mean(members: Sequence[Floats | None], weights: Weights | None) -> Floats | None:
    """None if a member has none."""
    known = [own for own in members if own is not None]
    return average(np.stack(known), weights) if len(known) == len(members) else None


def _mean_edges(members: Sequence[EdgeAttention | None], weights: Weights | None) -> EdgeAttention | None:
    """None where members attend along different graphs, or do not attend."""
    known = [edges for edges in members if edges is not None]
    if len(known) < len(members) or any(not np.array_equal(known[0].indices, own.indices) for own in known):
        return None
    weight = average(np.stack([edges.weight for edges in known]), weights)
    return replace(known[0], weight=weight.astype(np.float32))


def expected_place(logits: Tensor, coords: Tensor, raster: Raster) -> Floats:
    """(patch, 2): mean of the bins' centres under the softmax, in the unit of coords; bins as in `position_bins`."""
    grid = raster.cells
    p = logits.double().cpu().softmax(dim=1).unflatten(1, (grid, grid))  # (patch, row, column)
    centre = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    unit = torch.stack([p.sum(dim=1) @ centre, p.sum(dim=2) @ centre], dim=1)
    low, span = raster_extent(coords, raster.axes)
    return (low + unit * span).numpy()


def _edges(model: Model, card: ModelCard, batch: Batch) -> list[EdgeAttention | None]:
    """For each slide; of the last layer, mean over heads."""
    graph = batch.graph
    with autocast(batch.features.device, card.precision):
        layers = model.edge_attention(batch)
    if layers is None or graph is None:
        return [None] * len(batch.slides)
    alpha = layers[-1].float().mean(dim=0).cpu().numpy()
    indptr, indices, order = (t.cpu().numpy() for t in (graph.indptr, graph.indices, batch.order))
    found: list[EdgeAttention | None] = []
    for start, end in batch.slides:
        span = slice(indptr[start], indptr[end])
        rows = indptr[start : end + 1] - indptr[start]
        found.append(EdgeAttention(rows, indices[span] - start, alpha[span], order[start:end]))
    return found


def _numpy(values: Tensor) -> Floats:
    return values.double().cpu().numpy()
