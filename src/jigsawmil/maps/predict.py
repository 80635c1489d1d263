"""From slides, or their features, to predictions and maps on disk."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..bags.names import slide_name
from ..errors import ConfigError
from ..files import check_target, write_csv, writing_to
from ..slides.extract_one import Extracted, check_masks
from ..slides.slide import open_slide
from ..tasks import get_task
from ..train.apply import apply_model
from ..train.checkpoint import load_model
from ..train.from_slides import Extraction, SlideOptions, sort_inputs
from ..train.infer import Seen
from .heatmap import write_heatmap
from .patch_maps import PatchMaps, seen_maps


class SlidePredictions(NamedTuple):
    """table: slide_id (the patient, if the model pools patients), prediction, probabilities. extracted: what became of
    each slide that features had to be made of; those that failed are not in the table."""

    table: pd.DataFrame
    extracted: list[Extracted]


def predict_slides(
    model: str | Path,
    inputs: str | Path | Iterable[str | Path],
    *,
    out: str | Path = "predictions.csv",
    heatmap: str | Path | None = None,
    attention: str | Path | None = None,
    device: str = "auto",
    patch_size: float | None = None,
    unit: str | None = None,
    **options: Any,
) -> SlidePredictions:
    """Apply a model to slides, or to feature files, and write what `jigsawmil predict` writes.

    model: folder of a trained model. inputs: slides, feature files, or folders of either. out: CSV to write; features
    of slides are kept in a folder beside it. heatmap: folder for one picture per slide. attention: folder for one CSV
    per slide: x, y, attention. patch_size, unit: as in `read_bag`. options: of `SlideOptions`.

    Example: `predict_slides("model", "slides", heatmap="maps").table`
    """
    given = [inputs] if isinstance(inputs, str | Path) else inputs
    predictor = SlidePredictor(
        Path(model), given, out=Path(out), heatmap=heatmap, attention=attention, device=device, patch_size=patch_size,
        unit=unit, options=SlideOptions(**options),
    )  # fmt: skip
    extracted = list(predictor.extraction.run()) if predictor.extraction else []
    for _ in predictor.run():
        pass
    return SlidePredictions(pd.DataFrame(predictor.rows), extracted)


class SlidePredictor:
    """`predict_slides` in two steps, `extraction.run()` and `run()`, for a caller that shows how far it is.

    Everything that can be refused is refused when it is made. rows: the predictions so far.
    """

    def __init__(
        self,
        model: Path,
        inputs: Iterable[str | Path],
        *,
        out: Path,
        heatmap: str | Path | None = None,
        attention: str | Path | None = None,
        device: str = "auto",
        patch_size: float | None = None,
        unit: str | None = None,
        options: SlideOptions,
    ) -> None:
        self._model, self.card = load_model(model)
        self.inputs = sort_inputs(inputs)
        slides, mpp = self.inputs.slides, options.slide_mpp
        check_target(out)
        if slides and (patch_size or unit or (self.inputs.features and mpp)):
            raise ConfigError(
                "--patch-size and --unit complete what feature files say, and slides were given; --slide-mpp would be "
                "of both. Predict slides and feature files one after the other."
            )
        check_masks(options.masks, slides)
        cache = out.with_name(f"{out.stem}-features")
        self.extraction = Extraction(self.card, slides, cache, options, device) if slides else None
        self.task, self.rows = get_task(self.card.model.task), list[dict[str, Any]]()
        self._reading = {"mpp": None if slides else mpp, "patch_size": patch_size, "unit": unit}
        self._out, self._heatmap, self._attention = out, heatmap, attention
        self._device, self._mpp, self._words = device, mpp, f"{self.card.title}, model {model.name}"

    @property
    def files(self) -> list[Path]:
        """Feature files: those given, and those that were made."""
        return [*self.inputs.features, *(self.extraction.files if self.extraction else ())]

    def run(self) -> Iterator[Seen]:
        """What the model made of each; all files but the table are written on the way, the table at the end."""
        for seen in apply_model(self._model, self.card, self.files, device=self._device, **self._reading):
            called = self.card.classes[int(self.task.decision(seen.probabilities))]
            probabilities = self.task.row(seen.probabilities, self.card.classes)
            self.rows.append({"slide_id": seen.name, "prediction": called, **probabilities})
            if self._attention is not None:
                write_attention(seen, Path(self._attention))
            if self._heatmap is not None:
                for maps in seen_maps(self._model, self.card, seen):
                    self._draw(maps, Path(self._heatmap))
            yield seen
        if self.rows:
            write_csv(pd.DataFrame(self.rows), self._out)

    def _draw(self, maps: PatchMaps, folder: Path) -> None:
        """One picture: over the slide if it was given, else over its patches."""
        slide_id = maps.bag.slide_id
        file = next(file for file in self.files if slide_name(file.name) == slide_id)
        slides = self.extraction.files if self.extraction else {}
        given = open_slide(slides[file]) if file in slides else None
        if given is not None and not given.says_mpp:
            given.mpp = self._mpp  # stated for those slides that do not say
        with writing_to(folder), given or nullcontext():
            write_heatmap(maps, folder / f"{slide_id}.png", slide=given, features=file, model=self._words)


def write_attention(seen: Seen, folder: Path) -> None:
    """`<slide>.csv` with x, y, attention, in the order of the slide's feature file."""
    for bag, values in zip(seen.bags, seen.attention, strict=True):
        places = pd.DataFrame({"x": bag.coords[:, 0], "y": bag.coords[:, 1], "attention": values})
        write_csv(places, folder / f"{bag.slide_id}.csv")
