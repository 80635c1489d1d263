"""Make the screenshots of the README.

    jigsawmil demo --out demo
    python -m tools.screenshots demo/run
    python -m tools.screenshots run --tutorial    # of the run of docs/tutorial-report.md

Each picture is a function that leaves a PNG in docs/img; it needs playwright and a Chromium on the PATH.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from jigsawmil.report.page import write_report

from . import ROOT

IMAGES = ROOT / "docs" / "img"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


def report_top(browser: Browser, run: Path) -> None:
    """The beginning of the report: the answer, and what was compared."""
    page = opened_report(browser, run)
    cohort = page.locator("[id='cohort']").bounding_box()
    assert cohort is not None
    clip = {"x": 0, "y": 0, "width": 860, "height": cohort["y"] - 30}
    page.screenshot(path=IMAGES / "report.png", clip=clip, full_page=True)


def viewer(browser: Browser, run: Path) -> None:
    """The viewer at the patch that is attended to most; over the slides, where `slides` lies beside the run."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    slides = run.resolve().parent / "slides"
    command = [sys.executable, "-c", "from jigsawmil.cli import main; main()", "view", str(run), "--port", "0"]
    command += ["--slides", str(slides)] if slides.is_dir() else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            page.goto(next(line for line in server.stdout if line.startswith("http")).split()[0])
            page.locator("#gallery button").first.click(timeout=120_000)
            page.locator("#patch table").wait_for()
            page.evaluate("""() => {
                const { left, right, top, bottom } = jigsawmil.view();
                const scale = (right - left) / document.getElementById("pane0").clientWidth;
                jigsawmil.look((left + right) / 2, (top + bottom) / 2, 1.6 * scale);
            }""")
            page.wait_for_timeout(500)
            page.wait_for_function("tiles.loading === 0")
            page.wait_for_timeout(300)
            page.screenshot(path=IMAGES / "viewer.png")
        finally:
            server.terminate()
    page.close()


def tutorial_report(browser: Browser, run: Path) -> None:
    """Sections of a report, each from its own heading (the top: from the start) to that of the next."""
    page = opened_report(browser, run)
    for name, (first, following) in SECTIONS.items():
        top, bottom = (page.locator(f"[id='{one}']").bounding_box() if one else None for one in (first, following))
        assert bottom is not None
        start = top["y"] - 30 if top else 0
        clip = {"x": 0, "y": start, "width": 860, "height": bottom["y"] - 40 - start}
        page.screenshot(path=IMAGES / f"tutorial-report-{name}.png", clip=clip, full_page=True)


SECTIONS = {  # name of the picture -> heading of the section, and of the next one
    "top": ("", "methods"),
    "results": ("results", "are-the-differences-real"),
    "control": ("does-patch-position-matter", "losses-and-lambda"),
    "attention": ("attention", "slides-to-look-at"),
    "trust": ("can-the-maps-be-trusted", "settings"),
}
PICTURES: tuple[Callable[[Browser, Path], None], ...] = (report_top, viewer)


def opened_report(browser: Browser, run: Path) -> Page:
    """A fresh report of the run; its file is gone once it is loaded."""
    page = browser.new_page(viewport={"width": 860, "height": 1000})
    with tempfile.TemporaryDirectory() as folder:
        page.goto(write_report(run, Path(folder) / "report.html").as_uri())
    return page


def main(run: Path, pictures: tuple[Callable[[Browser, Path], None], ...]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("No Chromium on the PATH; expected chromium or google-chrome.")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for picture in pictures:
            picture(browser, run)
        browser.close()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--tutorial"]
    if len(words) != 1:
        sys.exit(__doc__)
    main(Path(words[0]), (tutorial_report,) if "--tutorial" in sys.argv else PICTURES)
