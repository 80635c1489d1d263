"""A user's own encoder: a TorchScript or ONNX file, with a JSON beside it that says how tiles must look."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...config import from_mapping
from ...errors import ConfigError
from .preprocess import feature_of
from .spec import EncoderSpec

ENDINGS = (".pt", ".ts", ".torchscript", ".onnx")
KEYS = ("name", "size", "resize", "interpolation", "mean", "std", "mpp", "licence", "tokens", "registers")


def is_file(name: str) -> bool:
    return name.endswith(ENDINGS)


def load(path: Path) -> tuple[EncoderSpec, Callable[[Tensor], Tensor]]:
    """The JSON is `<file>.json` and holds any of KEYS; the dimension is tried out."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected an encoder ({', '.join(ENDINGS)}).")
    values = _beside(path)
    call = _onnx(path) if path.suffix == ".onnx" else _torchscript(path)
    size = int(values.get("size", 224))
    with torch.inference_mode():
        tried = call(torch.zeros(1, 3, size, size))
    tried = tried[-1] if isinstance(tried, list | tuple) else tried
    width = int(tried.shape[1] if values.get("tokens") == "map" else tried.shape[-1])
    dim = 2 * width if values.get("tokens") == "class+mean" else width
    spec = from_mapping(EncoderSpec, {"name": path.stem, "resize": size, **values, "dim": dim}, f"{path.name}.json")
    return spec, lambda x: feature_of(call(x), spec)


def _beside(path: Path) -> dict[str, Any]:
    file = path.with_name(path.name + ".json")
    if not file.exists():
        return {}
    try:
        values = dict(json.loads(file.read_text()))
    except ValueError as error:
        raise ConfigError(f"{file}: not JSON ({error}).") from error
    unknown = sorted(set(values) - set(KEYS))
    if unknown:
        raise ConfigError(f"{file}: unknown key {unknown[0]!r}; expected any of {', '.join(KEYS)}.")
    assert set(KEYS) <= {field.name for field in fields(EncoderSpec)}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _torchscript(path: Path) -> Callable[[Tensor], Any]:
    try:
        return torch.jit.load(str(path), map_location="cpu").eval()
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"{path}: not a TorchScript file ({first}). Export the model with torch.jit.") from error


def _onnx(path: Path) -> Callable[[Tensor], Any]:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(f"{path.name} needs onnxruntime: pip install 'jigsawmil[encoders]'.") from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers())
    except Exception as error:
        raise ConfigError(f"{path}: not an ONNX file that can be run ({str(error).splitlines()[0]}).") from error
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.cpu().numpy()})[0])
