"""Foundation models through timm and transformers: weights from the hub, or from a local file or folder.

With timm the architecture is built here from the arguments that the model's card states, and the weights are loaded
into it: what a file must fit is known before it is opened. Weights are safetensors, or `torch.load(weights_only=True)`.
"""

from pathlib import Path

import torch
from torch import nn

from ...errors import ConfigError, summarize_error
from .preprocess import Feature
from .spec import EncoderSpec

FILES = ("model.safetensors", "pytorch_model.bin")
HEADS = ("fc.", "head.", "classifier.", "layer4.")  # parts of a checkpoint that features do not need
EXTRA = "pip install 'jigsawmil[encoders]'"


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
    return Feature(spec, model.eval())


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
    if weights is not None and not (weights / "config.json").is_file():
        raise ConfigError(
            f"--weights {weights}: expected a folder with config.json and weights, a copy of {spec.repo}."
        )
    where = str(weights) if weights is not None else spec.repo
    try:
        model, info = AutoModel.from_pretrained(where, trust_remote_code=spec.runs_code, output_loading_info=True)
        if spec.inner:  # TITAN carries CONCH v1.5
            return Feature(spec, getattr(model, spec.inner)()[0].eval())
    except Exception as error:  # the library's, the hub's, or of the repository's own code
        raise _refused(spec, error, weights) from error
    if info["missing_keys"]:  # else random numbers would take their place
        missing = ", ".join(sorted(info["missing_keys"])[:3])
        raise ConfigError(f"{where}: not the weights of {spec.name} (without {missing}). Expected {spec.repo}.")
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
    away: Exception | None = None
    for name in FILES:
        try:
            return Path(hf_hub_download(spec.repo, name))
        except EntryNotFoundError as error:
            if type(error).__name__ == "LocalEntryNotFoundError":  # no network; the other file may be in the cache
                away = error
        except Exception as error:
            raise _refused(spec, error) from error
    if away is not None:
        raise _refused(spec, away) from away
    raise ConfigError(f"{spec.repo}: has neither {' nor '.join(FILES)}. Give --weights with the file.")


def _refused(spec: EncoderSpec, error: Exception, weights: Path | None = None) -> ConfigError:
    """Why the hub, or a folder, gave nothing, and what to do."""
    why = summarize_error(error)
    if weights is not None:
        return ConfigError(f"--weights {weights}: not a copy of {spec.repo} that can be loaded ({why}).")
    page = f"the page of {spec.repo} on the Hugging Face hub"
    gated = spec.gated or type(error).__name__ == "GatedRepoError"
    ask = f"Ask for access on {page}, then `hf auth login`. " if gated else ""
    return ConfigError(
        f"{spec.name}: its weights cannot be downloaded ({why}). {ask}Without a network give --weights with a copy."
    )


def _load(model: nn.Module, path: Path, spec: EncoderSpec) -> None:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, weights_only=True, map_location="cpu")
        known = set(model.state_dict())
        model.load_state_dict({name: value for name, value in state.items() if not _unused(name, known)})
    except Exception as error:  # of a file that is damaged or another model's, in any of three libraries
        raise ConfigError(
            f"{path}: not the weights of {spec.name} ({summarize_error(error)}). Expected {spec.repo}."
        ) from error


def _unused(name: str, known: set[str]) -> bool:
    """A part of a checkpoint that features do not need; anything else that is left over is an error."""
    return name.startswith(HEADS) and name not in known
