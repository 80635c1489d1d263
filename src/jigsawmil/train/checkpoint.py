"""A model on disk: safetensors and JSON, never a pickle, and never half a file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..bags.provenance import Encoding
from ..bags.tile_spec import TileSpec
from ..config import choose, from_mapping
from ..errors import ConfigError, StudyError
from ..files import replacing, write_json
from ..graph import GraphConfig
from ..nn.model import Model, ModelConfig
from .config import PRECISIONS

WEIGHTS, CARD = "model.safetensors", "model.json"
# what comes of reading a file that is damaged or somebody else's
FOREIGN = (ValueError, KeyError, TypeError, AttributeError, SafetensorError, RuntimeError, OSError)


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Everything needed to apply a model to new slides, and to know where it came from."""

    model: ModelConfig
    graph: GraphConfig
    classes: tuple[str, ...]
    encoder: str | None = None  # what made the features
    patch_um: float | None = None  # edge of a patch in microns
    tiles: TileSpec | None = None  # how the slides were cut
    encoding: Encoding | None = None  # how the encoder was applied
    level: str = "slide"  # what was pooled into one prediction
    training: dict[str, Any] | None = None  # settings, cohort, best epoch
    origin: dict[str, Any] | None = None  # versions and commit

    @property
    def precision(self) -> str:
        """In which the model was trained, and runs."""
        return str((self.training or {}).get("settings", {}).get("precision", "float32"))


def save_model(folder: str | Path, model: Model, card: ModelCard) -> None:
    """Write the two files into a folder, which is made; each appears whole.

    Example: `save_model("model", model, card)`
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(folder / WEIGHTS) as temporary:
        save_file(weights, temporary)
    write_json(folder / CARD, {"format": 1, **asdict(card)})


def load_model(folder: str | Path) -> tuple[Model, ModelCard]:
    """A model and its card; needs nothing but the package.

    Example: `model, card = load_model("model")`
    """
    folder = Path(folder)
    missing = [name for name in (WEIGHTS, CARD) if not (folder / name).is_file()]
    if missing:
        raise StudyError(
            f"{folder}: no {' and no '.join(missing)} in it. Give the folder that `jigsawmil train --out` wrote, "
            "or a job's folder of a run."
        )
    try:
        values = json.loads((folder / CARD).read_text())
        if values.pop("format", None) != 1:
            raise StudyError(f"{folder / CARD}: expected format 1. The model was written by another version.")
        card = ModelCard(
            **{
                **values,
                "model": from_mapping(ModelConfig, values["model"], CARD),
                "graph": from_mapping(GraphConfig, values["graph"], CARD),
                "classes": tuple(values["classes"]),
                "tiles": from_mapping(TileSpec, values["tiles"], CARD) if values.get("tiles") else None,
                "encoding": from_mapping(Encoding, values["encoding"], CARD) if values.get("encoding") else None,
            }
        )
        choose("precision", card.precision, PRECISIONS)
        model = Model(card.model)
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (*FOREIGN, ConfigError) as error:
        raise StudyError(f"{folder}: not a model of this program ({error}). Train it again.") from error
    return model.eval(), card
