"""What training leaves out at random: features, edges and patches; prediction leaves out nothing."""

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.encoder import drop_edges
from jigsawmil.nn.model import build_model
from jigsawmil.train.training import drop_patches

GRAPH = "graph-abmil+jigsaw"


def slide(name: str, n: int) -> Bag:
    g = torch.Generator().manual_seed(n)
    return Bag(slide_id=name, features=torch.randn(n, 6, generator=g), coords=torch.rand(n, 2, generator=g).double())


@pytest.mark.parametrize(
    ("method", "option"), [("abmil", "input_dropout"), (GRAPH, "input_dropout"), (GRAPH, "edge_dropout")]
)
def test_it_is_on_in_training_and_off_in_evaluation(batch: Batch, method: str, option: str) -> None:
    plain = build_model(method, 6, hidden=8, seed=3)
    model = build_model(method, 6, hidden=8, seed=3, **{option: 0.5})
    assert torch.equal(model.eval()(batch).logits, plain(batch).logits)
    model.train()
    torch.manual_seed(0)
    one, other = model(batch).hidden, model(batch).hidden
    assert not torch.equal(one, other)  # drawn again at each step
    torch.manual_seed(0)
    assert torch.equal(model(batch).hidden, one)


def test_input_dropout_zeroes_features_before_the_first_layer(batch: Batch) -> None:
    encoder = build_model("abmil", 6, hidden=8, input_dropout=0.5).encoder.train()
    seen: list[torch.Tensor] = []
    encoder.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    encoder(batch.features, batch)
    zero = seen[0] == 0
    assert 0.35 < zero.float().mean() < 0.65
    assert torch.allclose(seen[0][~zero], 2 * batch.features[~zero])


def test_an_edge_is_dropped_in_both_directions_and_self_loops_stay() -> None:
    graph = Batch.of(slide("a", 300), GraphConfig(k=20)).graph
    assert graph is not None
    torch.manual_seed(1)
    part = drop_edges(graph, 0.3)
    whole = {(j, int(other)) for j in range(300) for other in graph.row(j)[0]}
    kept = {(j, int(other)) for j in range(300) for other in part.row(j)[0]}
    assert kept < whole
    assert all((other, j) in kept for j, other in kept)
    assert all((j, j) in kept for j in range(300))
    assert (len(kept) - 300) / (len(whole) - 300) == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("graph", [GraphConfig(k=5), None])
def test_patches_are_dropped_slide_by_slide(graph: GraphConfig | None) -> None:
    bags = [slide("a", 40), slide("b", 1), slide("c", 21)]
    whole = Batch.of(bags, graph)
    torch.manual_seed(0)
    part = drop_patches(whole, 0.25)
    assert [end - start for start, end in part.slides] == [30, 1, 16]
    assert part.slide_ptr == part.bag_ptr
    assert part.slide_ids == whole.slide_ids
    for bag, (start, end) in zip(bags, part.slides, strict=True):
        rows = part.order[start:end]
        assert len(set(rows.tolist())) == end - start
        assert torch.equal(part.features[start:end], bag.features[rows])
        assert torch.equal(part.coords[start:end], bag.coords[rows])
    if part.graph is not None:
        slide_of = torch.repeat_interleave(torch.arange(3), torch.tensor(part.slide_ptr).diff())
        assert torch.equal(slide_of[part.graph.rows], slide_of[part.graph.indices.long()])
        assert len(part.graph) == len(part.features)
    patient = drop_patches(whole.as_one_bag(), 0.25)
    assert patient.bag_ptr == (0, 47)


def test_the_model_trains_on_what_is_left(batch: Batch) -> None:
    model = build_model(GRAPH, 6, hidden=8).train()
    part = drop_patches(batch, 0.5)
    output = model(part)
    loss = output.logits.sum() + model.jigsaw_loss(part, output, torch.Generator().manual_seed(0)).sum()
    loss.backward()
    assert len(output.hidden) == 20
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
