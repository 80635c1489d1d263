"""A small run whose patches lie on small slides, painted so that every patch has a colour of its own; a server in a
thread; a browser."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jigsawmil.bags.bag import Bag
from jigsawmil.bags.formats import write_bag
from jigsawmil.study.run import Run, open_run
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.synthetic.phantom import make_phantom
from jigsawmil.train.settings import Settings
from jigsawmil.viewer import gate
from jigsawmil.viewer.data import Library
from jigsawmil.viewer.server import make_server
from jigsawmil.viewer.session import Session

EDGE = 32  # level-0 pixels of a patch
BORDER = 2  # patches of glass around the tissue
HOSTILE = "<u>segregated</u>"  # a label is text, whatever it looks like
SMALL = {"epochs": 3, "patience": 0, "lr": 0.005, "hidden": 16, "attention_dim": 8, "grid": 4, "k": 8}


def colour(column: int, row: int) -> tuple[int, int, int]:
    """Of the slide where a patch lies; neighbours differ by more than a JPEG blurs."""
    return 60 + 37 * (column % 5), 60 + 37 * (row % 5), 120 + 60 * ((column + row) % 2)


def on_small_slide(bag: Bag) -> Bag:
    cells = ((bag.coords - bag.coords.min(dim=0).values) / bag.patch_size).round()
    return dataclasses.replace(bag, coords=(cells + BORDER) * EDGE, patch_size=float(EDGE))


def write_picture(bag: Bag, path: Path) -> None:
    """A plain image, which OpenSlide's fallback reads as a slide."""
    cells = (bag.coords / EDGE).round().long().numpy()
    columns, rows = cells.max(axis=0) + 1 + BORDER
    small = np.full((rows, columns, 3), 255, np.uint8)
    small[cells[:, 1], cells[:, 0]] = [colour(*cell) for cell in cells.tolist()]
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(small.repeat(EDGE, axis=0).repeat(EDGE, axis=1)).save(path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cohort, run and slides (of the first two slides and, of another size, the third). Not to be changed."""
    root = tmp_path_factory.mktemp("viewer")
    phantoms = make_phantom("arrangement", slides=12, seed=2, patches=160, dim=16, noise=0.5)
    lines = ["slide_id,patient_id,label"]
    for i, phantom in enumerate(phantoms):
        bag = on_small_slide(phantom.bag)
        write_bag(bag, root / "cohort" / "features" / f"{bag.slide_id}.h5")
        label = HOSTILE if phantom.label == "segregated" else phantom.label
        lines.append(f"{bag.slide_id},P{phantom.patient},{label}")
        if i < 2:
            write_picture(bag, root / "slides" / f"{bag.slide_id}.png")
        if i == 2:
            Image.new("RGB", (3 * EDGE, 3 * EDGE), "pink").save(root / "slides" / f"{bag.slide_id}.png")
    (root / "cohort" / "labels.csv").write_text("\n".join(lines) + "\n")
    spec = cohort_spec({"labels": root / "cohort" / "labels.csv", "features": root / "cohort" / "features"})
    names = ("abmil", "graph-abmil+jigsaw")
    variants = {name: Settings.from_flat({"method": name, **SMALL}) for name in names}
    cross_validate(Study(cohorts={"cohort": spec}, variants=variants, folds=2), root / "run")
    return root


@pytest.fixture(scope="session")
def run(folder: Path) -> Run:
    return open_run(folder / "run")


@pytest.fixture(scope="session")
def library(folder: Path, run: Run) -> Library:
    return Library(run, folder / "slides")


@contextmanager
def serving(library: Library, **where: Any) -> Iterator[Any]:
    """The viewer on a free port, in a thread of its own."""
    started, box = threading.Event(), []

    def serve() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        try:
            box.append(make_server(library, Session, **{"port": 0, **where}))
            box[0].start()
        except BaseException as error:
            box.append(error)
            return
        finally:
            started.set()
        box[0].io_loop.start()
        box[0].io_loop.close(all_fds=True)

    thread = threading.Thread(target=serve)
    thread.start()
    started.wait(30)
    if isinstance(box[0], BaseException):
        thread.join()
        raise box[0]
    try:
        yield box[0]
    finally:
        server = box[0]

        def stop() -> None:
            server.stop()
            server.io_loop.stop()

        server.io_loop.add_callback(stop)
        thread.join(20)


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    return serving


@pytest.fixture(scope="session")
def server(library: Library) -> Iterator[Any]:
    """Many tests ask it for pages and leave them."""
    with serving(library) as running, pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "WAITING", 50)
        yield running
