"""The page in a browser: what a person does there, and what they then see."""

import dataclasses
import io
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from jigsawmil.maps.patch_maps import PatchMaps
from jigsawmil.maps.values import percentiles
from jigsawmil.viewer.data import Key, Library

from .conftest import HOSTILE, colour

GRAPH = "graph-abmil+jigsaw"
PLACE = """patch => {
    const lattice = jigsawmil.lattice(), { left, right, top } = jigsawmil.view();
    const box = document.getElementById("pane0").getBoundingClientRect(), zoom = box.width / (right - left);
    const middle = (corner) => corner + lattice.edge / 2;
    return [box.x + (middle(lattice.x[patch]) - left) * zoom, box.y + (middle(lattice.y[patch]) - top) * zoom];
}"""


class Viewer:
    """A page with the words of a person."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.faults, self.asked = page, [], []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))
        page.goto(url)
        self.settle()

    def settle(self) -> None:
        """Nothing is being computed or loaded any more."""
        self.page.wait_for_selector("#bar0:not([hidden])")
        self.page.wait_for_selector("#busy", state="hidden")
        self.page.wait_for_function("tiles.loading === 0 && jigsawmil.panes.every((pane) => !pane.stage.due)")

    def place(self, patch: int) -> tuple[float, float]:
        return tuple(self.page.evaluate(PLACE, patch))

    def hover(self, patch: int) -> str:
        self.page.mouse.move(*self.place(patch))
        self.page.wait_for_selector(f'#tip[data-patch="{patch}"]')
        return self.page.locator("#tip").inner_text()

    def open(self, slide: str) -> None:
        self.page.locator(".slick-row", has_text=slide).click()
        self.page.wait_for_function(f"document.getElementById('headline').textContent.startsWith('{slide} ')")
        self.settle()

    def pixel(self, patch: int) -> np.ndarray:
        """The colour shown a quarter off the middle of a patch, beside its marks."""
        x, y = self.place(patch)
        self.page.mouse.move(5, 5)
        shot = Image.open(io.BytesIO(self.page.screenshot()))
        return np.array(shot.convert("RGB").getpixel((round(x) + 3, round(y) + 3)), dtype=int)

    def set(self, name: str, **values: Any) -> None:
        """What a widget would set when it is used; such changes stay in the browser."""
        model = "Bokeh.documents[0].get_model_by_name(name)"
        self.page.evaluate(f"([name, values]) => {model}.setv(values)", [name, values])
        self.page.wait_for_function("jigsawmil.panes.every((pane) => !pane.stage.due)")

    def reset(self) -> None:
        self.set("layer", active=0)
        self.set("colours", value="viridis")
        self.set("threshold", value=0)
        self.set("opacity", value=0.5)
        self.page.get_by_placeholder("Search").fill("")
        self.page.get_by_label("beside").select_option("none")
        self.page.wait_for_selector("#pane1", state="hidden")
        self.open(self.rows()[0])
        self.page.locator("#fit").click()
        self.settle()

    def rows(self) -> list[str]:
        return [text.split("\n")[0] for text in self.page.locator(".slick-row").all_inner_texts()]


@pytest.fixture(scope="module")
def opened(browser: Any, server: Any) -> Iterator[Viewer]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    yield Viewer(page, f"http://127.0.0.1:{server.port}/")
    page.close()


@pytest.fixture
def viewer(opened: Viewer) -> Iterator[Viewer]:
    """As it was opened: the first slide, whole, by the last method."""
    yield opened
    faults, opened.faults[:] = list(opened.faults), []
    assert not faults
    opened.reset()


def first(library: Library, row: int = 0, variant: str = GRAPH) -> Any:
    return library.maps(Key("cohort", str(library.run.slides["slide_id"].iloc[row]), variant, 0))


def test_slides_are_listed_searched_and_opened(viewer: Viewer, library: Library) -> None:
    table = library.table("cohort", GRAPH, 0)
    assert viewer.rows() == list(table["slide_id"])
    search = viewer.page.get_by_placeholder("Search")
    search.press_sequentially("wrong" if not table["right"].all() else "mixed")
    wanted = table[~table["right"]] if not table["right"].all() else table[table["label"] == "mixed"]
    assert viewer.rows() == list(wanted["slide_id"])
    assert search.input_value() in ("wrong", "mixed")  # the table did not take the focus away
    search.fill("")
    slide = table["slide_id"].iloc[1]
    viewer.open(slide)
    patches = library.run.slides["patches"].iloc[1]
    assert viewer.page.locator("#headline").inner_text() == f"{slide} · {table['label'].iloc[1]} · {patches} patches"
    caption = viewer.page.locator("#caption0").inner_text()
    assert caption == f"{GRAPH}: {table['predicted'].iloc[1]}, p = {table['p'].iloc[1]:.2f}"


def test_hovering_tells_of_the_patch_under_the_mouse(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    for patch in (0, len(maps) // 2, len(maps) - 1):
        text = viewer.hover(patch)
        x, y = maps.coords[patch]
        assert text.startswith(f"patch {patch}\tx {x:,.0f}, y {y:,.0f}\n")
        assert f"{percentiles(maps.attention)[patch]:.1f}" in text
        assert f"{maps.evidence_for()[patch]:+.3g}"[:5] in text
    viewer.page.mouse.move(400, 880)
    viewer.page.wait_for_selector("#tip", state="hidden")


def shades_of(maps: PatchMaps) -> np.ndarray:
    """(patch, 3): colours of the attention, as the page rounds them."""
    tones = np.round(percentiles(maps.attention) / 100 * 255).astype(int)
    return matplotlib.colormaps["viridis"](tones, bytes=True)[:, :3]


def test_the_slide_and_the_map_lie_where_they_should(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    cells = (maps.coords / 32).round().astype(int)
    shades = matplotlib.colormaps["viridis"](np.round(percentiles(maps.attention) / 100 * 255).astype(int), bytes=True)[
        :, :3
    ]
    chosen = [0, 17, len(maps) // 2, len(maps) - 1]
    viewer.set("opacity", value=0)
    for patch in chosen:
        np.testing.assert_allclose(viewer.pixel(patch), colour(*cells[patch]), atol=8)  # JPEG
    viewer.set("opacity", value=1)
    for patch in chosen:
        np.testing.assert_allclose(viewer.pixel(patch), shades[patch].astype(int), atol=1)
    viewer.set("opacity", value=0.5)
    mixed = (np.array(colour(*cells[17])) + shades[17]) / 2
    np.testing.assert_allclose(viewer.pixel(17), mixed, atol=6)
    # near, patches are drawn one by one, and again where they lie
    x, y = viewer.place(17)
    viewer.page.mouse.move(x, y)
    for _ in range(4):
        viewer.page.mouse.wheel(0, -120)
    viewer.set("opacity", value=1)
    viewer.settle()
    np.testing.assert_allclose(viewer.pixel(17), shades[17].astype(int), atol=1)
    assert viewer.hover(17).startswith("patch 17")


def test_the_threshold_hides_the_lowest(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    order = np.argsort(maps.attention)
    cells = (maps.coords / 32).round().astype(int)
    viewer.set("opacity", value=1)
    viewer.set("threshold", value=50)
    low, high = int(order[len(order) // 4]), int(order[-len(order) // 4])
    np.testing.assert_allclose(viewer.pixel(low), colour(*cells[low]), atol=8)
    np.testing.assert_allclose(viewer.pixel(high), shades_of(maps)[high], atol=2)


def test_layers_have_their_colours_and_words(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    viewer.set("opacity", value=1)
    viewer.page.get_by_role("button", name="evidence").click()
    assert viewer.page.locator("#bar0").inner_text() == f"against {maps.shown_class}\nfor {maps.shown_class}"
    evidence = maps.evidence_for()
    for patch, blue in ((int(evidence.argmax()), False), (int(evidence.argmin()), True)):
        red_, _, blue_ = viewer.pixel(patch)
        assert (blue_ > red_) == (blue and evidence[patch] < 0)
    viewer.page.get_by_role("button", name="jigsaw", exact=True).click()
    assert viewer.page.locator("#bar0").inner_text().startswith("predicted where it lies")
    viewer.page.get_by_label("colours").select_option("magma")
    far = int(np.hypot(*(maps.jigsaw - maps.coords).T).argmax())
    np.testing.assert_allclose(viewer.pixel(far), matplotlib.colormaps["magma"](255, bytes=True)[:3], atol=2)


def test_a_click_shows_the_patch_and_what_it_attends_to(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    patch = len(maps) // 3
    viewer.page.mouse.click(*viewer.place(patch))
    viewer.page.wait_for_selector(f"#patch >> text=patch {patch}")
    neighbours, _ = maps.neighbours(patch)
    card = viewer.page.locator("#patch .one")
    assert f"attends to {len(neighbours) - 1} neighbours" in card.inner_text()
    assert card.locator("img").evaluate("image => image.naturalWidth") == 184
    ends = viewer.page.evaluate("Bokeh.documents[0].get_model_by_name('edges0').data.x1.length")
    assert ends == len(neighbours) - 1


def test_the_gallery_goes_to_its_patches(viewer: Viewer, library: Library) -> None:
    maps = first(library)
    cards = viewer.page.locator("#gallery button")
    cards.first.wait_for()
    best = np.argsort(-maps.attention, kind="stable")[:12]
    assert [int(card.get_attribute("data-patch")) for card in cards.all()] == best.tolist()
    cards.nth(2).click()
    viewer.page.wait_for_selector(f"#patch >> text=patch {best[2]}")
    box = viewer.page.locator("#pane0").bounding_box()
    np.testing.assert_allclose(
        viewer.place(int(best[2])), (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), atol=1
    )
    viewer.page.get_by_role("button", name="Whole slide").click()
    view = viewer.page.evaluate("jigsawmil.view()")
    assert view["left"] < 0 < maps.coords[:, 0].max() < view["right"]


def test_two_methods_lie_side_by_side_and_move_together(viewer: Viewer, library: Library) -> None:
    viewer.page.get_by_label("beside").select_option("abmil")
    viewer.page.wait_for_selector("#bar1:not([hidden])")
    viewer.settle()
    panes = [viewer.page.locator(f"#pane{i}").bounding_box() for i in (0, 1)]
    assert panes[0]["width"] == pytest.approx(panes[1]["width"], abs=2)
    assert panes[0]["x"] + panes[0]["width"] <= panes[1]["x"] + 1
    other = first(library, variant="abmil")
    patch = int(other.attention.argmax())
    assert f"{other.attention[patch]:.2e}".replace("e-0", "e-") in viewer.hover(patch)
    assert viewer.page.locator("#hover1").is_visible()
    shade = shades_of(other)[patch]
    viewer.set("opacity", value=1)
    x, y = viewer.place(patch)
    shift = panes[1]["x"] - panes[0]["x"]
    viewer.page.mouse.move(x, y)
    viewer.page.mouse.wheel(0, -240)
    viewer.settle()
    x, y = viewer.place(patch)
    viewer.page.mouse.move(5, 5)
    shot = Image.open(io.BytesIO(viewer.page.screenshot())).convert("RGB")
    np.testing.assert_allclose(shot.getpixel((round(x + shift) + 3, round(y) + 3)), shade, atol=2)
    viewer.page.get_by_label("beside").select_option("none")
    viewer.page.wait_for_selector("#pane1", state="hidden")


def test_what_is_wrong_with_a_slide_is_said_and_its_patches_shown(viewer: Viewer, library: Library) -> None:
    ids = list(library.run.slides["slide_id"])
    viewer.open(ids[2])  # the slide of another: too small
    notice = viewer.page.locator("#notice")
    assert "patches" in notice.inner_text()
    assert "shown without the slide" in notice.inner_text()
    assert viewer.hover(0).startswith("patch 0")
    viewer.open(ids[3])
    assert f"{ids[3]}: none of the 3 slides" in notice.inner_text()
    viewer.open(ids[0])
    assert not notice.is_visible()


def test_text_of_the_tables_is_never_markup(viewer: Viewer, library: Library) -> None:
    table = library.table("cohort", GRAPH, 0)
    viewer.open(table.loc[table["label"] == HOSTILE, "slide_id"].iloc[0])
    assert viewer.page.get_by_text(HOSTILE).count() > 0
    assert viewer.page.locator("u").count() == 0


def test_nothing_is_asked_of_any_other_machine(viewer: Viewer) -> None:
    assert any("/tiles/" in url for url in viewer.asked)
    assert any(url.startswith("ws://127.0.0.1") for url in viewer.asked)
    assert all("//127.0.0.1:" in url or url.startswith("data:") for url in viewer.asked)


def test_nothing_overlaps_on_one_screen(viewer: Viewer) -> None:
    viewer.page.mouse.click(*viewer.place(5))
    viewer.page.wait_for_selector("#patch >> text=patch 5")
    parts = ["header", "nav", "main", "aside"]
    boxes = [viewer.page.locator(part).bounding_box() for part in parts]
    assert all(box["x"] + box["width"] <= 1440 and box["y"] + box["height"] <= 900 for box in boxes)
    side = [viewer.page.locator(part).bounding_box() for part in ("#patch", "#gallery")]
    assert side[0]["y"] + side[0]["height"] <= side[1]["y"]
    assert viewer.page.evaluate("document.documentElement.scrollHeight") <= 900
    assert Image.open(io.BytesIO(viewer.page.screenshot())).size == (1440, 900)


def test_features_that_cannot_be_read_are_said_in_the_page(
    browser: Any, run: Any, serve: Callable[..., Any], tmp_path: Any
) -> None:
    paths = run.slides["features"].copy()
    paths.iloc[0] = str(tmp_path / "gone.h5")
    with serve(Library(dataclasses.replace(run, slides=run.slides.assign(features=paths)))) as running:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{running.port}/")
        page.wait_for_selector("#notice:not([hidden])")
        assert "gone.h5: no longer there" in page.locator("#notice").inner_text()
        assert "--features" in page.locator("#notice").inner_text()
        page.locator(".slick-row").nth(1).click()
        page.wait_for_selector("#bar0:not([hidden])")
        page.wait_for_selector("#notice", state="hidden")
        page.close()


def test_the_patch_under_a_point_is_found_on_any_lattice_or_none(viewer: Viewer) -> None:
    rng = np.random.default_rng(0)
    columns, rows = np.meshgrid(np.arange(20), np.arange(15))
    lattice = np.stack([columns.ravel(), rows.ravel()], axis=1) * 50.0
    kinds = {
        "one lattice": (lattice[rng.random(len(lattice)) < 0.8], 50, 50),
        "overlap": (lattice, 100, 50),
        "two lattices": (np.concatenate([lattice[:150], lattice[150:] + np.array([17, 23])]), 50, 50),
        "none": (rng.uniform(0, 1000, (200, 2)), 40, 30),
    }
    script = """([x, y, edge, cell, points]) => {
        const lattice = new Lattice(Float32Array.from(x), Float32Array.from(y), edge, cell), r = lattice.raster;
        return [points.map(([px, py]) => lattice.find(px, py)), Array.from(r.owner), r.width, r.x, r.y, r.step];
    }"""
    for kind, (corners, edge, cell) in kinds.items():
        points = rng.uniform(-30, 1100, (400, 2))
        given = [*corners.T.tolist(), edge, cell, points.tolist()]
        found, owner, width, x, y, step = viewer.page.evaluate(script, given)
        for point, index in zip(points, found, strict=True):
            offset = point - corners
            covers = ((offset >= 0) & (offset < edge)).all(axis=1)
            assert (index >= 0) == covers.any(), kind
            if index >= 0:
                far = np.hypot(*(offset - edge / 2).T)
                assert far[index] == pytest.approx(far[covers].min(), abs=1e-3), kind
        shown = np.array(owner).reshape(-1, width)
        row, column = np.nonzero(shown >= 0)
        centres = np.stack([x + (column + 0.5) * step, y + (row + 0.5) * step], axis=1)
        middle = corners[shown[row, column]] + edge / 2
        assert (np.abs(centres - middle) <= cell / 2 + step / 2).all(), kind  # to half a pixel of the small picture
        assert set(shown[row, column]) == set(range(len(corners))) or kind == "none"
