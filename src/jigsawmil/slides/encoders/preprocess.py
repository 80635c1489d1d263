"""Tiles as an encoder's card asks for them, and the feature out of what it returns."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ConfigError
from .spec import EncoderSpec


def preprocess(tiles: Tensor, spec: EncoderSpec) -> Tensor:
    """uint8 (tile, height, width, 3) -> float32 (tile, 3, size, size): scaled, its middle cut out, normalised."""
    x = tiles.permute(0, 3, 1, 2)
    if x.shape[-2:] != (spec.resize, spec.resize):
        x = (resize_whole if x.device.type == "cpu" else resize_float)(x, spec.resize, spec.interpolation)
    edge = round((spec.resize - spec.size) / 2)
    x = x[..., edge : edge + spec.size, edge : edge + spec.size]
    mean, std = (torch.tensor(values, device=x.device).view(3, 1, 1) for values in (spec.mean, spec.std))
    return (x.to(torch.float32) / 255 - mean) / std


def resize_whole(x: Tensor, edge: int, interpolation: str) -> Tensor:
    """In whole numbers, as Pillow does it, on which the models were trained; ten times as fast as in floats."""
    return F.interpolate(x, size=(edge, edge), mode=interpolation, antialias=True)


def resize_float(x: Tensor, edge: int, interpolation: str) -> Tensor:
    """The same on a GPU, which cannot do it in whole numbers; bicubic overshoots, and is cut off once, not twice."""
    return F.interpolate(x.to(torch.float32), size=(edge, edge), mode=interpolation, antialias=True).clamp_(0, 255)


class Feature(nn.Module):
    """A model, and what of its output is the feature."""

    def __init__(
        self, spec: EncoderSpec, model: nn.Module, call: Callable[[nn.Module, Tensor], Any] = lambda model, x: model(x)
    ) -> None:
        super().__init__()
        self.spec, self.model, self.call = spec, model, call

    def forward(self, x: Tensor) -> Tensor:
        return feature_of(self.call(self.model, x), self.spec)


def only(output: Any) -> Any:
    """The one output of a model; of several, which is the feature cannot be known."""
    return output[0] if isinstance(output, list | tuple) and len(output) == 1 else output


def feature_of(output: Any, spec: EncoderSpec) -> Tensor:
    """(tile, dim) from a model's own output."""
    output = only(output)
    ranks = {"pooled": 2, "class": 3, "class+mean": 3, "map": 4}
    if not isinstance(output, Tensor) or output.ndim != ranks[spec.tokens]:
        many = f" of {len(output)}" if isinstance(output, list | tuple) else ""
        found = tuple(output.shape) if isinstance(output, Tensor) else f"{type(output).__name__}{many}"
        expected = {2: "(tile, number)", 3: "(tile, token, number)", 4: "(tile, number, row, column)"}
        raise ConfigError(
            f"{spec.name}: the model returned {found}, expected {expected[ranks[spec.tokens]]}, of which the feature "
            f"is `{spec.tokens}`. State another `tokens`, or export another layer of the model."
        )
    if spec.tokens == "map":
        feature = output.mean(dim=(2, 3))
    elif spec.tokens == "class+mean":
        feature = torch.cat([output[:, 0], output[:, 1 + spec.registers :].mean(1)], dim=1)
    elif spec.tokens == "class":
        feature = output[:, 0]
    else:
        feature = output
    if feature.shape[1] != spec.dim:
        raise ConfigError(
            f"{spec.name}: the model returned {feature.shape[1]} numbers per tile, expected {spec.dim}. These are the "
            "weights of another model, or the wrong layer of it."
        )
    return feature.float()
