"""Randomness from the numbers that a user states: a seed, a fold, an epoch."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def fold_seed(seed: int, fold: int, member: int | None = None) -> int:
    """Of one training. member: its number in an ensemble."""
    numbers = [seed, fold] if member is None else [seed, fold, member + 1]  # trailing zeros do not count
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint32)[0])


def inner_seed(seed: int, fold: int, repeat: int) -> int:
    """Of one repeat of the inner cross-validation within a fold's training patients."""
    return int(np.random.SeedSequence([seed, fold, repeat, 1, 1]).generate_state(1, np.uint32)[0])


def epoch_seed(*numbers: int) -> int:
    """Of one epoch of a training: (seed, epoch), or (seed, epoch, rank) for one process of several."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def epoch_draws(seed: int, epoch: int, device: torch.device, rank: int = 0) -> Iterator[torch.Generator]:
    """The generator of one epoch, the same in all processes that share a training.

    Dropout draws from the device's global generator, of which each process has its own: it is seeded too, and restored
    afterwards. Other GPUs are not touched, which torch.manual_seed and a fork without devices would do.
    """
    common = epoch_seed(seed, epoch)
    own = epoch_seed(seed, epoch, rank) if rank else common
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(own)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(own)
        elif device.type == "mps":
            torch.mps.manual_seed(own)
        yield torch.Generator().manual_seed(common)
