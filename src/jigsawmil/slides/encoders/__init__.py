"""Encoders: tiles in, features out. One small interface over packages, hubs and files."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...bags.digest import digest
from ...bags.provenance import weights_mark
from ...config import choose
from ...errors import ConfigError
from .spec import ENCODERS, SPECS, Encoder, EncoderSpec, Load, is_file, our_name, register_encoder

if TYPE_CHECKING:  # the list of encoders needs no torch
    import torch
    from torch import Tensor, nn

__all__ = [
    "ENCODERS", "SPECS", "Encoder", "EncoderSpec", "encode", "encoder_spec", "load_encoder", "our_name",
    "register_encoder",
]  # fmt: skip


def encoder_spec(name: str) -> EncoderSpec:
    """What is known of an encoder without loading it: by name, or by the path of a TorchScript or ONNX file.

    Example: `encoder_spec("uni").dim`
    """
    if is_file(name):
        from . import files

        return files.described(Path(name))
    choose("encoder", name, ENCODERS)
    return ENCODERS[name]


def load_encoder(
    name: str,
    *,
    weights: str | Path | None = None,
    trust_code: bool = False,
    device: "torch.device | str" = "cpu",
    mark: str | None = None,
) -> Encoder:
    """An encoder by name, or by the path of a TorchScript or ONNX file. weights: a local file or folder in place of the
    hub. trust_code: allow models whose loading runs code of their repository. mark: of the one that it has to be.

    Example: `load_encoder("uni", weights="copy-of-UNI")`
    """
    spec, model = _load(name, None if weights is None else Path(weights), trust_code)
    wants = (spec.size, spec.resize, spec.interpolation, spec.mean, spec.std, spec.tokens, spec.registers)
    own = _file_mark(name) if spec.source == "file" else weights_mark(model)
    found = digest(own.encode(), repr(wants).encode())
    if mark not in (None, found):
        raise ConfigError(
            f"{weights or name}: not the {spec.name} of the model's training (other weights, or tiles prepared "
            f"differently: digest {found}, expected {mark}). Give those weights, or features that were made with them."
        )
    return Encoder(spec, model.to(device).eval(), found)


def _load(name: str, weights: Path | None, trust_code: bool) -> "tuple[EncoderSpec, nn.Module]":
    from . import files, hub, package

    spec = encoder_spec(name)
    if weights is not None and spec.source in ("file", "package"):
        raise ConfigError(f"--weights {weights}: {name} includes its own weights. Leave --weights out.")
    if spec.source == "file":
        return files.load(Path(name))
    ways: dict[str, Load] = {
        "package": lambda spec, weights, trust_code: package.load(spec),
        "timm": lambda spec, weights, trust_code: hub.load_timm(spec, weights),
        "transformers": hub.load_transformers,
    }
    return spec, (spec.load or ways[spec.source])(spec, weights, trust_code)


def _file_mark(name: str) -> str:
    from . import files

    return files.mark(Path(name))


def encode(
    encoder: Encoder, tiles: "Tensor", device: "torch.device | str" = "cpu", precision: str = "float32"
) -> "Tensor":
    """uint8 (tile, height, width, 3) -> float32 (tile, dim) on the CPU.

    Example: `encode(load_encoder("uni"), tiles)`
    """
    import torch

    from .preprocess import preprocess

    kind = torch.device(device).type
    with torch.inference_mode(), torch.autocast(kind, getattr(torch, precision), enabled=precision != "float32"):
        features = encoder.model(preprocess(tiles.to(device), encoder.spec)).float().cpu()
    if len(features) != len(tiles):
        raise ConfigError(
            f"{encoder.spec.name}: {len(features)} rows of features for {len(tiles)} tiles; expected one row per tile. "
            "Export it for batches of any length."
        )
    return features
