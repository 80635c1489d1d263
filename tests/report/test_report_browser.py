"""The report in a browser: nothing fetched, nothing broken, every picture there, and A4 pages that cut nothing off."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

A4 = 665  # pixels: 210 mm without the margins


@pytest.fixture
def page(browser: Any, drawn: Path) -> Iterator[Any]:
    """The report, offline; `page.said` has every error and every request."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 1000})
    tab = context.new_page()
    tab.said = []
    tab.on("console", lambda message: tab.said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    tab.on("request", lambda request: tab.said.append(request.url))
    tab.goto(drawn.as_uri())
    yield tab
    context.close()


def test_it_opens_offline_with_every_picture_and_the_answer_on_top(page: Any, drawn: Path) -> None:
    fetched = [line for line in page.said if not line.startswith("data:image/")]
    assert fetched == [drawn.as_uri()]
    assert "graph-abmil+jigsaw has the highest AUROC" in page.inner_text("h1")
    assert page.locator("h1").bounding_box()["y"] < 150
    sizes = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])")
    assert len(sizes) == 15
    assert all(complete and natural > 0 and shown > 100 for complete, natural, shown in sizes)


def test_links_lead_to_their_sections(page: Any) -> None:
    for link in page.locator("nav a").all():
        link.click()
        target = page.locator(f"[id='{link.get_attribute('href')[1:]}']")
        assert target.inner_text() == link.inner_text()


@pytest.mark.parametrize(("media", "width"), [("screen", 900), ("screen", 400), ("print", A4)])
def test_nothing_is_wider_than_the_page(page: Any, media: str, width: int) -> None:
    page.emulate_media(media=media)
    page.set_viewport_size({"width": width, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width > 400:  # on a phone wide tables scroll within themselves
        beyond = (
            "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        )
        assert page.evaluate(f"{beyond}.map(e => e.outerHTML.slice(0, 80))") == []


def test_it_prints_on_a4_and_every_picture_fits_a_page(page: Any) -> None:
    pdf = page.pdf(prefer_css_page_size=True)
    boxes = set(re.findall(rb"/MediaBox \[([^\]]+)\]", pdf))
    sizes = {tuple(round(float(value)) for value in box.split()) for box in boxes}
    assert all(abs(width - 595) <= 1 and abs(height - 842) <= 1 for _, _, width, height in sizes)
    assert sizes
    page.emulate_media(media="print")
    page.set_viewport_size({"width": A4, "height": 1000})
    heights = page.evaluate("[...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect().height)")
    assert max(heights) < (297 - 34) / 25.4 * 96
    kept = "[...document.querySelectorAll('figure, tr')].map(e => getComputedStyle(e).breakInside)"
    assert set(page.evaluate(kept)) == {"avoid"}
