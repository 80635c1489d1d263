"""The slides of one folder by their ids, opened when they are looked at, and cut into the tiles of a deep zoom."""

import io
import math
import threading
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

from PIL import Image

from ..errors import SlideError
from ..slides.find import slides_below
from ..slides.slide import SLIDES, Picture, Slide, open_slide

EDGE = 512  # pixels of a tile; stage.js has the same
OPEN = 8  # slides kept open
TILES = 512  # kept encoded, some 30 MB


class SlideFolder:
    """Slides below one folder, shared by threads. A slide is asked for by its id, never by a path; a link out of the
    folder is refused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._files = slides_below(self.folder)
        if not self._files:
            raise SlideError(f"{folder}: no slides in it. Expected files such as {', '.join(sorted(SLIDES)[:6])}.")
        self._open: OrderedDict[str, Slide] = OrderedDict()
        self._lock = threading.Lock()
        self.tile = lru_cache(TILES)(self._tile)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, slide_id: str) -> bool:
        return slide_id in self._files

    def path(self, slide_id: str) -> Path:
        """The one file of a slide, which lies in the folder."""
        files = self._files.get(slide_id, [])
        if not files:
            raise SlideError(
                f"{slide_id}: none of the {len(self)} slides in {self.folder} has this name. Add it there."
            )
        if len(files) > 1:
            names = ", ".join(str(file.relative_to(self.folder)) for file in files)
            raise SlideError(
                f"{slide_id}: {len(files)} files in {self.folder} have this name: {names}. Leave one there."
            )
        real = files[0].resolve()
        if not real.is_relative_to(self.folder):
            raise SlideError(
                f"{slide_id}: {files[0].name} links out of {self.folder}, and only that folder may be read. Give the "
                "folder in which the slide lies with --slides."
            )
        return real

    def get(self, slide_id: str) -> Slide:
        """An open slide. It is closed when nobody uses it any more and others have taken its place."""
        with self._lock:
            if slide_id in self._open:
                self._open.move_to_end(slide_id)
                return self._open[slide_id]
        slide = open_slide(self.path(slide_id))
        with self._lock:
            self._open[slide_id] = slide
            while len(self._open) > OPEN:
                self._open.popitem(last=False)  # a thread may still read from it: not closed here
        return slide

    def _tile(self, slide_id: str, level: int, column: int, row: int) -> bytes:
        """JPEG of a tile: level l has 2^l level-0 pixels a pixel."""
        return jpeg(self.get(slide_id).tile(2.0**level, column, row, EDGE))


def levels(slide: Slide) -> int:
    """Levels from full resolution down to the one that is a single tile."""
    return 1 + max(0, math.ceil(math.log2(max(slide.size) / EDGE)))


def inside(slide: Slide, level: int, column: int, row: int) -> bool:
    """Whether a tile shows any of the slide."""
    step = EDGE * 2**level
    return level < levels(slide) and column * step < slide.size[0] and row * step < slide.size[1]


def jpeg(picture: Picture, quality: int = 85) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return file.getvalue()
