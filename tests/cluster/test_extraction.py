"""Extraction by a real Ray cluster of two nodes on this machine: the same files as here, whatever dies."""

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from jigsawmil.cluster import extraction as on_ray
from jigsawmil.cluster.extraction import extract_on_ray, room
from jigsawmil.errors import ConfigError, SlideError
from jigsawmil.slides.extract_many import extract_here
from jigsawmil.slides.extract_one import Extracted, ExtractSettings

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'jigsawmil[ray]'")
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

SETTINGS = ExtractSettings(workers=1, batch=4)


@pytest.fixture
def second(cluster: Any) -> Iterator[Any]:
    """A second node."""
    node = cluster.add_node(num_cpus=1)
    yield node
    cluster.remove_node(node)


def test_actors_write_the_same_bytes(
    cluster: Any, second: Any, slides: dict[str, Path], script: Path, digests: Callable, tmp_path: Path
) -> None:
    (tmp_path / "text.svs").write_text("no slide")
    files = [slides["0001"], tmp_path / "text.svs", slides["0002"], slides["0003"]]
    load = {"name": str(script)}
    here = list(extract_here(files, tmp_path / "here", load, SETTINGS))
    (tmp_path / "ray").mkdir()
    there = sorted(extract_on_ray(files, tmp_path / "ray", load, SETTINGS), key=lambda one: one.slide)
    assert [(one.slide, one.status, one.tiles) for one in there] == sorted((o.slide, o.status, o.tiles) for o in here)
    assert [one.error for one in there if one.error] == [one.error for one in here if one.error]
    assert len(digests(tmp_path / "here", "000?.h5")) == 3
    written = [digests(tmp_path / where, "*.*") for where in ("here", "ray")]
    assert written[0].keys() == written[1].keys()
    [account] = [name for name in written[0] if name.endswith("extracted.csv")]
    accounts = [pd.read_csv(tmp_path / where / account).drop(columns="seconds") for where in ("here", "ray")]
    pd.testing.assert_frame_equal(*accounts)
    assert [files.pop(account) for files in written]
    assert written[0] == written[1]


def test_a_slide_whose_node_dies_is_done_by_another(
    doomed: Any, slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = doomed.begin

    class Marked(on_ray._Extractor):  # type: ignore[misc]
        def extract(self, slide: Path) -> Extracted:
            begin(slide.stem)
            return super().extract(slide)

    monkeypatch.setattr(on_ray, "_Extractor", Marked)
    found = list(extract_on_ray(list(slides.values()), tmp_path, {"name": str(script)}, SETTINGS))
    assert sorted((one.slide, one.status) for one in found) == [(name, "done") for name in slides]
    assert list(doomed.cut().values()) == [1]  # it began there, and again on the other node


def test_idle_workers_of_a_dead_node_cost_no_slide_a_try(
    cluster: Any, kill_node: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three wait there when the node dies under the fourth, at the end of a run; the fifth, elsewhere, has room."""
    large = cluster.add_node(num_cpus=4, memory=int(1e12))
    victim, mark = large.node_id, tmp_path / "begun"

    class Stub(on_ray._Extractor):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            self.node, self.settings = ray.get_runtime_context().get_node_id(), SETTINGS

        def extract(self, slide: Path) -> Extracted:
            if slide.stem == "last" and self.node == victim:
                mark.touch()
                time.sleep(600)
            time.sleep(0.3)
            return Extracted(slide.stem, "done", 1)

    def kill() -> None:
        end = time.monotonic() + 120
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1.0)  # the others have ended
        kill_node(cluster, large)

    monkeypatch.setattr(on_ray, "_Extractor", Stub)
    crew = on_ray._Crew(tmp_path, {}, SETTINGS)
    while len(crew._idle) < 5:  # all are there before the first slide
        crew.hire(9)
        list(crew.news())
    crew._idle.sort(key=lambda worker: worker.node == victim)  # the last one is taken first
    monkeypatch.setattr(on_ray, "_Crew", lambda *given: crew)
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        slides = [Path("last"), *(Path(f"s{i}") for i in range(4))]
        found = {
            one.slide: one.error for one in extract_on_ray(slides, tmp_path, {"name": "efficientnet-lite0"}, SETTINGS)
        }
    finally:
        killer.join()
    assert found == dict.fromkeys(("last", "s0", "s1", "s2", "s3"))


def test_a_node_that_cannot_load_the_encoder_gets_no_slides(
    cluster: Any, second: Any, slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = second.node_id

    class Picky(on_ray._Extractor):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            if ray.get_runtime_context().get_node_id() == broken:
                tempfile.mkdtemp(prefix="load", dir=loads)
                raise OSError("no weights on this node")
            super().__init__(*given)

        def extract(self, slide: Path) -> Extracted:
            end = time.monotonic() + 60
            while not list(loads.iterdir()) and time.monotonic() < end:  # lest the other come too late
                time.sleep(0.05)
            time.sleep(1)
            return super().extract(slide)

    loads = tmp_path / "loads"
    loads.mkdir()
    monkeypatch.setattr(on_ray, "_Extractor", Picky)
    monkeypatch.setattr(on_ray, "FALSE_STARTS", 1)
    found = list(extract_on_ray(list(slides.values()), tmp_path, {"name": str(script)}, SETTINGS))
    assert [one.status for one in found] == ["done"] * 3
    assert len(list(loads.iterdir())) == 1  # and is left alone


def test_a_node_has_no_more_actors_than_its_memory_holds(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Heavy(on_ray._Extractor):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            pass

        def ready(self) -> float:
            return 2.5e9

    monkeypatch.setattr(on_ray, "_Extractor", Heavy)
    node = cluster.add_node(num_cpus=4, memory=int(6e9))
    free = ray.cluster_resources()["memory"]
    crew = on_ray._Crew(tmp_path, {}, SETTINGS)
    try:
        crew.hire(9)
        assert sorted(Counter(worker.node for worker in crew._staff()).values()) == [1, 1]  # one ahead on each
        end = time.monotonic() + 120
        while len(crew._idle) < 3 and time.monotonic() < end:
            list(crew.news())
            crew.hire(9)
        crew.hire(9)
        there = [worker for worker in crew._staff() if worker.node == node.node_id]
        assert len(there) == 2  # four CPUs, and memory for two
        asked = 2 * on_ray.FIRST + 2.5e9
        while ray.available_resources()["memory"] != free - asked and time.monotonic() < end:  # told now and then
            time.sleep(0.2)
        assert ray.available_resources()["memory"] == free - asked  # Ray knows, and gives it to nobody else
    finally:
        crew.dismiss()
        cluster.remove_node(node)


def test_a_node_that_others_use_is_not_waited_for(
    cluster: Any, second: Any, slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        def here(self) -> None:
            pass

    first = min(on_ray.alive())
    where = NodeAffinitySchedulingStrategy(first, soft=False)
    other = ray.remote(num_cpus=1)(Other).options(scheduling_strategy=where).remote()
    ray.get(other.here.remote())
    monkeypatch.setattr(on_ray, "YOUNG", 1.0)
    [found] = extract_on_ray([slides["0001"]], tmp_path, {"name": str(script)}, SETTINGS)
    assert found.status == "done"
    ray.kill(other)


def test_loads_that_fail_now_and_then_retire_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a run of days, of many loads on one node every third does."""
    answers = iter([False, False, True] * 5 + [False] * on_ray.FALSE_STARTS)

    def get(ref: object) -> float:
        if next(answers):
            return 2e9
        raise ray.exceptions.ActorDiedError

    fake = SimpleNamespace(
        remote=lambda **given: lambda kind: kind,
        cluster_resources=dict,
        nodes=lambda: [{"NodeID": "one", "Alive": True, "Resources": {"CPU": 1, "memory": 8e9}}],
        exceptions=ray.exceptions,
        get=get,
    )
    monkeypatch.setattr(on_ray, "get_ray", lambda: fake)
    crew = on_ray._Crew(tmp_path, {}, SETTINGS)
    started: list[str] = []
    monkeypatch.setattr(crew, "_start", lambda node, have: started.append(node))

    def load() -> None:
        crew._idle.clear()
        crew.hire(1)
        crew._starting["ref"] = on_ray.Worker(None, started[-1], 0.0)
        crew._started("ref")

    for _ in range(15 + on_ray.FALSE_STARTS):
        load()
    with pytest.raises(SlideError, match="could not be loaded on any node"):
        load()
    assert len(started) == 15 + on_ray.FALSE_STARTS


def test_a_node_with_another_release_gets_no_slides(
    cluster: Any, slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "release", lambda: "jigsawmil 99")
    monkeypatch.setattr(on_ray, "FALSE_STARTS", 1)
    with pytest.raises(SlideError, match=r"on any node: .* has jigsawmil .*; the driver has jigsawmil 99"):
        list(extract_on_ray(list(slides.values()), tmp_path, {"name": str(script)}, SETTINGS))


def test_what_is_wrong_on_every_node_is_told_once(
    cluster: Any, slides: dict[str, Path], script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [slides["0001"]]
    [unseen] = extract_on_ray(files, tmp_path / "nowhere", {"name": str(script)}, SETTINGS)
    assert "storage that all nodes share" in str(unseen.error)
    monkeypatch.setattr(on_ray, "FALSE_STARTS", 1)
    with pytest.raises(SlideError, match=r"on any node: .*none\.pt: no such file; expected an encoder"):
        list(extract_on_ray(files, tmp_path, {"name": str(tmp_path / "none.pt")}, SETTINGS))
    monkeypatch.setattr(on_ray, "PATIENCE", 1.0)
    with pytest.raises(SlideError, match="no node of the cluster has the 2 CPUs"):
        list(extract_on_ray(files, tmp_path, {"name": str(script)}, replace(SETTINGS, workers=2)))
    for device, words in (("cuda", "the cluster has no GPU"), ("cuda:1", "expected one of auto, cpu, cuda")):
        with pytest.raises(ConfigError, match=words):
            list(extract_on_ray(files, tmp_path, {"name": str(script)}, replace(SETTINGS, device=device)))


def test_actors_are_counted_by_what_fits_on_each_node() -> None:
    large = {"memory": 64e9}
    assert [room({"CPU": cpus, **large}, 2, gpu=False, memory=3e9) for cpus in (1, 2, 5)] == [0, 1, 2]
    assert room({}, 1, gpu=False, memory=3e9) == 0
    assert room({"CPU": 16, "GPU": 4, **large}, 1, gpu=True, memory=3e9) == 4
    assert room({"CPU": 2, "GPU": 4, **large}, 1, gpu=True, memory=3e9) == 2
    assert room({"CPU": 16, **large}, 1, gpu=True, memory=3e9) == 0
    # as many as its memory holds; one goes ahead to tell, and one always works
    assert [room({"CPU": 64, **large}, 1, gpu=False, memory=each) for each in (0, 3e9, 99e9)] == [1, 21, 1]
