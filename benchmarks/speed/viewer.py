"""The viewer on a slide of 50,000 patches, in a headless Chromium that draws without a graphics card.

    .venv/bin/python -m benchmarks.speed.viewer
    .venv/bin/python -m benchmarks.speed.viewer --patches 12050

*Latency*: from the event in the browser (`performance.now` in a listener that hears it first) to the second animation
frame after it, by which its effect has been drawn and handed on; an idle page would show some 20 to 33 ms. *Busy*: the
processor time that the page's thread spent on one such event, which other work on the machine does not lengthen.
Beside them, the same on a figure that Bokeh draws by itself from as many `rect` glyphs, with its HoverTool: what the
viewer would be without a lattice and a canvas of its own.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from jigsawmil.bags.formats import write_bag
from jigsawmil.study.runner import cross_validate
from jigsawmil.study.study import Study, cohort_spec
from jigsawmil.train.settings import Settings

from .. import RESULTS, provenance, write
from .contenders import tissue_slide

FLAGS = ["--headless", "--no-sandbox"] + [
    f"--disable-{what}" for what in ("gpu", "background-networking", "component-update", "sync")
]
LIMIT = 200  # ms, on hovering and opacity
MOVES = 60
BIG = "big"
SERVE = """
import sys
from pathlib import Path
from jigsawmil.viewer.data import Library
from jigsawmil.viewer.server import make_server
from jigsawmil.viewer.session import Session
from jigsawmil.study.run import open_run
from jigsawmil.train.settings import Settings
server = make_server(Library(open_run(Path(sys.argv[1]))), Session, port=0)
print(server.port, flush=True)
server.start()
server.io_loop.start()
"""
# Time from `start` to the end of the second frame after it: the first draws, by the second it has been handed on.
FRAMES = """window.frames_after = (start) => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start))));"""
OPACITY = "(i) => Bokeh.documents[0].get_model_by_name('opacity').value = 0.2 + i / 100"
LISTEN = """() => {
    window.heard = [];
    if (window.listening) return;
    window.listening = true;
    window.addEventListener("pointermove", () => {
        frames_after(performance.now()).then((time) => window.heard.push(time));
    }, { capture: true });
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--patches", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "viewer.json")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("No Chromium on the PATH; expected chromium or google-chrome.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = make_run(Path(folder), options.patches)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with serving(run) as url:
            figures = measure_viewer(browser, url)
        figures |= measure_glyphs(browser, Path(folder), options.patches)
        about = {"patches": options.patches, "limit_ms": LIMIT, "chromium": browser.version}
        browser.close()
    print("\n| what | latency, median | worst | busy |\n| --- | --- | --- | --- |")
    for name, values in figures.items():
        busy = f"{values['busy_ms']:.1f} ms" if "busy_ms" in values else ""
        print(f"| {name} | {values['median_ms']:.0f} ms | {values['worst_ms']:.0f} ms | {busy} |")
    write(options.out, json.dumps({"figures": figures, **about, **provenance()}, indent=2))


def make_run(folder: Path, patches: int) -> Path:
    """A run of six small slides, the first of which then grows: how quick a page is does not ask what was learnt."""
    lines = ["slide_id,label"]
    for i in range(6):
        write_slide(folder, BIG if i == 0 else f"s{i}", 300, i)
        lines.append(f"{BIG if i == 0 else f's{i}'},{'ab'[i % 2]}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    spec = cohort_spec({"labels": folder / "labels.csv", "features": folder / "features"})
    settings = Settings.from_flat({"method": "graph-abmil+jigsaw", "epochs": 1, "patience": 0})
    cross_validate(Study(cohorts={"cohort": spec}, variants={"graph-abmil+jigsaw": settings}, folds=2), folder / "run")
    write_slide(folder, BIG, patches, 0)
    return folder / "run"


def write_slide(folder: Path, name: str, patches: int, seed: int) -> None:
    bag = dataclasses.replace(tissue_slide(patches, seed=seed), slide_id=name)
    write_bag(bag, folder / "features" / f"{name}.h5")


@contextmanager
def serving(run: Path) -> Iterator[str]:
    """In a process of its own, as a person would have it."""
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.terminate()
        process.wait(20)


def summary(times: list[float]) -> dict[str, Any]:
    return {"median_ms": median(times), "worst_ms": max(times), "times_ms": [round(t, 2) for t in times]}


class Busy:
    """Processor time of the page's thread, milliseconds."""

    def __init__(self, page: Any) -> None:
        self.tools = page.context.new_cdp_session(page)
        self.tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def now(self) -> float:
        metrics = self.tools.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration") * 1e3


def measure_viewer(browser: Any, url: str) -> dict[str, Any]:
    found = {}
    for name in ("first picture, maps computed", "first picture, maps kept"):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        start = time.perf_counter()
        page.goto(url)
        page.wait_for_selector("#bar0:not([hidden])", timeout=300_000)
        page.wait_for_function("jigsawmil.panes[0].stage.picture && !jigsawmil.panes[0].stage.due")
        found[name] = summary([(time.perf_counter() - start) * 1e3])
        if "kept" not in name:
            page.close()
    page.evaluate(FRAMES)
    page.wait_for_timeout(1000)
    found["hover"] = hover(page, "#pane0")
    for name, code in {
        "opacity": OPACITY,
        "threshold": "(i) => Bokeh.documents[0].get_model_by_name('threshold').value = i % 60",
        "colours": "(i) => Bokeh.documents[0].get_model_by_name('colours').value = ['magma', 'viridis'][i % 2]",
        "layer": "(i) => Bokeh.documents[0].get_model_by_name('layer').active = i % 3",
    }.items():
        found[name] = change(page, code)
    page.evaluate("Bokeh.documents[0].get_model_by_name('layer').active = 0")
    # so near that patches are drawn one by one: as many of them as this ever happens to
    page.evaluate("jigsawmil.look((jigsawmil.view().left + jigsawmil.view().right) / 2, "
                  "(jigsawmil.view().top + jigsawmil.view().bottom) / 2, jigsawmil.lattice().cell / 10.5)")  # fmt: skip
    page.wait_for_timeout(500)
    found["hover, near"] = hover(page, "#pane0")
    found["opacity, near"] = change(
        page, "(i) => Bokeh.documents[0].get_model_by_name('opacity').value = 0.2 + i / 100"
    )
    found["click to neighbours"] = click(page)
    page.close()
    return found


def hover(page: Any, selector: str) -> dict[str, Any]:
    """Moves over the slide; from the event to the frame that shows what is under the mouse."""
    box = page.locator(selector).first.bounding_box()
    page.evaluate(LISTEN)
    busy = Busy(page)
    before = busy.now()
    for x, y in np.random.default_rng(0).uniform(0.3, 0.7, (MOVES, 2)):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.wait_for_timeout(40)
    spent = (busy.now() - before) / MOVES
    page.wait_for_function(f"window.heard.length === {MOVES}")
    return {**summary(page.evaluate("window.heard")), "busy_ms": spent}


def change(page: Any, code: str) -> dict[str, Any]:
    """A widget's value set; to the frame after the one that draws it."""
    script = f"async (i) => {{ const start = performance.now(); ({code})(i); return frames_after(start); }}"
    busy = Busy(page)
    before = busy.now()
    times = [page.evaluate(script, i) for i in range(1, MOVES + 1)]
    return {**summary(times), "busy_ms": (busy.now() - before) / MOVES}


def click(page: Any) -> dict[str, Any]:
    """To the lines being drawn: through the server and back."""
    times = []
    for i in range(1, 11):
        script = """async (i) => {
            const edges = Bokeh.documents[0].get_model_by_name("edges0");
            const start = performance.now();
            const arrived = new Promise((done) => {
                const heard = () => { edges.properties.data.change.disconnect(heard); done(); };
                edges.properties.data.change.connect(heard);
            });
            const patch = Math.floor(i * jigsawmil.lattice().length / 11), l = jigsawmil.lattice();
            jigsawmil.tap(0, l.x[patch] + 1, l.y[patch] + 1);
            await arrived;
            return frames_after(start);
        }"""
        times.append(page.evaluate(script, i))
        page.wait_for_timeout(100)
    return summary(times)


def measure_glyphs(browser: Any, folder: Path, patches: int) -> dict[str, Any]:
    """The same patches as Bokeh's glyphs: hovering with its HoverTool, and opacity."""
    from bokeh.embed import file_html
    from bokeh.models import HoverTool
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    bag = tissue_slide(patches)
    x, y = bag.coords.numpy().T
    shade = np.random.default_rng(0).integers(0, 256, patches)
    source = {"x": x, "y": y, "colour": [f"#{tone:02x}60{255 - tone:02x}" for tone in shade]}
    plot = figure(width=790, height=850, match_aspect=True, output_backend="canvas", toolbar_location=None)
    drawn = plot.rect("x", "y", 512, 512, fill_color="colour", line_color=None, source=source)
    drawn.glyph.name = "patches"
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=[("patch", "$index"), ("x", "@x"), ("y", "@y")]))
    path = folder / "glyphs.html"
    path.write_text(file_html(plot, INLINE))
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector(".bk-Figure")
    page.wait_for_timeout(3000)
    page.evaluate(FRAMES)
    found = {"hover, Bokeh's HoverTool on rect glyphs": hover(page, ".bk-Figure")}
    code = "(i) => Bokeh.documents[0].get_model_by_name('patches').fill_alpha = { value: 0.2 + i / 100 }"
    found["opacity, Bokeh's rect glyphs"] = change(page, code)
    page.close()
    return found


if __name__ == "__main__":
    main()
