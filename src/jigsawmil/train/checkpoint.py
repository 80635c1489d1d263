"""A model on disk: safetensors and JSON, never a pickle, and never half a file."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from ..bags.digest import digest, whole_mark
from ..bags.provenance import Encoding
from ..bags.tile_spec import TileSpec
from ..config import choose, from_mapping
from ..errors import ConfigError, StudyError
from ..files import check_readable, plain, replacing, write_json
from ..graph import GraphConfig
from ..nn.factories import check_trusted
from ..nn.model import METHODS, Model, ModelConfig, make_model
from .config import PRECISIONS
from .ensemble import Ensemble, Weights
from .trained_on import TRAINED_ON, TrainedSlide, read_trained_on, write_trained_on

WEIGHTS, CARD = "model.safetensors", "model.json"
SINGLE, ENSEMBLE = 1, 2  # formats of the card
OF_ENSEMBLE = (
    "training",
    "threshold",
    "performance",
    "member_weights",
)  # what the card of an ensemble says of all members together
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
    threshold: float | None = None  # of the probability, fixed in training; None: the most probable class is called
    performance: dict[str, Any] | None = None  # out of fold, see `out_of_fold`
    trained_on: tuple[TrainedSlide, ...] = ()  # in a file of its own; none if it is not known
    members: "tuple[ModelCard, ...]" = ()  # of an ensemble; the rest of the card is then that of the first
    member_weights: Weights | None = None  # of an ensemble; None: all count the same

    @property
    def title(self) -> str:
        """The method, or what an ensemble consists of."""
        methods = dict.fromkeys(card.model.method for card in self.members)
        return f"{len(self.members)} models ({', '.join(methods)})" if methods else self.model.method

    @property
    def guessed(self) -> bool:
        """Whether nobody had named the positive class in training."""
        return bool((self.training or {}).get("guessed"))

    @property
    def precision(self) -> str:
        """In which the model was trained, and runs."""
        training = self.training or {}
        return str(training.get("precision", training.get("settings", {}).get("precision", "float32")))


def ensemble_of(
    members: Sequence[tuple[Model, ModelCard]], weights: Weights | None = None
) -> tuple[Model | Ensemble, ModelCard]:
    """Models that answer together; a single one stays what it is. weights: of the members; None: all count the same."""
    models, cards = zip(*members, strict=True)
    if len(models) == 1:
        return models[0], cards[0]
    seen = tuple(dict.fromkeys(slide for card in cards for slide in card.trained_on))
    card = replace(cards[0], members=cards, member_weights=weights, trained_on=seen if all_known(cards) else ())
    return Ensemble(models, weights), card


def all_known(cards: Sequence[ModelCard]) -> bool:
    """Whether each says what it was trained on."""
    return all(card.trained_on for card in cards)


def save_model(folder: str | Path, model: Model | Ensemble, card: ModelCard) -> None:
    """Write a model into a folder, which is made: weights and card, each appearing whole. Of an ensemble each member
    has a folder of its own, and the card, written last, names them.

    Example: `save_model("model", model, card)`
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, Ensemble):
        for number, (member, own) in enumerate(zip(model, card.members, strict=True)):
            save_model(folder / member_name(number), member, own)
        names = [member_name(number) for number in range(len(model))]
        whole = {name: getattr(card, name) for name in OF_ENSEMBLE}
        _write_card(folder, {"format": ENSEMBLE, "members": names, **whole})
        return
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    with replacing(folder / WEIGHTS) as temporary:
        temporary.write_bytes(save(weights))  # unlike save_file, in errors that say what the disk said
    if card.trained_on:
        write_trained_on(card.trained_on, folder / TRAINED_ON)
    apart = ("members", "member_weights", "trained_on")  # of an ensemble, or in a file of its own
    values = {name: value for name, value in asdict(card).items() if name not in apart}
    _write_card(folder, {"format": SINGLE, **values, "weights": whole_mark(folder / WEIGHTS)})


def _write_card(folder: Path, values: dict[str, Any]) -> None:
    """With a digest of what it says."""
    write_json(folder / CARD, {**values, "digest": _card_digest(plain(values))})


def _card_digest(values: dict[str, Any]) -> str:
    return digest(json.dumps(values, sort_keys=True).encode())


def _check_digest(folder: Path, values: dict[str, Any], mark: str | None) -> None:
    """Of the card, and the weights that it names; cards of older versions have none."""
    changed = []
    if mark is not None and _card_digest(values) != mark:
        changed.append(CARD)
    if values.get("weights") not in (None, whole_mark(folder / WEIGHTS)):
        changed.append(WEIGHTS)
    if changed:
        raise StudyError(
            f"{folder}: {' and '.join(changed)} changed after writing (the digest in {CARD} differs). Copy the model "
            "again, "
            "or train it again."
        )


def member_name(number: int) -> str:
    """The folder of a member of an ensemble."""
    return f"member{number}"


def load_model(folder: str | Path) -> tuple[Model | Ensemble, ModelCard]:
    """A model, or an ensemble, and its card; needs nothing but the package.

    Example: `model, card = load_model("model")`
    """
    folder = Path(folder)
    values = _ensemble_values(folder)
    if not values:
        return _load_single(folder)
    model, card = load_members([folder / name for name in values["members"]], values["member_weights"])
    return model, replace(card, **{name: values[name] for name in OF_ENSEMBLE if values.get(name) is not None})


def load_members(folders: Sequence[Path], weights: Weights | None = None) -> tuple[Model | Ensemble, ModelCard]:
    """The models of several folders as one ensemble, or that of one folder. weights: see `ensemble_of`."""
    model, card = ensemble_of([_load_single(folder) for folder in folders], weights)
    return model.eval(), card


def _ensemble_values(folder: Path) -> dict[str, Any]:
    """What the card of an ensemble holds; nothing for a single model, or for what is no model."""
    try:
        check_readable(folder / CARD)
        values = dict(json.loads((folder / CARD).read_text()))
        if values["format"] != ENSEMBLE:
            return {}
        mark = values.pop("digest", None)
        names = [str(name) for name in values["members"]]
    except FOREIGN:
        return {}
    if any(Path(name).name != name for name in names):  # no path out of the folder
        raise StudyError(f"{folder / CARD}: members {names} are not names of folders in it. Train the model again.")
    if mark is not None and _card_digest(values) != mark:
        raise StudyError(f"{folder / CARD}: changed after writing (its digest differs). Copy or train the model again.")
    if (weights := values.get("member_weights")) is not None:
        numbers = isinstance(weights, list) and all(type(weight) is float and 0 <= weight <= 1 for weight in weights)
        if not numbers or len(weights) != len(names) or not 0.999 < sum(weights) < 1.001:
            raise StudyError(
                f"{folder / CARD}: member_weights {weights}, expected {len(names)} numbers from 0 that add up to 1. "
                "The file was changed; train the model again."
            )
    return {**values, "members": names, "member_weights": None if weights is None else tuple(weights)}


def _load_single(folder: Path) -> tuple[Model, ModelCard]:
    missing = [name for name in (WEIGHTS, CARD) if not (folder / name).is_file()]
    if missing:
        raise StudyError(
            f"{folder}: no {' and no '.join(missing)} in it. Give the folder that `jigsawmil train --out` wrote, "
            "or a job's folder of a run."
        )
    for name in (WEIGHTS, CARD):
        check_readable(folder / name)
    try:
        whole = dict(json.loads((folder / CARD).read_text()))
        mark = whole.pop("digest", None)
        values = {key: value for key, value in whole.items() if key != "weights"}
        if values.pop("format", None) != SINGLE:
            raise StudyError(f"{folder / CARD}: expected format {SINGLE}. The model was written by another version.")
        _check_known(values["model"]["method"], folder / CARD)
        card = ModelCard(
            **{
                **values,
                "model": from_mapping(ModelConfig, values["model"], CARD),
                "graph": from_mapping(GraphConfig, values["graph"], CARD),
                "classes": tuple(values["classes"]),
                "trained_on": read_trained_on(folder / TRAINED_ON),
                "tiles": from_mapping(TileSpec, values["tiles"], CARD) if values.get("tiles") else None,
                "encoding": from_mapping(Encoding, values["encoding"], CARD) if values.get("encoding") else None,
            }
        )
        choose("precision", card.precision, PRECISIONS)
        model = _build(card, folder / CARD)
        model.load_state_dict(load_file(folder / WEIGHTS))
        _check_digest(folder, whole, mark)
    except (*FOREIGN, ConfigError) as error:
        raise StudyError(f"{folder}: not a readable model of jigsawmil ({error}). Train it again.") from error
    return model.eval(), card


def _check_known(method: str, file: Path) -> None:
    """A method that was registered in Python is known by its name in that process only."""
    if METHODS.peek(method) is None:
        raise StudyError(
            f"{file}: the model's method, {method!r}, is not known here. If it was registered for the training, do so "
            f"now: register_method({method!r}, factory). Otherwise train the model again."
        )


def _build(card: ModelCard, file: Path) -> Model:
    """The model without its weights. Code that only the file names is not imported, see `check_trusted`."""
    if (row := METHODS.peek(card.model.method)) is not None and row.unloaded:
        check_trusted(card.model.method, str(file))
    try:
        return make_model(card.model)
    except ConfigError as error:
        if row is not None and row.foreign:
            raise StudyError(f"{file}: {error}") from error
        raise
