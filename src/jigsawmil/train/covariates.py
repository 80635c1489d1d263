"""Clinical covariates in training: who uses them, and what a model learns of them before its first epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..cohort.cohort import Cohort
from ..cohort.covariates import Covariate
from ..errors import ConfigError
from ..nn.model import Model
from ..nn.options import COVARIATES
from ..nn.regression import PooledRegression
from .config import TrainConfig
from .ensemble import Ensemble, members_of
from .feed import Feed
from .infer import Seen
from .regression import fit_regression
from .settings import Settings


def check_covariates(cohort: Cohort, settings: Iterable[Settings]) -> None:
    """Refuse methods that use covariates on a cohort without any."""
    using = list(dict.fromkeys(one.method for one in settings if one.uses_covariates))
    if using and not cohort.covariates:
        raise ConfigError(
            f"{', '.join(using)}: to use covariates, and the cohort has none. Name columns of the label table: "
            '--covariates age,sex (compare, train), covariates = "age,sex" of the cohort (study files), or give '
            "Bag(covariates={...}) in Python."
        )


def begin_with_covariates(model: Model, feed: Feed, slides: Sequence[str], config: TrainConfig, *, seed: int) -> None:
    """Impute and standardise by the training slides; the head's weights of covariates begin as those of the regression
    on them alone."""
    assert model.covariates is not None
    alone = PooledRegression(replace(model.config, method=COVARIATES))
    fit_regression(alone, feed, slides, config, seed=seed)
    assert alone.covariates is not None
    model.covariates.load_state_dict(alone.covariates.state_dict())
    found, own = alone.head.state_dict(), model.head.state_dict()
    weight = found["linear.weight"] / alone.scale
    if "linear.bias" in found:
        found["linear.bias"] -= weight @ alone.centre
    found["linear.weight"] = torch.cat([own["linear.weight"][:, : -alone.covariates.width], weight], dim=1)
    model.head.load_state_dict(own | {name: value for name, value in found.items() if not name.startswith("memory.")})


def added_by_covariates(model: Model | Ensemble, seen: Seen) -> dict[str, float]:
    """What each covariate adds to the logit of a bag, or to each logit; of an ensemble the mean over its members."""
    found: list[Tensor] = []
    columns: tuple[Covariate, ...] = ()
    members = members_of(model)
    with torch.inference_mode():
        for member, own in zip(members, seen.members or (seen,), strict=True):
            if member.covariates is not None:
                columns = member.covariates.columns
                found.append(_terms(member, own))
    if not found:
        return {}
    mean = torch.stack(found).sum(0) / len(members)  # (column, logit)
    one = mean.shape[1] == 1
    return {
        f"logit{'' if one else index} from {column.name}": float(value)
        for column, values in zip(columns, mean, strict=True)
        for index, value in enumerate(values)
    }


def _terms(model: Model, seen: Seen) -> Tensor:
    """(column, logit)"""
    assert model.covariates is not None
    weight = model.head.weight
    if isinstance(model, PooledRegression):
        weight = weight / model.scale
    return model.covariates.terms(seen.batch, weight.double())[0]
