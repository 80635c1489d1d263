"""A running training on disk."""

import math
from pathlib import Path

import torch

from jigsawmil.train.state import load_state, save_state


def test_a_state_keeps_bits_and_numbers(tmp_path: Path) -> None:
    tensors = {"a/0": torch.tensor([1.0, -0.0, math.inf, 1e-45]), "b": torch.tensor(7.0), "c": torch.ones(2, 3).T}
    values = {"loss": [0.1 + 0.2, math.nan], "none": None, "names": {"": 1.0, "ä": 2.0}}
    save_state(tmp_path / "state", tensors, values)
    back, found = load_state(tmp_path / "state")
    assert all(torch.equal(back[name].view(torch.int32), tensors[name].view(torch.int32)) for name in ("a/0", "b"))
    assert torch.equal(back["c"], tensors["c"])
    assert found["loss"][0] == 0.1 + 0.2
    assert math.isnan(found["loss"][1])
    assert (found["none"], found["names"]) == (None, values["names"])
