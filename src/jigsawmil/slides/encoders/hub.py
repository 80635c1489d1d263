"""Foundation models through timm and transformers: weights from the hub, or from a local file or folder.

With timm the architecture is built here from the arguments that the model's card states, and the weights are loaded
into it: what a file must fit is known before it is opened. Weights are safetensors, or `torch.load(weights_only=True)`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from .preprocess import feature_of
from .spec import EncoderSpec

FILES = ("model.safetensors", "pytorch_model.bin")
HEADS = ("fc.", "head.", "classifier.", "layer4.")  # parts of a checkpoint that features do not need
EXTRA = "pip install 'jigsawmil[encoders]'"


class Feature(nn.Module):
    """A model, and what of its output is the feature."""

    def __init__(self, spec: EncoderSpec, model: nn.Module, call: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.spec, self.model, self.call = spec, model, call

    def forward(self, x: Tensor) -> Tensor:
        return feature_of(self.call(self.model, x), self.spec)


def load_timm(spec: EncoderSpec, weights: Path | None) -> nn.Module:
    try:
        import timm
        from timm.layers import SwiGLUPacked
    except ImportError as error:
        raise ConfigError(f"{spec.name} needs timm: {EXTRA}.") from error
    named = {"SwiGLUPacked": SwiGLUPacked, "SiLU": nn.SiLU}
    options = {key: named.get(value, value) if isinstance(value, str) else value for key, value in spec.build.items()}
    model = timm.create_model(pretrained=False, **options)
    path = _weights_file(spec, weights) if weights is not None else _from_hub(spec)
    _load(model, path, spec)
    return Feature(spec, model.eval(), lambda model, x: model(x))


def load_transformers(spec: EncoderSpec, weights: Path | None, trust_code: bool) -> nn.Module:
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise ConfigError(f"{spec.name} needs transformers: {EXTRA}.") from error
    if spec.runs_code and not trust_code:
        raise ConfigError(
            f"{spec.name}: loading it runs Python code that its repository ({spec.repo}) holds. Read that code, then "
            "give --trust-code."
        )
    where = str(weights) if weights is not None else spec.repo
    try:
        model = AutoModel.from_pretrained(where, trust_remote_code=spec.runs_code)
    except Exception as error:
        raise _refused(spec, error) from error
    if spec.name == "conch-v1.5":  # TITAN carries it
        return Feature(spec, model.return_conch()[0].eval(), lambda model, x: model(x))
    if spec.tokens == "class":
        return Feature(spec, model.eval(), lambda model, x: model(pixel_values=x).last_hidden_state)
    return Feature(spec, model.eval(), lambda model, x: model(pixel_values=x).pooler_output)


def _weights_file(spec: EncoderSpec, weights: Path) -> Path:
    found = [weights] if weights.is_file() else [weights / name for name in FILES if (weights / name).is_file()]
    if not found:
        raise ConfigError(f"--weights {weights}: expected a file, or a folder with {' or '.join(FILES)} ({spec.repo}).")
    return found[0]


def _from_hub(spec: EncoderSpec) -> Path:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError
    except ImportError as error:
        raise ConfigError(f"{spec.name} needs huggingface_hub: {EXTRA}; or give --weights.") from error
    for name in FILES:
        try:
            return Path(hf_hub_download(spec.repo, name))
        except EntryNotFoundError as error:
            if type(error).__name__ == "LocalEntryNotFoundError":  # no network, and not in the cache
                raise _refused(spec, error) from error
        except Exception as error:
            raise _refused(spec, error) from error
    raise ConfigError(f"{spec.repo}: has neither {' nor '.join(FILES)}. Give --weights with the file.")


def _refused(spec: EncoderSpec, error: Exception) -> ConfigError:
    """Why the hub gave nothing, and what to do."""
    page = f"the page of {spec.repo} on the Hugging Face hub"
    ask = f"Ask for access on {page}, then `hf auth login`; " if spec.gated else ""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ConfigError(
        f"{spec.name}: its weights cannot be had ({first}). {ask}Without a network give --weights FOLDER with a copy."
    )


def _load(model: nn.Module, path: Path, spec: EncoderSpec) -> None:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, weights_only=True, map_location="cpu")
        state = {name: value for name, value in state.items() if not name.startswith(HEADS) or name in _names(model)}
        model.load_state_dict(state)
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"{path}: not the weights of {spec.name} ({first}). Expected {spec.repo}.") from error


def _names(model: nn.Module) -> set[str]:
    return set(model.state_dict())
