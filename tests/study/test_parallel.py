"""One model by two processes is the model of one process."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jigsawmil.cohort.splits import Fold
from jigsawmil.errors import ConfigError
from jigsawmil.study.parallel import fit_together
from jigsawmil.study.run import CohortSpec, fit_split
from jigsawmil.train.feed import Feed
from jigsawmil.train.settings import Settings


def make(source: CohortSpec, settings: Settings) -> tuple[Feed, Fold]:
    cohort = source.read()
    feed = Feed(cohort, settings.graph_config(), settings.grid, memory_gb=1, level=settings.level)
    return feed, Fold(train=tuple(map(str, cohort.slide_ids)), test=())


# 12 slides in batches of 5 leave a batch of 1 or 2 (with validation): one of the two then has fewer, or none
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 5, "patience": 5, "validation": 0.3, "lambda_": "em"},
        {"batch_size": 11, "lambda_": "em-per-slide", "level": "patient", "class_weights": True},
    ],
)
def test_two_processes_fit_the_model_of_one(
    phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings], options: dict
) -> None:
    source, settings = spec(phantom), small("graph-abmil+jigsaw", **{"epochs": 3, **options})
    feed, everything = make(source, settings)
    one, alone = fit_split(feed, everything, settings, 3, 0)
    two, together = fit_together(source, feed, everything, settings, 3, 2, memory_gb=1)
    for mine, theirs in zip(alone.epochs, together.epochs, strict=True):
        for name in ("mil", "jigsaw", "lambda_", "val_loss"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-5, nan_ok=True), name
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5), name


def test_more_processes_than_slides_a_step_are_refused(
    phantom: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings]
) -> None:
    source, settings = spec(phantom), small("abmil", batch_size=2)
    feed, everything = make(source, settings)
    with pytest.raises(ConfigError, match="--batch-size 3"):
        fit_together(source, feed, everything, settings, 0, 3, memory_gb=1)


def test_a_process_that_fails_is_told_and_does_not_leave_the_rest_waiting(
    own: Path, spec: Callable[..., CohortSpec], small: Callable[..., Settings], capfd: pytest.CaptureFixture[str]
) -> None:
    source, settings = spec(own), small("abmil", batch_size=4)
    feed, everything = make(source, settings)
    (own / "labels.csv").unlink()  # the other process reads the cohort for itself
    with pytest.raises(Exception, match="processes failed"):
        fit_together(source, feed, everything, settings, 0, 2, memory_gb=1)
    assert "labels.csv" in capfd.readouterr().err
