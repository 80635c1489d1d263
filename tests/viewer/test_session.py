"""What a session does with choices, without a browser."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bokeh.document import Document

from jigsawmil.errors import FeatureError
from jigsawmil.maps.patch_maps import NO_EVIDENCE
from jigsawmil.study.run import Run
from jigsawmil.viewer import session as module
from jigsawmil.viewer.data import Library, columns, place
from jigsawmil.viewer.pictures import CARDS, gallery, map_around, patch_card, ranking
from jigsawmil.viewer.session import Session, jigsaw_arrow, neighbour_lines

GRAPH = "graph-abmil+jigsaw"


class Loop(Document):
    """A document whose callbacks are run when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []

    def add_next_tick_callback(self, callback: Any) -> Any:
        self.waiting.append(callback)

    def run_until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not reached():
            assert time.monotonic() < end
            while self.waiting:
                self.waiting.pop(0)()
            time.sleep(0.005)


@pytest.fixture
def opened(library: Library) -> Session:
    session = Session(Loop(), library, "tiles/key")
    session.page.state.ready = True
    session.document.run_until(lambda: session.shown is not None)
    return session


def test_nothing_is_computed_before_a_browser_is_there(library: Library, monkeypatch) -> None:
    monkeypatch.setattr(Library, "maps", lambda *_: pytest.fail("computed"))
    session = Session(Loop(), library, "tiles/key")
    time.sleep(0.05)
    assert session.shown is None
    assert session.page.state.busy


def test_of_two_choices_the_last_is_shown(library: Library, monkeypatch) -> None:
    session = Session(Loop(), library, "tiles/key")
    held, computed, maps = threading.Event(), [], Library.maps

    def slow(own: Library, key: Any) -> Any:
        held.wait(20)
        computed.append(key.slide_id)
        return maps(own, key)

    monkeypatch.setattr(Library, "maps", slow)
    ids = list(session.page.table.data["slide"])
    session.page.state.ready = True
    for row in (1, 2, 3):
        session.page.table.selected.indices = [row]
    held.set()
    session.document.run_until(lambda: session.shown is not None)
    assert session.shown.keys[0].slide_id == ids[3]
    assert computed in ([ids[0], ids[3]], [ids[3]])  # those between were not even begun
    assert session.page.state.busy == ""


def test_a_fault_is_told_and_the_next_slide_still_opens(library: Library, monkeypatch) -> None:
    maps = Library.maps
    faults = iter([FeatureError("found x, expected y"), ZeroDivisionError("surprise")])

    def faulty(own: Library, key: Any) -> Any:
        for fault in faults:
            raise fault
        return maps(own, key)

    monkeypatch.setattr(Library, "maps", faulty)
    monkeypatch.setattr(module.log, "exception", lambda *_: None)
    session = Session(Loop(), library, "tiles/key")
    state = session.page.state
    state.ready = True
    session.document.run_until(lambda: state.notice != "")
    assert state.notice == "found x, expected y"
    assert state.busy == ""
    session.page.table.selected.indices = [1]
    session.document.run_until(lambda: "surprise" in state.notice)
    session.page.table.selected.indices = [2]
    session.document.run_until(lambda: session.shown is not None)
    assert "surprise" not in state.notice


def test_cohorts_and_seeds_are_chosen_apart(run: Run) -> None:
    half = len(run.slides) // 2
    names = ["one"] * half + ["two"] * (len(run.slides) - half)
    of = dict(zip(run.slides["slide_id"], names, strict=True))
    again = pd.concat([run.predictions, run.predictions.assign(seed=1, probability=1 - run.predictions["probability"])])
    jobs = tuple(dataclasses.replace(job, spec={**job.spec, "seed": seed}) for job in run.jobs for seed in (0, 1))
    both = dataclasses.replace(
        run,
        record=dataclasses.replace(run.record, cohorts=dict.fromkeys(("one", "two"), run.record.cohorts["cohort"])),
        slides=run.slides.assign(cohort=names),
        predictions=again.assign(cohort=[of[slide] for slide in again["slide_id"]]),
        jobs=jobs,
    )
    page = Session(Loop(), Library(both), "").page
    assert page.cohort.visible
    assert page.seed.visible
    assert page.table.data["slide"] == list(run.slides["slide_id"][:half])
    before = list(page.table.data["mark"])
    page.seed.value = "1"
    assert all(a != b for a, b in zip(before, page.table.data["mark"], strict=True))  # every prediction turned round
    page.search.value_input = "wrong"
    page.rows.indices = [0]
    page.cohort.value = "two"
    assert page.table.data["slide"] == list(run.slides["slide_id"][half:])
    assert page.search.value_input == ""
    assert list(page.rows.indices) == list(range(len(run.slides) - half))


def test_with_one_method_there_is_nothing_beside(run: Run) -> None:
    one = run.predictions[run.predictions["variant"] == "abmil"]
    jobs = tuple(job for job in run.jobs if job.variant == "abmil")
    summary = run.summary[run.summary["variant"] == "abmil"]
    page = Session(Loop(), Library(dataclasses.replace(run, predictions=one, jobs=jobs, summary=summary)), "").page
    assert not page.other.visible
    assert page.variant.value == "abmil"


def test_lines_lead_from_the_patch_to_what_it_attends_to(opened: Session) -> None:
    maps, placement = opened.shown.maps[0], opened.shown.placement
    middle = placement.coords + placement.edge / 2
    neighbours, weights = maps.neighbours(7)
    lines = neighbour_lines(maps, middle, 7)
    others = neighbours != 7
    np.testing.assert_allclose(np.stack([lines["x1"], lines["y1"]], axis=1), middle[neighbours[others]])
    np.testing.assert_allclose(lines["x0"], middle[7, 0])
    assert lines["width"].argmax() == weights[others].argmax()
    assert lines["alpha"].max() == 1
    arrow = jigsaw_arrow(maps, placement, 7)
    np.testing.assert_allclose([arrow["x1"][0], arrow["y1"][0]], maps.jigsaw[7] + placement.edge / 2)


def test_a_method_without_a_graph_draws_no_lines(opened: Session) -> None:
    opened.page.variant.value = "abmil"
    opened.document.run_until(lambda: opened.shown.keys[0].variant == "abmil")
    opened.page.state.patch = 3
    assert len(opened.page.edges[0].data["x1"]) == 0
    assert opened.page.arrows[0].data["x1"] == []
    assert opened.page.mark.data["edge"] == [opened.shown.placement.edge]
    opened.document.run_until(lambda: "patch 3" in opened.page.patch.text)
    assert "no attention between patches" in opened.page.patch.text


def test_an_impossible_patch_changes_nothing(opened: Session) -> None:
    opened.page.state.patch = 10**6
    assert opened.page.mark.data["x"] == []


def test_galleries_lead_with_what_they_are_named_after(opened: Session) -> None:
    maps = opened.shown.maps[0]
    evidence = maps.evidence_for()
    assert ranking(maps, "most attended")[0] == maps.attention.argmax()
    assert ranking(maps, "least attended")[0] == maps.attention.argmin()
    assert ranking(maps, "most for")[0] == evidence.argmax()
    assert ranking(maps, "most against")[0] == evidence.argmin()
    assert ranking(maps, "largest jigsaw error")[0] == np.hypot(*(maps.jigsaw - maps.coords).T).argmax()
    html = gallery(maps, opened.shown.placement, None, "most against")
    assert html.count("<button") == CARDS
    assert f"{evidence.min():+.2g}</button>" in html


def test_a_model_without_evidence_says_so_and_shows_the_rest(opened: Session) -> None:
    shown = opened.shown
    bare = dataclasses.replace(shown, maps=tuple(dataclasses.replace(maps, evidence=None) for maps in shown.maps))
    assert [opened._info(one, 0)["evidence"] for one in (shown, bare)] == [True, False]
    assert not columns(bare.maps[0], bare.placement)["evidence"].any()
    for by in ("most for", "most against"):
        assert gallery(bare.maps[0], bare.placement, None, by) == f"<p>{NO_EVIDENCE}</p>"
    assert gallery(bare.maps[0], bare.placement, None, "most attended").count("<button") == CARDS
    assert "<tr><td>evidence</td><td>–</td></tr>" in patch_card(0, [("a", bare.maps[0])], bare.placement, None)


def test_names_of_methods_are_never_markup(opened: Session) -> None:
    maps = opened.shown.maps[0]
    html = patch_card(0, [("<i>a</i>", maps), ("b & c", maps)], opened.shown.placement, None)
    assert "<i>" not in html
    assert "&lt;i&gt;a&lt;/i&gt;" in html


def test_without_a_slide_a_patch_is_shown_by_the_map_around_it(opened: Session) -> None:
    maps = opened.shown.maps[0]
    placement = place(maps.bag, None)
    picture = map_around(maps.attention, placement, int(maps.attention.argmax()))
    assert tuple(picture[4, 4]) == (253, 231, 36)  # the end of viridis
    corner = int(placement.coords.sum(axis=1).argmin())
    assert tuple(map_around(maps.attention, placement, corner)[0, 0]) == (244, 244, 244)  # nothing lies there
