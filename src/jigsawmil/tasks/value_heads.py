"""Heads that predict numbers; what they know of the targets of training stands in their `memory`."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .heads import Head


def precise(values: Tensor) -> Tensor:
    """In single precision at least, for autocast knows three digits."""
    return values if values.dtype == torch.float64 else values.float()


class RegressionHead(Head):
    """logit = mean + sd (w . z + b), in the unit of the target; mean and sd are those of the training fold.

    loss: of the standardised error e: squared e^2 / 2; Huber the same up to |e| = 1, and |e| - 1/2 beyond.
    """

    def __init__(self, width: int, loss: str) -> None:
        super().__init__(width, 1)
        self.squared = loss == "squared"
        self.memory.register_buffer("mean", torch.zeros(()))
        self.memory.register_buffer("sd", torch.ones(()))

    @property
    def unit(self) -> Tensor:
        return self.memory.get_buffer("sd")

    def forward(self, z: Tensor) -> Tensor:
        return self.in_units(self.linear(z))

    def in_units(self, raw: Tensor) -> Tensor:
        return self.memory.get_buffer("mean") + self.unit * precise(raw)

    def learn_targets(self, labels: Tensor, classes: Sequence[str]) -> None:
        self.memory.get_buffer("mean").copy_(labels.mean())
        sd = labels.std(correction=0)
        self.unit.copy_(sd if sd > 0 else torch.ones_like(sd))

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        error = (logits[:, 0] - labels.to(logits)) / self.unit
        zero = torch.zeros_like(error)
        return error**2 / 2 if self.squared else F.huber_loss(error, zero, reduction="none")


class SurvivalHead(Head):
    """What both survival heads have in common: their answer as a curve at the horizons of the cohort.

    scores: log of the cumulative hazard at each horizon, so that members of an ensemble, and slides of a patient, are
    averaged on the scale of log hazards. risk: their mean, for Cox the log hazard ratio and a constant.
    """

    def __init__(self, width: int, logits: int, horizons: int) -> None:
        super().__init__(width, logits)
        self.memory.register_buffer("horizons", torch.arange(1.0, horizons + 1))

    @property
    def horizons(self) -> Tensor:
        return self.memory.get_buffer("horizons")

    def learn_targets(self, labels: Tensor, classes: Sequence[str]) -> None:
        self.horizons.copy_(torch.tensor([float(name) for name in classes[1:]]))

    def cumulative(self, logits: Tensor) -> Tensor:
        """(bag, horizon) cumulative hazard."""
        raise NotImplementedError

    def scores(self, logits: Tensor) -> Tensor:
        return self.cumulative(precise(logits)).clamp_min(1e-8).log()

    def probabilities(self, logits: Tensor) -> Tensor:
        """(bag, 1 + horizon): risk and survival."""
        scores = self.scores(logits)
        return torch.cat([scores.mean(dim=1, keepdim=True), (-scores.exp()).exp()], dim=1)


class IntervalHead(SurvivalHead):
    """Discrete time: logit_k = log-odds of the event in interval k for who has reached it; the bounds are quantiles of
    the event times of the training fold. Within an interval the hazard is constant.

    loss: the negative log-likelihood; a case that is censored in an interval counts as having survived it (Zadeh and
    Schmid 2020, as in MCAT).
    """

    INTERVALS = 4

    def __init__(self, width: int, horizons: int) -> None:
        super().__init__(width, self.INTERVALS, horizons)
        self.memory.register_buffer("bounds", torch.arange(self.INTERVALS + 1.0))

    @property
    def bounds(self) -> Tensor:
        return self.memory.get_buffer("bounds")

    def learn_targets(self, labels: Tensor, classes: Sequence[str]) -> None:
        super().learn_targets(labels, classes)
        time, event = labels.double().T.contiguous()
        shares = torch.linspace(0, 1, self.INTERVALS + 1, dtype=torch.float64)[1:-1]
        inner = torch.quantile(time[event > 0], shares)
        self.bounds.copy_(torch.cat([torch.zeros(1), inner, time.max()[None]]))

    def cumulative(self, logits: Tensor) -> Tensor:
        low, high = self.bounds[:-1, None], self.bounds[1:, None]
        passed = ((self.horizons - low) / (high - low).clamp_min(1e-6)).clamp_min(0)  # (interval, horizon)
        passed[:-1] = passed[:-1].clamp_max(1)  # the last interval has no end
        return F.softplus(logits) @ passed.to(logits)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        time, event = labels.to(logits).T.contiguous()
        index = torch.bucketize(time, self.bounds[1:-1])[:, None]  # bounds belong to the interval that they end
        interval = torch.arange(self.INTERVALS, device=logits.device)
        survived = (interval < index) | ((interval == index) & (event[:, None] == 0))
        failed = (interval == index) & (event[:, None] > 0)
        return (F.softplus(logits) * survived + F.softplus(-logits) * failed).sum(dim=1)


class CoxHead(SurvivalHead):
    """One logit r, the log hazard ratio, beside a baseline hazard H that is estimated again before every epoch.

    Cox's partial likelihood compares a case with all that are at risk, and a step may hold one bag. So the loss is the
    full likelihood of Cox's model, a sum over bags: H(time) exp(r) - event (r + log h(time)), where h are the steps of
    H. For given risks the H that maximises it is Breslow's, and in that H it is the partial likelihood, up to a
    constant. So, by the envelope theorem, the gradient of this sum is exactly the gradient of the partial likelihood of
    the whole training set if H is Breslow's for the same weights. It is computed from a pass over all training bags
    before each epoch; within an epoch the steps are those of the joint likelihood with this H, whose maximum is the
    maximum of the partial likelihood.
    """

    recalls = True

    def __init__(self, width: int, horizons: int) -> None:
        super().__init__(width, 1, horizons)
        self.memory.register_buffer("baseline", torch.ones(horizons))  # H at the horizons
        self._times, self._hazard = torch.zeros(0), torch.zeros(1)  # H in training: a step at each event

    def learn_targets(self, labels: Tensor, classes: Sequence[str]) -> None:
        super().learn_targets(labels, classes)
        self.recall(torch.zeros(len(labels), 1), labels)

    def recall(self, logits: Tensor, labels: Tensor) -> None:
        """Breslow's estimate, by the logits of all training bags."""
        time, event = labels.double().cpu().T.contiguous()
        order = time.argsort(stable=True)
        time, event, risk = time[order], event[order] > 0, logits[:, 0].double().cpu()[order]
        at_risk = risk.flip(0).logcumsumexp(0).flip(0)[torch.searchsorted(time, time)]  # log of the sum, ties together
        hazard = (-at_risk[event]).exp().cumsum(0)
        place = self.horizons.device
        self._times, self._hazard = time[event].to(place), torch.cat([torch.zeros(1), hazard]).to(place)
        self.memory.get_buffer("baseline").copy_(self._smooth(time[event], hazard))

    def _smooth(self, times: Tensor, hazard: Tensor) -> Tensor:
        """H at the horizons, linear between events, so that it is above 0 from the first one on."""
        start = torch.zeros(1, dtype=torch.float64)
        knots, values = (torch.cat([start, own]).numpy() for own in (times, hazard))
        last = np.searchsorted(knots, knots, side="right") - 1  # of events at one time
        return torch.from_numpy(np.interp(self.horizons.cpu().double().numpy(), knots, values[last]))

    def cumulative(self, logits: Tensor) -> Tensor:
        return self.memory.get_buffer("baseline") * logits.exp()

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        time, event = labels.to(logits.device).double().T.contiguous()
        times, hazard = self._times.to(time), self._hazard.to(time)
        reached, before = (hazard[torch.searchsorted(times, time, right=right)] for right in (True, False))
        risk, step = precise(logits[:, 0]), (reached - before).clamp_min(1e-12)
        return reached.to(risk) * risk.exp() - event.to(risk) * (risk + step.log().to(risk))

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Negative log-likelihood of the interval between horizons in which the event lies, or of having survived the
        last horizon before the time of censoring: of other epochs, with another H, it can be compared."""
        time, event = labels.to(self.horizons).T.contiguous()
        survival = self.probabilities(logits)[:, 1:]
        curve = F.pad(F.pad(survival, (1, 0), value=1.0), (0, 1), value=0.0)  # at 0, the horizons, and the end
        index = torch.searchsorted(self.horizons, time, right=False)  # horizons before the time
        reached = curve.gather(1, index[:, None])[:, 0]
        after = curve.gather(1, index[:, None] + 1)[:, 0]
        likely = torch.where(event > 0, reached - after, reached)
        return -likely.clamp_min(1e-7).log()
