"""Which input patches made the logit what it is: integrated gradients through encoder, graph and pooling."""

import dataclasses
import warnings
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from ..nn.batch import Batch, pieces
from ..nn.model import Model
from ..train.checkpoint import ModelCard
from ..train.devices import autocast

STEPS = 16  # nodes of the quadrature; each takes a forward and a backward pass
PATCHES = 8192  # small slides: several nodes in one pass, up to so many patches
KINDS, AXES = 8, 8  # groups of patches that look alike, found along so many principal axes of the slide's features


class Attribution(NamedTuple):
    """What each input patch adds to the logits of a slide; made by `attribute`.

    Sum of values over the bag's patches + reference + gap = logits.
    """

    values: Tensor  # (patch, logit), double, in the order of the batch
    reference: Tensor  # (logit,): the logits if every patch is replaced by the mean of its slide
    gap: Tensor  # (logit,): error of the quadrature


def attribute(model: Model, card: ModelCard, batch: Batch, *, steps: int = STEPS, share: bool = True) -> Attribution:
    """What each input patch adds to the logits, from all patches being m, the mean embedding of the slide, to x:

    a_j = (x_j - m) . integral over t from 0 to 1 of the gradient at x_j of the logits at m + t (x - m)

    (integrated gradients, Sundararajan et al. 2017, by Gauss-Legendre quadrature). Places and graph stay the same.
    share: for graph models, `shared_alike` afterwards. batch: one bag, of a model in evaluation mode.
    Time: `steps` forward and backward passes. Memory: one training step of the slide.

    Example: `attribute(model, card, Batch.of(bag, card.graph)).values  # (patch, logit)`
    """
    features = batch.features.detach().clone()  # a batch of `run_model` may hold tensors of inference mode
    batch = dataclasses.replace(batch, features=features)
    mean = torch.cat([part.mean(dim=0, keepdim=True).expand_as(part) for part in pieces(features, batch.slides)])
    away = features - mean
    with torch.no_grad():
        whole, reference = (_logits(model, card, batch, x)[0].double() for x in (features, mean))
    values = torch.zeros((len(features), len(whole)), dtype=torch.float64, device=features.device)
    nodes, weights = (torch.from_numpy(v / 2).to(features) for v in _gauss(steps))
    for t, w in zip(*(v.split(max(1, PATCHES // len(features))) for v in (nodes, weights)), strict=True):
        path = (mean + t[:, None, None] * away).flatten(0, 1).requires_grad_()  # (node * patch, d)
        with torch.enable_grad():
            logits = _logits(model, card, Batch.cat([batch] * len(t)), path)  # (node, logit)
            totals = (w[:, None] * logits).sum(dim=0)
        for column, total in enumerate(totals):
            [slope] = torch.autograd.grad(total, path, retain_graph=column < len(totals) - 1)
            slope = slope.unflatten(0, (len(t), -1)).sum(dim=0)
            values[:, column] += torch.linalg.vecdot(slope, away).double()
    gap = whole - reference - values.sum(dim=0)
    return Attribution(shared_alike(values, batch) if share else values, reference, gap)


def shared_alike(values: Tensor, batch: Batch) -> Tensor:
    """(patch, logit) with the same sums: each patch keeps a third, gives a third to its graph neighbours of the same
    kind and a third to all patches of that kind in the slide. Kinds are groups of similar features (k-means).

    A graph layer mixes a patch with its neighbours, so the attribution of a single patch is noisy; that of similar
    patches together is not. Batches without a graph are returned as they are.
    """
    if batch.graph is None:
        return values
    kind = torch.cat([_kinds(part) for part in pieces(batch.features, batch.slides)]).to(values.device)
    slide = torch.arange(len(batch.slides)).repeat_interleave(torch.tensor(batch.slide_ptr).diff()).to(values.device)
    group = slide * KINDS + kind
    size = group.bincount(minlength=len(batch.slides) * KINDS).to(values)
    pooled = values.new_zeros((len(size), values.shape[1])).index_add_(0, group, values)
    row = torch.repeat_interleave(batch.graph.indptr.diff())
    column = batch.graph.indices.long()
    weight = batch.graph.weight.to(values) * (kind[row] == kind[column])  # symmetric; a patch is its own neighbour
    out = values.new_zeros(len(values)).index_add_(0, row, weight)
    near = torch.zeros_like(values)
    for logit in range(values.shape[1]):  # a column at a time: nothing is edges x logits
        near[:, logit].index_add_(0, column, weight * (values[:, logit] / out)[row])
    return (values + near + (pooled / size[:, None])[group]) / 3


def _kinds(features: Tensor) -> Tensor:
    """(patch,): which of up to `KINDS` groups of similar features each patch of a slide belongs to."""
    x = (features - features.mean(dim=0)).double()
    _, axes = torch.linalg.eigh(x.T @ x)  # in ascending order
    places = (x @ axes[:, -AXES:]).cpu().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct patches than kinds
        found = KMeans(min(KINDS, len(places)), n_init=2, random_state=0).fit_predict(places)
    return torch.from_numpy(found).long()


def _gauss(steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Twice the nodes in [0, 1], and twice their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return nodes + 1, weights


def _logits(model: Model, card: ModelCard, batch: Batch, features: Tensor) -> Tensor:
    """(bag, logit) with other content at the same places."""
    with autocast(features.device, card.precision):
        return model(dataclasses.replace(batch, features=features)).logits.float()
