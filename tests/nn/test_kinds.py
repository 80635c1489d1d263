"""Co-occurrence of kinds against a slow loop."""

import pytest
import torch

from jigsawmil.bags.bag import Bag
from jigsawmil.graph import GraphConfig
from jigsawmil.nn.batch import Batch
from jigsawmil.nn.kinds import Enrichment

from .conftest import dense


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
