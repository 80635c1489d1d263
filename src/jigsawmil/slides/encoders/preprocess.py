"""Tiles as an encoder's card asks for them, and the feature out of what it returns."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import ConfigError
from .spec import EncoderSpec


def preprocess(tiles: Tensor, spec: EncoderSpec) -> Tensor:
    """uint8 (tile, height, width, 3) -> float32 (tile, 3, size, size): scaled, its middle cut out, normalised."""
    x = tiles.permute(0, 3, 1, 2).to(torch.float32).div_(255)
    if x.shape[-1] != spec.resize:
        x = F.interpolate(x, size=(spec.resize, spec.resize), mode=spec.interpolation, antialias=True)
        x = x.clamp_(0, 1)  # bicubic overshoots, where a picture in whole numbers cannot
    if spec.resize != spec.size:
        edge = round((spec.resize - spec.size) / 2)
        x = x[..., edge : edge + spec.size, edge : edge + spec.size]
    mean, std = (torch.tensor(values, device=x.device).view(3, 1, 1) for values in (spec.mean, spec.std))
    return (x - mean) / std


def feature_of(output: Any, spec: EncoderSpec) -> Tensor:
    """(tile, dim) from a model's own output."""
    if isinstance(output, list | tuple):
        output = output[-1]
    if spec.tokens == "map":
        feature = output.mean(dim=(2, 3)) if output.ndim == 4 else output
    elif spec.tokens == "class+mean":
        feature = torch.cat([output[:, 0], output[:, 1 + spec.registers :].mean(1)], dim=1)
    elif spec.tokens == "class":
        feature = output[:, 0]
    else:
        feature = output
    if feature.ndim != 2 or feature.shape[1] != spec.dim:
        raise ConfigError(
            f"{spec.name}: the model returned {tuple(feature.shape)}, expected {spec.dim} numbers a tile. These are "
            "the weights of another model, or the wrong layer of it."
        )
    return feature.float()
