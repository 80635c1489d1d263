"""What a model needs to be applied to slides: which files were given, and features made as for its training."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..bags.formats import feature_suffixes, find_bags
from ..bags.names import slide_name
from ..bags.tile_spec import TileSpec
from ..errors import ConfigError, FeatureError, StudyError
from ..slides.encoders import ENCODERS, EncoderSpec, encoder_spec
from ..slides.encoders.spec import is_file
from ..slides.extract_many import extract_here
from ..slides.extract_one import Extracted, ExtractSettings, features_folder
from ..slides.find import find_slides
from ..slides.slide import PICTURES, SLIDES
from .checkpoint import ModelCard
from .devices import pick_device

EXTRACT = ExtractSettings()


class Inputs(NamedTuple):
    """What a model is to be applied to. left_out: files in folders that could be slides, and most likely are none."""

    slides: list[Path]
    features: list[Path]
    left_out: list[Path]


@dataclass(frozen=True, kw_only=True)
class SlideOptions:
    """What slides may need. weights: of the encoder, instead of the hub. trust_code: allow encoders whose loading runs
    code of their repository. patch_um: edge of a patch in microns, if the model does not know. masks: outlines of the
    tissue, as in `ExtractSettings`. slide_mpp: microns per level-0 pixel, if slides do not say. workers: threads."""

    weights: Path | None = None
    trust_code: bool = False
    patch_um: float | None = None
    masks: Path | None = None
    slide_mpp: float | None = None
    workers: int = EXTRACT.workers


def sort_inputs(items: Iterable[str | Path]) -> Inputs:
    """Slides and feature files among files and folders; each slide once."""
    slides: list[Path] = []
    features: list[Path] = []
    endings_of_features = set(feature_suffixes())
    for item in map(Path, items):
        whole = item.is_dir() and item.suffix not in endings_of_features
        endings = {file.suffix.lower() for file in item.iterdir()} if whole else {item.suffix.lower()}
        if endings & endings_of_features:
            endings -= PICTURES  # previews beside the features
        if endings & SLIDES and endings & endings_of_features:
            raise ConfigError(f"{item}: holds both slides and features. Give the files themselves.")
        (slides if endings & SLIDES and item.exists() else features).append(item)
    found = find_slides(slides)
    files = feature_files(features)
    refuse_twice([*files, *found.files])
    return Inputs(found.files, files, found.left_out)


def feature_files(items: Iterable[Path]) -> list[Path]:
    """Each file once; two files of one slide would overwrite each other's attention."""
    paths: dict[Path, None] = {}
    for item in items:
        if not item.exists():
            raise FeatureError(f"{item}: no such file or folder; expected slides or feature files, or folders of them.")
        single = not item.is_dir() or item.suffix in feature_suffixes(folders=True)
        paths |= dict.fromkeys([item.resolve()] if single else [path.resolve() for path in find_bags(item).values()])
    refuse_twice(paths)
    return list(paths)


def refuse_twice(paths: Iterable[Path]) -> None:
    """Refuse two files of one slide."""
    of_slide: dict[str, Path] = {}
    for path in paths:
        other = of_slide.setdefault(slide_name(path.name), path)
        if other != path:
            raise FeatureError(f"{other} and {path} are both features of {slide_name(path.name)}. Give one of them.")


class Extraction:
    """Features of slides as for a model's training, in a folder that a second run finds again.

    notes: what the model does not know, in words. files: feature file -> slide, of those that are done.
    """

    def __init__(
        self, card: ModelCard, slides: Sequence[Path], folder: Path, options: SlideOptions, device: str = "auto"
    ) -> None:
        self.slides, self.notes = slides, list[str]()
        self._root, (self._load, settings) = folder, model_needs(card, options)
        if card.tiles is None:
            cut = settings.tiles.words
            self.notes.append(f"the model does not state how its slides were cut; tiles of {cut} are used.")
        if card.tiles is not None and card.tiles.drawn and options.masks is None:
            self.notes.append("the model was trained on tissue outlined by hand; without --masks it sees all tissue.")
        if card.tiles is not None and card.tiles.mpp is None:
            cut = card.tiles.words
            self.notes.append(f"the model was trained on tiles of {cut}; give it images of the same resolution.")
        self._settings = replace(
            settings,
            tiles=replace(settings.tiles, drawn=options.masks is not None),
            slide_mpp=options.slide_mpp,
            masks=options.masks,
            workers=options.workers,
            device=str(pick_device(device)),
        )
        assert card.encoder is not None  # `model_needs` has seen to it
        self.folder = features_folder(folder, card.encoder, self._settings)
        self.files: dict[Path, Path] = {}

    @property
    def complete(self) -> bool:
        return len(self.files) == len(self.slides)

    def run(self, on_tiles: Callable[[Path, int, int], None] = lambda *_: None) -> Iterator[Extracted]:
        """What became of each slide. on_tiles: slide, tiles done, tiles in all."""
        slide_of = {slide.stem: slide for slide in self.slides}
        for one in extract_here(self.slides, self._root, self._load, self._settings, on_tiles):
            if one.status in ("done", "already"):
                self.files[(self.folder / f"{one.slide}.h5").resolve()] = slide_of[one.slide]
            yield one


def model_needs(card: ModelCard, options: SlideOptions) -> tuple[dict[str, Any], ExtractSettings]:
    """How to extract as it was done for a model's training: arguments of `load_encoder`, and the tiles."""
    weights, patch_um = options.weights, options.patch_um
    if card.encoder is None:
        raise StudyError(
            "The model does not state the encoder of its training features, so features of slides cannot be extracted. "
            "Extract features with the encoder and tiles used in training, and give those."
        )
    name = card.encoder
    if name not in ENCODERS:
        if weights is None or not is_file(str(weights)):
            raise StudyError(
                f"The model was trained on features of {name}, which is not among `jigsawmil encoders`. Give features "
                "made with it, or its TorchScript or ONNX file: --weights FILE."
            )
        name, weights = str(weights), None
    spec = encoder_spec(name)
    if spec.name != card.encoder or (spec.dim and spec.dim != card.model.in_dim):
        raise StudyError(
            f"The model was trained on {card.model.in_dim} features per patch from {card.encoder}; {name} is the "
            f"encoder {spec.name} and gives {spec.dim or 'another number'}. Give features made with the encoder and "
            "tiles used in training."
        )
    tiles = card.tiles or _tiles_of(card, spec, patch_um)
    trained = card.patch_um or (None if tiles.mpp is None else tiles.patch * tiles.mpp)
    if patch_um and trained is None:
        raise StudyError(f"--patch-um {patch_um:g}: the model was trained on tiles of {tiles.words}. Leave it out.")
    if patch_um and trained and abs(patch_um - trained) > 0.1 * trained:
        raise StudyError(
            f"--patch-um {patch_um:g}: the model was trained on patches of {trained:g} microns. Leave it out."
        )
    how = card.encoding
    load = {"name": name, "weights": weights, "trust_code": options.trust_code, "mark": how and how.mark}
    return load, replace(EXTRACT, tiles=tiles, renew=True, precision=how.precision if how else EXTRACT.precision)


def _tiles_of(card: ModelCard, spec: EncoderSpec, patch_um: float | None) -> TileSpec:
    """Tiles of the edge in microns that is known, with as many pixels as the encoder can make use of."""
    edge = card.patch_um or patch_um
    if edge is None:
        raise StudyError(
            "The model does not state its patch size: its training features did not state it, or differed. State the "
            "edge in microns with --patch-um; 128 is 256 pixels at 20x."
        )
    return TileSpec(patch=spec.patch, mpp=edge / spec.patch)
