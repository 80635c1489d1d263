"""The benchmark compares what it says it compares, and its verdicts follow from its medians."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

contenders: Any = importlib.import_module("benchmarks.speed.contenders")
step: Any = importlib.import_module("benchmarks.speed.step")

N = 120
BARE = (contenders.GRAPH, contenders.QUERY, contenders.BARE, f"{contenders.BARE}, {contenders.AUTO}")
TRAINING = [name for name in contenders.CONTENDERS if name not in BARE]


def contender(name: str):
    found = contenders.CONTENDERS[name]
    pytest.importorskip(found.needs, reason=f"{name} needs {found.needs}: pip install 'jigsawmil[bench]'")
    return found


def losses(name: str, steps: int = 5) -> list[float]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        take = contender(name).build()
        loaded = contender(name).load(contenders.tissue_slide(N))
        return [take(loaded) for _ in range(steps)]


def edges_of(graph) -> set[tuple[int, int]]:
    return {(j, int(other)) for j in range(len(graph)) for other in graph.row(j)[0]}


@pytest.mark.parametrize("name", TRAINING)
def test_every_step_trains(name: str) -> None:
    found = losses(name)
    assert found[-1] < found[0]


def test_torchmil_abmil_is_our_abmil() -> None:
    np.testing.assert_allclose(losses("abmil"), losses(contenders.ABMIL), rtol=1e-5)


def test_pyg_gets_our_edges() -> None:
    bag = contenders.tissue_slide(N)
    graph = contenders.Batch.of(bag).graph
    _, edges = contenders.load_pyg(bag)
    assert set(map(tuple, edges.T.tolist())) == edges_of(graph)
    assert edges.shape[1] == graph.edges


def test_patch_gcn_gets_our_edges_normalised_without_self_loops() -> None:
    bag = contenders.tissue_slide(N)
    graph = contenders.Batch.of(bag).graph
    _, adj = contenders.load_patch_gcn(bag)
    dense = adj.to_dense()[0].double()
    torch.testing.assert_close(dense, dense.T)
    assert set(map(tuple, dense.nonzero().tolist())) == {(j, i) for j, i in edges_of(graph) if i != j}
    assert torch.linalg.eigvalsh(dense)[-1] == pytest.approx(1, abs=1e-6)  # of D^-1/2 A D^-1/2


def test_slide_is_ragged_tissue_in_random_order() -> None:
    cells = (contenders.tissue_slide(1000).coords / contenders.PATCH).numpy()
    assert len(np.unique(cells, axis=0)) == 1000
    assert (cells == np.round(cells)).all()
    assert 1000 / np.prod(np.ptp(cells, axis=0) + 1) < 0.9  # a rectangle would fill its box
    near = np.abs(np.diff(cells, axis=0)).max(axis=1) <= 1
    assert near.mean() < 0.1  # a raster scan has nearly all of its successors beside it


def results(ours: list[float], theirs: list[float], n: int = 3_278) -> Any:
    return {n: {contenders.OURS: step.Result(steps=ours), contenders.PYG: step.Result(steps=theirs)}}


def row(judged: list[Any], what: str, n: int) -> Any:
    return next(found for found in judged if what in found.what and found.n == n)


def test_ratios_are_of_medians_and_judged_at_the_bound() -> None:
    what = f"{contenders.PYG} step"
    reached = row(step.judge(results([1, 2, 900], [24, 0, 30])), what, 3_278)  # means would give 0.06
    assert (reached.value, reached.met) == (12, True)
    missed = row(step.judge(results([2, 2, 2], [23.9, 23.9])), what, 3_278)
    assert (missed.value, missed.met) == (pytest.approx(11.95), False)


def test_another_size_is_shown_and_not_judged() -> None:
    found = row(step.judge(results([1], [1], n=500)), f"{contenders.PYG} step", 500)
    assert (found.value, found.met, found.target) == (1, None, "")


def test_memory_is_judged_in_ratio_and_in_gigabytes() -> None:
    of = {contenders.OURS: step.Result(growth=120), contenders.PYG: step.Result(growth=1000)}
    alone = {contenders.TRAIN: step.Result(peak=2_000_000_000)}
    judged = step.judge({12_050: of, 50_000: alone})
    assert row(judged, "memory growth", 12_050).met is True
    assert row(judged, "training", 50_000).met is False  # below 2 GB is asked
    assert row(judged, "prediction", 200_000).value is None


def test_what_was_skipped_is_said_and_never_counts_as_met() -> None:
    found = results([1], [])
    found[3_278][contenders.PYG] = step.Result(skipped="too large by far")
    judged = step.judge(found)
    assert row(judged, f"{contenders.PYG} step", 3_278).met is None
    text = step.markdown(found, judged)
    assert "too large by far" in text
    assert "not measured (>= 12)" in text


def test_a_contender_that_cannot_run_is_named_with_its_reason(monkeypatch) -> None:
    for name, needs in (("large", "jigsawmil"), ("absent", "no_such_package")):
        monkeypatch.setitem(contenders.CONTENDERS, name, contenders.Contender("", None, None, kb=400, needs=needs))
    assert step.obstacle("large", 1_000, 9, 20e9) is None
    assert "needs about 20.0 GB" in step.obstacle("large", 50_000, 9, 20e9)
    assert "no_such_package is not installed" in step.obstacle("absent", 10, 1, 20e9)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured through /proc")
@pytest.mark.parametrize("resettable", [True, False])
def test_peak_memory_sees_what_was_taken_and_given_back(resettable: bool, monkeypatch, tmp_path: Path) -> None:
    if not resettable:
        monkeypatch.setattr(contenders, "CLEAR_REFS", tmp_path / "absent" / "clear_refs")
    memory = contenders.Memory()
    taken = np.ones(50_000_000)  # 400 MB
    if not resettable:
        memory._stop.wait(0.1)
    del taken
    found = memory.read()
    assert 390e6 < found["growth"] < 500e6
    assert found["peak"] >= found["growth"]


def test_a_worker_says_why_it_ended() -> None:
    worker = step.Worker("nobody", N)
    try:
        with pytest.raises(step.WorkerError, match="nobody"):
            worker.answer(60)
    finally:
        worker.close()


def test_a_worker_that_takes_too_long_is_given_up() -> None:
    worker = step.Worker(contenders.QUERY, N)
    try:
        with pytest.raises(step.WorkerError, match=r"within 0\.01 s"):
            worker.answer(0.01)
    finally:
        worker.close()
    worker.close()  # a second time does no harm


def test_a_run_from_end_to_end(monkeypatch, tmp_path: Path, capsys) -> None:
    absent = contenders.Contender("", None, None, kb=0, needs="no_such_package")
    failing = contenders.Contender("", None, None, kb=0)  # its process does not know it
    chosen = {name: contenders.CONTENDERS[name] for name in (contenders.GRAPH, contenders.QUERY)}
    monkeypatch.setattr(step, "CONTENDERS", {**chosen, "absent": absent, "failing": failing})
    out = tmp_path / "new" / "figures.json"
    step.main(["--sizes", str(N), "--rounds", "3", "--out", str(out)])
    found = json.loads(out.read_text())
    at = found["sizes"][str(N)]
    for name in chosen:
        assert len(at[name]["steps"]) == 3
        assert at[name]["median"] == np.median(at[name]["steps"])
    assert "no_such_package" in at["absent"]["skipped"]
    assert "KeyError: 'failing'" in at["failing"]["skipped"]
    ratio = next(row for row in found["targets"] if row["n"] == N and contenders.GRAPH in row["what"])
    assert ratio["value"] == at[contenders.GRAPH]["median"] / at[contenders.QUERY]["median"]
    assert {"commit", "dirty", "machine", "versions"} <= found.keys()
    assert list(out.parent.iterdir()) == [out]
    assert "| knn_graph / bare cKDTree query |" in capsys.readouterr().out
