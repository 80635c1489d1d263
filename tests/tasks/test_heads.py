"""Heads against their likelihoods."""

import torch

from jigsawmil.tasks.heads import BinaryHead, MulticlassHead, OrdinalHead


def test_heads_give_probabilities_and_their_log_likelihood() -> None:
    torch.manual_seed(0)
    z = torch.randn(7, 5)
    for head, labels in (
        (BinaryHead(5, 1), torch.tensor([0, 1, 1, 0, 1, 0, 0])),
        (MulticlassHead(5, 4), torch.tensor([0, 3, 1, 2, 1, 0, 3])),
    ):
        p = head.probabilities(head(z))
        torch.testing.assert_close(p.sum(1), torch.ones(7))
        torch.testing.assert_close(head.loss(head(z), labels), -p[torch.arange(7), labels].log())


def test_ordinal_head_is_ordered_and_learns_grades() -> None:
    """Grades that rise along one direction are learnt in order; probabilities are never negative."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(400, 3, generator=g)
    grade = torch.bucketize(z[:, 0].contiguous(), torch.tensor([-1.0, -0.3, 0.3, 1.0]))  # 0..4
    torch.manual_seed(0)
    head = OrdinalHead(3, 4)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        head.loss(head(z), grade).mean().backward()
        optimiser.step()
    p = head.probabilities(head(z))
    assert (p >= 0).all()
    torch.testing.assert_close(p.sum(1), torch.ones(400))
    expected = p @ torch.arange(5.0)
    assert torch.corrcoef(torch.stack([expected, grade.float()]))[0, 1] > 0.95
    assert (p.argmax(1) == grade).float().mean() > 0.85
