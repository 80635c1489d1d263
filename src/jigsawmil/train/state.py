"""A running training on disk: one safetensors file, its other values as JSON in the header."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import StudyError
from ..files import replacing
from .checkpoint import FOREIGN

State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors, and what JSON can hold


def save_state(path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    with replacing(path) as temporary:
        flat = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        temporary.write_bytes(save(flat, {"state": json.dumps(values)}))


def load_state(path: Path) -> State:
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["state"])
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118 - no mapping
    except FOREIGN as error:
        raise StudyError(f"{path}: not a resumable training state ({error}). Remove it to start again.") from error
