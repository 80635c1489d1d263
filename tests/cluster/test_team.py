"""A batch shared out among processes."""

import pytest
import torch
import torch.distributed as dist

from jigsawmil.cluster.team import Team, skip_draws
from jigsawmil.train.sharing import ALONE


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_shares_are_whole_disjoint_in_order_and_even(size: int, count: int) -> None:
    shares = [Team(rank, size).share(range(count)) for rank in range(size)]
    assert [item for share in shares for item in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_draws_of_other_slides_are_thrown_away() -> None:
    one, two = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    whole = [torch.randperm(n, generator=one) for n in (5, 1, 40000, 8)]
    skip_draws([5, 1], two)
    assert torch.equal(torch.randperm(40000, generator=two), whole[2])
    skip_draws([8], two)
    assert one.get_state().equal(two.get_state())


def test_alone_nothing_is_exchanged() -> None:
    own = torch.arange(3.0)
    assert ALONE.gather(own, 3) is own
    assert list(ALONE.share(range(3))) == [0, 1, 2]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_process_without_rows_exchanges_the_type_of_one_with_rows(kind: torch.dtype, monkeypatch) -> None:
    """Autocast's types are known only where there are rows; gloo ends the process where types differ."""
    sent: list[torch.Tensor] = []
    monkeypatch.setattr(dist, "all_reduce", sent.append)
    full = torch.promote_types(kind, torch.float32)
    own = torch.tensor([0.1, 3.0]).to(kind)
    rows = Team(0, 2).exchange(own, 0, 2)
    Team(1, 2).exchange(torch.zeros(0, dtype=full), 2, 2)
    assert [one.dtype for one in sent] == [full, full]
    assert torch.equal(rows, own.to(full))
