"""Convolutions, poolings and jigsaw tasks against their equations."""

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch, position_bins
from jigsawmil.nn.convs import GAT, GCN, GIN, SAGE
from jigsawmil.nn.encoder import elu
from jigsawmil.nn.model import build_model
from jigsawmil.nn.pooling import AttentionPool, Enrichment, MeanPool


@pytest.fixture(scope="module")
def batch() -> Batch:
    g = torch.Generator().manual_seed(0)
    coords = torch.rand(40, 2, generator=g, dtype=torch.float64) * 10_000
    bag = Bag(slide_id="a", features=torch.randn(40, 6, generator=g), coords=coords)
    return Batch.of(bag, GraphConfig(k=5))


def dense(batch: Batch) -> torch.Tensor:
    graph = batch.graph
    matrix = torch.zeros(len(graph), len(graph), dtype=torch.float64)
    for j in range(len(graph)):
        neighbours, weight = graph.row(j)
        matrix[j, neighbours.long()] = weight.double()
    return matrix


def test_convolutions_equal_their_dense_equations(batch: Batch) -> None:
    x, w, graph = batch.features.double(), dense(batch), batch.graph
    torch.manual_seed(0)
    gat, gcn, sage, gin = (conv(6, 4).double() for conv in (GAT, GCN, SAGE, GIN))

    y = gat.project(x)
    e = torch.nn.functional.leaky_relu((y @ gat.receive[0])[:, None] + (y @ gat.send[0])[None], 0.2)
    alpha = w * e.exp()
    torch.testing.assert_close(gat(x, graph), alpha / alpha.sum(1, keepdim=True) @ y)

    d = w.sum(1).rsqrt()
    torch.testing.assert_close(gcn(x, graph), (d[:, None] * w * d) @ gcn.project(x) + gcn.bias)

    torch.testing.assert_close(sage(x, graph), sage.own(x) + w / w.sum(1, keepdim=True) @ sage.project(x))

    with torch.no_grad():
        gin.eps.fill_(0.3)
    others = w - torch.eye(len(w), dtype=w.dtype)
    inner = torch.relu((1.3 * x + others @ x) @ gin.project.weight.T + gin.bias)
    torch.testing.assert_close(gin(x, graph), gin.out(inner))


def test_elu_equals_torchs() -> None:
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(elu(x), torch.nn.functional.elu(x))
    assert torch.autograd.gradcheck(elu, (x[::7] + 0.01,))


@pytest.mark.parametrize("gated", [False, True])
def test_attention_pooling(gated: bool) -> None:
    torch.manual_seed(0)
    pool, h = AttentionPool(5, 3, gated), torch.randn(9, 5)
    z, a = pool(h, ((0, 4), (4, 9)))
    score = torch.tanh(pool.view(h))
    if gated:
        score = score * torch.sigmoid(pool.gate(h))
    score = (score @ pool.score.weight[0]).exp()
    expected = torch.cat([score[:4] / score[:4].sum(), score[4:] / score[4:].sum()])
    torch.testing.assert_close(a, expected)
    torch.testing.assert_close(z, torch.stack([expected[:4] @ h[:4], expected[4:] @ h[4:]]))


def test_mean_pooling() -> None:
    h = torch.arange(12.0).view(6, 2)
    z, a = MeanPool()(h, ((0, 2), (2, 6)))
    torch.testing.assert_close(z, torch.stack([h[:2].mean(0), h[2:].mean(0)]))
    torch.testing.assert_close(a, torch.tensor([0.5, 0.5, 0.25, 0.25, 0.25, 0.25]))


def slow_enrichment(a: torch.Tensor, x: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Patch by patch and pair by pair, as the docstring has it; a batch of one bag."""
    kinds = len(a)
    s = torch.cat(
        [((p - p.mean(0)) / (p.var(0, correction=0) + 1e-5).sqrt() @ a.T).softmax(1) for p in x.split(sizes(batch))]
    )
    mean, w = s.mean(0), dense(batch).fill_diagonal_(0)
    rows = []
    for own in range(kinds):
        for other in range(kinds):
            seen = [
                s[j, own] * ((w[j] @ s[:, other]) / w[j].sum() if w[j].any() else mean[other]) for j in range(len(s))
            ]
            rows.append(torch.log((sum(seen) / len(s) + 1e-3) / (mean[own] * mean[other] + 1e-3)))
    return torch.stack(rows)


def sizes(batch: Batch) -> list[int]:
    return [end - start for start, end in batch.slides]


def two_slides_and_a_lonely_patch() -> Batch:
    g = torch.Generator().manual_seed(3)
    bags = [
        Bag(slide_id=str(n), features=torch.randn(n, 5, generator=g), coords=torch.rand(n, 2, generator=g).double())
        for n in (14, 1, 9)
    ]
    return Batch.of(bags, GraphConfig(k=3)).as_one_bag()


def test_enrichment_equals_a_slow_loop_and_so_do_its_gradients() -> None:
    batch = two_slides_and_a_lonely_patch()
    module = Enrichment(5, 3).double()
    x = batch.features.double()
    with torch.no_grad():
        module.kind += 0.3 * torch.randn(3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(module(x, batch)[0], slow_enrichment(module.kind, x, batch))
    weight = torch.linspace(-1, 1, 9, dtype=torch.float64)
    (module(x, batch)[0] @ weight).backward()
    slow = module.kind.detach().clone().requires_grad_()
    (slow_enrichment(slow, x, batch) @ weight).backward()
    torch.testing.assert_close(module.kind.grad, slow.grad)
    inputs = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda features: module(features, batch), (inputs,))


def test_enrichment_of_known_types_is_observed_over_expected() -> None:
    """Types in two halves attract their own kind; the same types dealt out at random lie at chance."""
    side = 30
    cells = torch.cartesian_prod(torch.arange(side), torch.arange(side)).double()
    order = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
    kind = (cells[:, 0] >= side / 2).long()
    apart, mixed = (
        Batch.of(Bag(slide_id="a", features=torch.eye(2)[t], coords=cells), GraphConfig(k=8))
        for t in (kind, kind[order])
    )
    module = Enrichment(2, 2)
    same, other = module(apart.features, apart)[0, [0, 1]].tolist()
    assert same == pytest.approx(torch.tensor(2.0).log().item(), abs=0.1)  # P(same) is nearly 1 where 1/2 is expected
    assert other < -1
    assert module(mixed.features, mixed).abs().max() < 0.1


def test_enrichment_asks_for_neither_stain_nor_unit(batch: Batch) -> None:
    module, x = Enrichment(6, 4).double(), batch.features.double()
    stained = 1000 + 50 * x * torch.linspace(1, 3, 6, dtype=torch.float64)
    torch.testing.assert_close(module(stained, batch), module(x, batch), rtol=0, atol=1e-3)


def test_bins_fill_the_grid_and_the_last_edge_belongs_to_the_last_bin() -> None:
    corners = torch.tensor([[100.0, 50.0], [300.0, 50.0], [100.0, 1050.0], [300.0, 1050.0]])
    assert position_bins(corners, 10).tolist() == [0, 9, 90, 99]  # x is the column, y the row
    inner = torch.cat([corners, torch.tensor([[219.9, 50.0], [220.1, 50.0]])])
    assert position_bins(inner, 10)[-2:].tolist() == [5, 6]
    assert position_bins(torch.tensor([[5.0, 5.0]]), 10).tolist() == [0]
    assert position_bins(torch.tensor([[0.0, 5.0], [9.0, 5.0]]), 3).tolist() == [0, 2]


def test_position_loss_asks_the_stated_share_and_draws_anew(batch: Batch) -> None:
    model = build_model("graph-abmil+jigsaw", 6, hidden=8, share=0.5)
    output, g = model(batch), torch.Generator().manual_seed(1)
    output.jigsaw_logits.retain_grad()
    first = model.jigsaw_loss(batch, output, g)
    first.sum().backward(retain_graph=True)
    asked = (output.jigsaw_logits.grad != 0).any(1)
    assert asked.sum() == 20
    expected = torch.nn.functional.cross_entropy(output.jigsaw_logits[asked], batch.bins[asked])
    torch.testing.assert_close(first[0], expected)
    assert model.jigsaw_loss(batch, output, g).item() != first.item()


def test_consistency_tells_real_from_imposter(batch: Batch) -> None:
    """A discriminator that is right of both has no loss; one that says 'half' has log 2."""
    model = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="consistency")
    torch.nn.init.zeros_(model.jigsaw.head.weight)
    torch.nn.init.zeros_(model.jigsaw.head.bias)
    g = torch.Generator().manual_seed(1)
    loss = model.jigsaw_loss(batch, model(batch), g)
    assert loss.item() == pytest.approx(torch.tensor(2.0).log().item())


def test_equivariance_is_free_without_neighbours_and_costs_with_them(batch: Batch) -> None:
    g = torch.Generator().manual_seed(1)
    flat = build_model("abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert flat.jigsaw_loss(batch, flat(batch), g).item() == pytest.approx(0, abs=1e-10)
    graph = build_model("graph-abmil+jigsaw", 6, hidden=8, jigsaw="equivariance")
    assert graph.jigsaw_loss(batch, graph(batch), g).item() > 1e-3
