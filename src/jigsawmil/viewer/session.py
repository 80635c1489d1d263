"""One page in one browser: what is chosen there, what is computed for it in threads, and what it is told."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from bokeh.document import Document
from bokeh.model import Model

from ..errors import FeatureError, JigsawmilError, SlideError
from ..maps.patch_maps import PatchMaps
from ..maps.values import colour_limit
from ..slides.slide import Slide
from ..train.ensemble import SPREAD
from .data import Key, Library, Placement, attribution_of, columns, evidence_of, place, shifts
from .page import EDGES, make_page
from .pictures import gallery, patch_card
from .slides import levels
from .widgets import Widths

T = TypeVar("T")
log = logging.getLogger(__name__)
NOTHING = "none"
# Maps take all cores, so one at a time; pictures must not wait for them.
THINKERS, DRAWERS = ThreadPoolExecutor(1, "maps"), ThreadPoolExecutor(2, "pictures")


@dataclass(frozen=True)
class Shown:
    """What the panes show: one slide, by one or two methods."""

    keys: tuple[Key, ...]
    maps: tuple[PatchMaps, ...]
    placement: Placement
    slide: Slide | None
    notice: str


class Session:
    def __init__(self, document: Document, library: Library, tiles: str) -> None:
        self.document, self.library, self.tiles = document, library, tiles
        run = library.run
        choices = {
            "cohort": list(run.cohorts),
            "seed": [str(seed) for seed in run.seeds],
            "variant": list(reversed(run.variants)),
            "other": [NOTHING, *run.variants] if len(run.variants) > 1 else [NOTHING],
        }
        title, opacity = run.folder.resolve().name, 0.55 if library.slides else 1.0
        rows = zip(run.slides["cohort"], run.slides["label"], strict=True)
        labels = [run.deciding(cohort).label_words(str(label)) for cohort, label in rows]
        widths = Widths.of(run.slides["slide_id"], labels)
        self.page = make_page(document, title, choices, opacity, widths, spread=SPREAD in run.predictions)
        self.shown: Shown | None = None
        self._turns: dict[str, int] = {}
        page = self.page
        when(page.cohort, "value", lambda: self.list_slides(fresh=True))
        when(page.seed, "value", self.list_slides)
        when(page.variant, "value", self.list_slides)
        when(page.other, "value", self.open)
        when(page.table.selected, "indices", self.open)
        when(page.ranking, "value", self.draw_gallery)
        when(page.state, "patch", self.choose)
        when(page.state, "ready", self.open)
        self.list_slides(fresh=True)

    def list_slides(self, fresh: bool = False) -> None:
        """The table for the chosen cohort, method and seed; fresh: of other slides than before."""
        page = self.page
        table = self.library.table(page.cohort.value, page.variant.value, int(page.seed.value))
        mark = table["right"].map({True: "✓", False: "✗", None: ""}).to_numpy(dtype=object)
        mark[(untested := (table["predicted"] == "").to_numpy())] = ""
        words = table["slide_id"] + " " + table["patient_id"] + " " + table["label"] + " "
        words += np.select([untested, mark == "✓", mark == "✗"], ["untested", "right", "wrong"], "")
        page.table.data = {
            "slide": list(table["slide_id"]), "label": list(table["label"]), "predicted": list(table["predicted"]),
            "p": table["p"].to_numpy(), "spread": table["spread"].to_numpy(), "mark": list(mark),
            "words": list(words.str.lower()),
        }  # fmt: skip
        if fresh:
            page.search.update(value="", value_input="")
            page.rows.indices = list(range(len(table)))
            page.table.selected.indices = [0]
        self.open()

    def open(self) -> None:
        """Compute the maps of the chosen slide and show them."""
        page, chosen = self.page, self.page.table.selected.indices
        if not chosen or not page.state.ready:
            return
        slide_id = page.table.data["slide"][chosen[0]]
        methods = [page.variant.value]
        if page.other.value not in (NOTHING, page.variant.value):
            methods.append(page.other.value)
        keys = tuple(Key(page.cohort.value, slide_id, method, int(page.seed.value)) for method in methods)
        if self.shown is not None and self.shown.keys == keys:
            return
        page.state.busy = f"Computing the maps of {slide_id} ..."
        self._later("open", THINKERS, lambda: self._look(keys), self._show)

    def _look(self, keys: tuple[Key, ...]) -> Shown:
        library, key, notice, slide = self.library, keys[0], "", None
        maps = tuple(library.maps(key) for key in keys)
        try:
            slide = None if library.slides is None else library.slides.get(key.slide_id)
            features = library.run.features_of(key.slide_id, cohort=key.cohort)
            placement = place(maps[0].bag, slide, features)
        except (SlideError, FeatureError) as error:
            notice = f"{error}\nThe patches are shown without the slide."
            slide, placement = None, place(maps[0].bag, None)
        return Shown(keys, maps, placement, slide, notice)

    def _show(self, shown: Shown) -> None:
        page, row = self.page, self.page.table.selected.indices[0]
        self._clear()
        self.shown = shown
        for i in range(len(shown.keys)):
            page.sources[i].data = columns(shown.maps[i], shown.placement)
            page.panes[i].info = self._info(shown, i)
        for pane in page.panes[len(shown.keys) :]:
            pane.info = {}
        words = f"{shown.keys[0].slide_id} · {page.table.data['label'][row]} · {len(shown.maps[0]):,} patches"
        page.state.update(busy="", notice=shown.notice, headline=words)
        self.draw_gallery()

    def _fail(self, kind: str, words: str) -> None:
        """Say what did not work; what was to be opened is not there."""
        page = self.page
        page.state.update(busy="", notice=words)
        if kind == "open":
            self._clear()
            self.shown = None
            page.state.headline = ""
            for pane in page.panes:
                pane.info = {}

    def _info(self, shown: Shown, pane: int) -> dict[str, Any]:
        key, maps, slide = shown.keys[pane], shown.maps[pane], shown.slide
        row = list(self.library.run.slides["slide_id"]).index(key.slide_id)
        return {
            "slide_id": key.slide_id,
            "key": f"{key.cohort}/{key.slide_id}/{slide is not None}",
            "variant": key.variant,
            "caption": f"{key.variant}: {maps.said}",
            "of": maps.shown_class,
            "unit": "px" if slide is not None or maps.bag.unit == "px" else "µm",
            "edge": shown.placement.edge,
            "cell": shown.placement.cell,
            "evidence": maps.evidence is not None,
            "attribution": maps.attribution is not None,
            "jigsaw": maps.jigsaw is not None,
            "evidence_limit": colour_limit(evidence_of(maps)),
            "attribution_limit": colour_limit(attribution_of(maps)),
            "shift_limit": colour_limit(shifts(maps) * shown.placement.scale),
            "slide": None if slide is None else {**pyramid(slide), "tiles": f"{self.tiles}/{row}"},
        }

    def draw_gallery(self) -> None:
        shown, by = self.shown, self.page.ranking.value
        if shown is None:
            return

        def work() -> str:
            return gallery(shown.maps[0], shown.placement, shown.slide, by)

        self._later("gallery", DRAWERS, work, lambda html: self.page.gallery.update(text=html))

    def choose(self) -> None:
        """The chosen patch: its place and neighbours at once, its picture when it is read."""
        shown, patch, page = self.shown, self.page.state.patch, self.page
        if shown is None or not 0 <= patch < len(shown.maps[0]):
            return
        middle = shown.placement.coords + shown.placement.edge / 2
        x, y = middle[patch]
        page.mark.data = {"x": [x], "y": [y], "edge": [shown.placement.edge]}
        for i, maps in enumerate(shown.maps):
            page.edges[i].data = neighbour_lines(maps, middle, patch)
            page.arrows[i].data = jigsaw_arrow(maps, shown.placement, patch)

        named = [(key.variant, maps) for key, maps in zip(shown.keys, shown.maps, strict=True)]

        def work() -> str:
            return patch_card(patch, named, shown.placement, shown.slide)

        self._later("patch", DRAWERS, work, lambda html: page.patch.update(text=html))

    def _clear(self) -> None:
        """Nothing of the slide before stays."""
        page = self.page
        page.state.patch = -1
        page.gallery.text = ""
        page.patch.text = "<p>Click a patch to see its tile and the patches it attends to.</p>"
        page.mark.data = {"x": [], "y": [], "edge": []}
        for source in (*page.edges, *page.arrows):
            source.data = {name: [] for name in source.data}

    def _later(self, kind: str, pool: ThreadPoolExecutor, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Work in a thread, then tell the page; what was asked for before of the same kind is forgotten."""
        turn = self._turns[kind] = self._turns.get(kind, 0) + 1

        def current() -> bool:
            return self._turns[kind] == turn

        def finish(future: "Future[T | None]") -> None:
            if not current():
                return
            try:
                result = future.result()
                assert result is not None
                done(result)
            except JigsawmilError as error:
                self._fail(kind, str(error))
            except Exception as error:
                log.exception("the viewer could not do what was asked")
                self._fail(kind, f"This failed ({error!r}). See the terminal for details.")

        def over(future: "Future[T | None]") -> None:
            with suppress(RuntimeError):  # the page was closed meanwhile
                self.document.add_next_tick_callback(lambda: finish(future))

        pool.submit(lambda: work() if current() else None).add_done_callback(over)


def when(model: Model, name: str, call: Callable[[], None]) -> None:
    """Call when a property has changed, whatever it was."""
    model.on_change(name, lambda attr, old, new: call())


def pyramid(slide: Slide) -> dict[str, int]:
    width, height = slide.size
    return {"width": width, "height": height, "levels": levels(slide)}


def jigsaw_arrow(maps: PatchMaps, placement: Placement, patch: int) -> dict[str, list[float]]:
    """From a patch to where the jigsaw puts it; nothing without a jigsaw."""
    if maps.jigsaw is None:
        return {name: [] for name in EDGES}
    ends = np.stack([placement.coords[patch], maps.jigsaw[patch] * placement.scale]) + placement.edge / 2
    return {name: [float(value)] for name, value in zip(EDGES, ends.flat, strict=True)}


def neighbour_lines(maps: PatchMaps, middle: Any, patch: int) -> dict[str, Any]:
    """Lines to the patches that one attends to, itself left out; the heavier, the wider and the plainer."""
    found = maps.neighbours(patch)
    neighbours, weights = (np.empty(0, int), np.empty(0)) if found is None else found
    others = neighbours != patch
    neighbours, weights = neighbours[others], weights[others]
    share = weights / weights.max() if len(weights) else weights
    ends = middle[neighbours]
    start = np.broadcast_to(middle[patch], ends.shape)
    places = dict(zip(EDGES, (start[:, 0], start[:, 1], ends[:, 0], ends[:, 1]), strict=True))
    return {**places, "alpha": 0.2 + 0.8 * share, "width": 0.5 + 2 * share, "size": 3 + 8 * share}
