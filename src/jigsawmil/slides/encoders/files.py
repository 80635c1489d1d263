"""A user's own encoder: a TorchScript or ONNX file, with a JSON beside it that says how tiles must look."""

import json
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...bags.digest import digest, file_mark
from ...config import choose, from_mapping
from ...errors import ConfigError, summarize_error
from .preprocess import Feature, feature_of, only
from .spec import ENCODERS, ENDINGS, EncoderSpec

KEYS = ("name", "patch", "size", "resize", "interpolation", "mean", "std", "mpp", "licence", "tokens", "registers")


def described(path: Path) -> EncoderSpec:
    """What `<file>.json` says, any of KEYS; the rest is the default. The dimension is 0: it is not known yet."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected an encoder ({', '.join(ENDINGS)}).")
    file = path.with_name(path.name + ".json")
    values: dict[str, Any] = {}
    if file.exists():
        try:
            values = dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{file}: not a JSON table ({error}).") from error
    for key in values:
        choose(f"{file}: key", key, KEYS)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    try:
        size = values.get("size", EncoderSpec.size)
        usual = {"name": path.stem, "resize": size, "patch": EncoderSpec.patch * math.ceil(size / EncoderSpec.patch)}
        spec = from_mapping(EncoderSpec, {**usual, **values, "dim": 0})
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", spec.name):  # it names a folder
        raise ConfigError(f'{file}: name {spec.name!r}; expected letters, digits and "._+-". State {{"name": "mine"}}.')
    if spec.name in ENCODERS:
        raise ConfigError(
            f"{path}: {spec.name} is the name of another encoder, so their features could be mixed up. State another "
            f"name in {file.name}: "
            '{"name": "mine"}.'
        )
    return spec


def mark(path: Path) -> str:
    """Of an encoder's file, and of those beside it that an ONNX graph names: its weights may lie there."""
    if path.suffix != ".onnx":
        return file_mark(path)
    graph = path.read_bytes()
    beside = sorted(file for file in path.parent.iterdir() if file.is_file() and file.name.encode() in graph)
    return digest(*(file_mark(file).encode() for file in (path, *beside)))


def load(path: Path) -> tuple[EncoderSpec, nn.Module]:
    """The encoder, and its description with the dimension that a first batch came out with."""
    spec = described(path)
    model = _Onnx(path) if path.suffix == ".onnx" else _torchscript(path)
    tiles = torch.zeros(2, 3, spec.size, spec.size)
    try:
        with torch.inference_mode():
            tried = model(tiles)
    except Exception as error:  # whatever the user's own model raises
        raise ConfigError(
            f"{path}: does not take two tiles of 3 x {spec.size} x {spec.size} ({summarize_error(error)}). State the "
            f"size that it takes in {path.name}.json, and export it for batches of any length."
        ) from error
    spec = replace(spec, dim=_dimension(tried, spec))
    feature_of(tried, spec)
    return spec, Feature(spec, model)


def _dimension(output: Any, spec: EncoderSpec) -> int:
    output = only(output)
    shape = tuple(getattr(output, "shape", ())) or (0,)
    width = int(shape[1] if spec.tokens == "map" and len(shape) > 1 else shape[-1])
    return 2 * width if spec.tokens == "class+mean" else width


def _torchscript(path: Path) -> nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is old, and what people have
            return torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{path}: not a TorchScript file ({summarize_error(error)}). Export the model with torch.jit.trace; files "
            "with weights alone belong to an encoder by name and --weights."
        ) from error


class _Onnx(nn.Module):
    """A session of onnxruntime; it picks its device itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError as error:
            raise ConfigError(f"{path.name} needs onnxruntime: pip install 'jigsawmil[encoders]'.") from error
        try:
            self.session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers())
        except Exception as error:
            raise ConfigError(f"{path}: not an ONNX file that can be run ({summarize_error(error)}).") from error
        self.input = self.session.get_inputs()[0].name

    def forward(self, x: Tensor) -> list[Tensor]:
        return [torch.from_numpy(found) for found in self.session.run(None, {self.input: x.cpu().numpy()})]
