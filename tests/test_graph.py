"""The spatial graph: what is joined, how strongly, and what must not matter."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from jigsawmil import graph as module
from jigsawmil.bags.bag import Bag
from jigsawmil.errors import ConfigError, FeatureError
from jigsawmil.graph import GraphConfig, SpatialGraph, build_graph, knn_graph, most_ties, radius_graph, spatial_order
from jigsawmil.nn.batch import Batch


def lattice(width: int, height: int, step: float = 512.0) -> torch.Tensor:
    x, y = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1).double() * step


def blob(n: int, seed: int) -> torch.Tensor:
    return torch.rand(n, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 50_000


def dense(graph: SpatialGraph) -> torch.Tensor:
    matrix = torch.zeros(len(graph), len(graph))
    for j in range(len(graph)):
        neighbours, weight = graph.row(j)
        matrix[j, neighbours.long()] = weight
    return matrix


def slow_knn(coords: torch.Tensor, k: int, normalise: str = "aspect", ties: str = "all") -> torch.Tensor:
    """The definition, from the full distance matrix."""
    c = coords - coords.min(0).values
    extent = c.max(0).values if normalise == "per-axis" else c.max().expand(2)
    c = c / torch.where(extent > 0, extent, 1.0)
    d = torch.cdist(c, c, compute_mode="donot_use_mm_for_euclid_dist")
    n = len(c)
    radius = d.sort(1).values[:, min(k, n - 1)] * (1 + 1e-4)
    near = d <= radius[:, None]
    if ties == "exact":
        down = sorted(range(n), key=lambda j: (c[j, 1].item(), c[j, 0].item()))  # top-down, left to right
        for j in range(n):
            nearer = [m for m in down if d[j, m] * (1 + 1e-4) < radius[j] / (1 + 1e-4) and m != j]
            tied = [m for m in down if near[j, m] and m != j and m not in nearer]
            near[j] = False
            near[j, [j, *nearer, *tied][: k + 1]] = True
    near = near | near.T
    sigma = d[near].max()
    weight = torch.exp(-((d / sigma) ** 2)) if sigma > 0 else torch.ones_like(d)
    return torch.where(near, weight, 0.0).float()


CASES = {
    "random": (blob(200, 0), 7),
    "lattice": (lattice(12, 9), 50),
    "lattice, k = 4": (lattice(12, 9), 4),
    "one patch": (torch.tensor([[1024.0, 512.0]]), 50),
    "two patches": (torch.tensor([[0.0, 0.0], [512.0, 0.0]]), 50),
    "N = k": (blob(50, 1), 50),
    "N = k + 1": (blob(51, 2), 50),
    "N = k + 2": (blob(52, 3), 50),
    "collinear": (lattice(80, 1), 5),
    "duplicates": (torch.cat([blob(60, 4), blob(60, 4)]), 6),
    "all at one place": (torch.zeros(9, 2), 3),
}


@pytest.mark.parametrize("ties", ["all", "exact"])
@pytest.mark.parametrize("normalise", ["aspect", "per-axis"])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_definition(name: str, normalise: str, ties: str) -> None:
    coords, k = CASES[name]
    graph = knn_graph(coords, k, normalise=normalise, ties=ties)
    torch.testing.assert_close(dense(graph), slow_knn(coords.double(), k, normalise, ties), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_structure_is_symmetric_sorted_and_reversible(name: str) -> None:
    coords, k = CASES[name]
    graph = knn_graph(coords, k)
    row = torch.repeat_interleave(torch.arange(len(graph)), graph.indptr.diff())
    column, reverse = graph.indices.long(), graph.reverse.long()
    assert torch.equal(row[reverse], column)
    assert torch.equal(column[reverse], row)
    assert torch.equal(graph.weight[reverse], graph.weight)
    assert (graph.weight[row == column] == 1).all()
    assert (row == column).sum() == len(graph)
    inside = row[1:] == row[:-1]
    assert (column.diff()[inside] > 0).all()


@pytest.mark.parametrize("name", CASES)
def test_order_of_patches_in_the_file_does_not_matter(name: str) -> None:
    coords, k = CASES[name]
    order = torch.randperm(len(coords), generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(dense(knn_graph(coords[order], k)), dense(knn_graph(coords, k))[order][:, order])


@pytest.mark.parametrize("move", [lambda c: c + 7777, lambda c: c * 0.2527, lambda c: c.float().mul(0.2527).double()])
def test_translation_and_uniform_scale_do_not_matter(move) -> None:
    """Scaling in float32 is what STAMP's microns have gone through: ties must survive it."""
    for coords in (lattice(30, 25), blob(300, 6)):
        a, b = knn_graph(coords), knn_graph(move(coords))
        assert torch.equal(a.indices, b.indices)
        torch.testing.assert_close(a.weight, b.weight, rtol=1e-4, atol=1e-5)


def test_as_many_threads_as_torch_has_and_the_same_bits_on_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Tree(module.cKDTree):
        def query(self, *args: Any, workers: int = 1, **options: Any) -> Any:
            asked.append(workers)
            return super().query(*args, workers=workers, **options)

    monkeypatch.setattr(module, "cKDTree", Tree)
    coords, before, graphs = torch.cat([lattice(40, 30), blob(200, 7)]), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            graphs.append(knn_graph(coords, k=3))
    finally:
        torch.set_num_threads(before)
    assert set(asked[: len(asked) // 2]) == {1}
    assert set(asked[len(asked) // 2 :]) == {3}
    for field in dataclasses.fields(SpatialGraph):
        assert torch.equal(getattr(graphs[0], field.name), getattr(graphs[1], field.name))


def test_ties_are_all_taken() -> None:
    """An inner patch of a lattice has 4, 8, 12, 20 ... patches at or below each distance; k = 50 means 56."""
    graph = knn_graph(lattice(30, 30), k=50)
    inner = 15 * 30 + 15
    assert len(graph.row(inner)[0]) == 57  # 56 and itself
    assert len(knn_graph(lattice(30, 30), k=3).row(inner)[0]) == 5


def test_exact_ties_name_k_patches_from_top_to_bottom_and_left_to_right() -> None:
    """The paper's order of vertices. On a lattice k = 3 of the four nearest are: above, left, right; not below."""
    width, height = 30, 20
    graph = knn_graph(lattice(width, height), k=3, ties="exact")
    at = lambda x, y: x * height + y  # noqa: E731
    neighbours = set(graph.row(at(15, 10))[0].tolist())
    named = {at(15, 10), at(15, 9), at(14, 10), at(16, 10)}
    assert neighbours == named | {at(15, 11)}  # the one below names this patch as the one above it
    order = torch.randperm(width * height, generator=torch.Generator().manual_seed(0))
    moved = knn_graph(lattice(width, height)[order], k=3, ties="exact")
    torch.testing.assert_close(dense(moved), dense(graph)[order][:, order])
    few, many = (knn_graph(lattice(width, height), k=50, ties=ties).edges for ties in ("exact", "all"))
    assert few < many


def test_normalisation_per_axis_sees_a_stretched_slide_as_the_same() -> None:
    """With the aspect kept it is another graph: neighbours lie along the short axis."""
    coords = blob(150, 3)
    stretched = coords * torch.tensor([5.0, 1.0], dtype=torch.float64)
    same, other = (
        [dense(knn_graph(c, k=6, normalise=how)) for c in (coords, stretched)] for how in ("per-axis", "aspect")
    )
    torch.testing.assert_close(*same, rtol=1e-4, atol=1e-6)
    assert not torch.equal(other[0] > 0, other[1] > 0)


def test_sigma_readings() -> None:
    coords = lattice(40, 20)
    span = 39.0  # steps; the longer side
    text = knn_graph(coords, k=50)
    assert text.weight.min().item() == pytest.approx(np.exp(-1), rel=1e-4)
    appendix = knn_graph(coords, k=50, sigma="max-nearest")  # sigma^2 = 1 / span
    neighbours, weight = appendix.row(20 * 20 + 10)
    step = weight[(neighbours == 20 * 20 + 11)].item()
    assert step == pytest.approx(np.exp(-((1 / span) ** 2) / (1 / span)), rel=1e-4)
    squared = knn_graph(coords, k=50, sigma="max-knn-squared")  # sigma^2 = the largest distance d, so w >= exp(-d)
    farthest = float((-text.weight.log()).max().sqrt())  # in units of sigma: 1
    assert farthest == pytest.approx(1, rel=1e-4)
    row = torch.repeat_interleave(torch.arange(len(squared)), squared.indptr.diff())
    d = (coords[row] - coords[squared.indices.long()]).norm(dim=1) / 512 / span
    torch.testing.assert_close(squared.weight, torch.exp(-(d**2) / d.max()).float(), rtol=1e-4, atol=1e-6)
    number = knn_graph(coords, k=50, sigma=1 / span)
    assert number.row(20 * 20 + 10)[1].sort().values[-2].item() == pytest.approx(np.exp(-1), rel=1e-4)


def test_radius_graphs_of_two_magnifications_agree() -> None:
    steps = lattice(20, 20, step=1.0)
    at_20x = Bag(slide_id="a", features=torch.zeros(400, 1), coords=steps * 256, mpp=0.5)
    at_40x = Bag(slide_id="a", features=torch.zeros(400, 1), coords=steps * 512, mpp=0.25)
    microns = Bag(slide_id="a", features=torch.zeros(400, 1), coords=steps * 128, unit="um")
    config = GraphConfig(kind="radius", radius=400)
    graphs = [build_graph(bag, config) for bag in (at_20x, at_40x, microns)]
    for graph in graphs[1:]:
        for field in dataclasses.fields(SpatialGraph):
            assert torch.equal(getattr(graph, field.name), getattr(graphs[0], field.name))
    d = torch.cdist(steps * 128, steps * 128)
    expected = torch.where(d <= 400, torch.exp(-((d / 400) ** 2)), 0.0).float()
    torch.testing.assert_close(dense(graphs[0]), expected)
    assert torch.equal(graphs[0].weight[graphs[0].reverse.long()], graphs[0].weight)


def test_a_patch_beyond_the_radius_keeps_itself() -> None:
    graph = radius_graph(torch.tensor([[0.0, 0.0], [1000.0, 0.0]]), 500)
    assert torch.equal(dense(graph), torch.eye(2))


def test_radius_without_resolution_is_refused() -> None:
    bag = Bag(slide_id="007", features=torch.zeros(2, 1), coords=torch.zeros(2, 2))
    with pytest.raises(FeatureError, match=r"007.*mpp="):
        build_graph(bag, GraphConfig(kind="radius"))


def test_thousands_of_patches_at_one_place_are_refused_and_the_slide_is_named() -> None:
    with pytest.raises(FeatureError, match="share one position"):
        knn_graph(torch.zeros(5000, 2), k=8)
    bag = Bag(slide_id="007", features=torch.zeros(5000, 1), coords=torch.zeros(5000, 2))
    with pytest.raises(FeatureError, match=r"^007: a patch has more than"):
        build_graph(bag, GraphConfig())
    with pytest.raises(FeatureError, match=r"^007: coords hold NaN"):
        Batch.of(replace(bag, coords=torch.full((5000, 2), torch.nan)))


@pytest.mark.parametrize("k", [3, 8, 50])
def test_more_patches_at_one_place_than_stated_are_always_refused(k: int) -> None:
    coords = torch.cat([torch.zeros(most_ties(k), 2), lattice(20, 20) + 1e6])
    assert len(knn_graph(coords, k=k)) == len(coords)
    with pytest.raises(FeatureError, match="share one position"):
        knn_graph(torch.cat([coords, torch.zeros(1, 2)]), k=k)


@pytest.mark.parametrize("coords", [torch.zeros(0, 2), torch.zeros(4, 3), torch.tensor([[0.0, float("nan")]])])
def test_impossible_coordinates_are_refused(coords: torch.Tensor) -> None:
    with pytest.raises(FeatureError, match="expected"):
        knn_graph(coords)


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("sigma", -1.0), ("sigma", "max-nn"), ("kind", "kn")])
def test_impossible_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=str(value)):
        GraphConfig(**{name: value})  # type: ignore[arg-type]


def test_spatial_order_keeps_neighbours_together_and_ignores_the_file() -> None:
    coords = lattice(32, 32)
    shuffled = coords[torch.randperm(len(coords), generator=torch.Generator().manual_seed(7))]
    walk = shuffled[spatial_order(shuffled)]
    assert torch.equal(walk, coords[spatial_order(coords)])
    steps = walk.diff(dim=0).norm(dim=1) / 512
    assert steps.median() == 1
    assert steps.mean() < 1.5  # a raster walk of a square has 1 as well, a random one 16


# --- parts of a graph


def check_reverse(graph: SpatialGraph) -> None:
    rows, reverse = graph.rows, graph.reverse.long()
    assert torch.equal(graph.indices[reverse].long(), rows)
    assert torch.equal(rows[reverse], graph.indices.long())


def test_some_patches_keep_the_edges_between_them() -> None:
    graph = knn_graph(blob(60, seed=1), k=6)
    keep = torch.rand(60, generator=torch.Generator().manual_seed(2)) < 0.5
    part = graph.keep_patches(keep)
    assert torch.equal(dense(part), dense(graph)[keep][:, keep])
    check_reverse(part)
    assert {part.indptr.dtype, part.indices.dtype, part.reverse.dtype} == {torch.int32}


def test_some_edges_keep_all_patches() -> None:
    graph = knn_graph(blob(60, seed=1), k=6)
    near = (graph.weight > 0.6) | (graph.rows == graph.indices)  # the same in both directions
    part = graph.keep_edges(near)
    expected = dense(graph)
    assert torch.equal(dense(part), torch.where(expected > 0.6, expected, 0.0))
    assert graph.edges > part.edges > len(part) == 60
    check_reverse(part)


@pytest.mark.parametrize("far", [1e13, 1e155, 1e160, 1e250])
def test_coordinates_beyond_any_slide_are_refused_before_the_kd_tree(far: float) -> None:
    """Squares of such distances are infinite, the tree names a patch that is none, and kernels would write there."""
    coords = torch.rand(40, 2, dtype=torch.float64) * 1000
    coords[7, 1] = -far
    for make in (lambda: knn_graph(coords, 8), lambda: radius_graph(coords, 50.0), lambda: spatial_order(coords)):
        with pytest.raises(FeatureError, match="expected positions of at most 1e"):
            make()
    with pytest.raises(FeatureError, match=r"far: a coordinate of .*expected level-0 pixels or microns"):
        Bag(slide_id="far", features=torch.rand(40, 3), coords=coords)


@pytest.mark.parametrize("field", ["indptr", "indices", "reverse"])
@pytest.mark.parametrize("wrong", [-1, 10_000])
def test_no_graph_leads_a_kernel_out_of_its_arrays(field: str, wrong: int) -> None:
    graph = knn_graph(torch.rand(30, 2, dtype=torch.float64), 4)
    values = getattr(graph, field).clone()
    values[3] = wrong
    with pytest.raises(FeatureError, match="are out of range"):
        dataclasses.replace(graph, **{field: values})
