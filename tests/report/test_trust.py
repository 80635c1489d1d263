"""Whether maps can be trusted, in words."""

import pytest

from jigsawmil.maps.faithfulness import Gain, Verdict
from jigsawmil.maps.patch_maps import NO_EVIDENCE
from jigsawmil.report.trust import trust_sentence


def gain(low: float) -> Gain:
    return Gain(area=0.4, random=0.6, gain=low + 0.15, low=low, high=low + 0.3)


@pytest.mark.parametrize(
    ("deletion", "insertion", "words"),
    [
        (0.1, 0.1, "The contribution (evidence) map can be trusted (deletion"),
        (-0.1, 0.1, "The contribution (evidence) map is not shown to be trustworthy (deletion"),
        (0.1, 0.0, "The contribution (evidence) map is not shown to be trustworthy (deletion"),
        (-0.9, 0.1, "The contribution (evidence) map misleads about this model (deletion"),
    ],
)
def test_the_sentence_follows_the_rule(deletion: float, insertion: float, words: str) -> None:
    verdict = Verdict(ranking="evidence", slides=12, deletion=gain(deletion), insertion=gain(insertion))
    sentence = trust_sentence([verdict])
    assert sentence.startswith(words)
    assert "12 slides" in sentence
    assert "[+0.100, +0.400]" in sentence or verdict.deletion.low < 0


def test_gains_that_no_figure_shows_allow_no_verdict() -> None:
    """Narrow intervals beside 0, as of a model that predicts the same whatever is taken away."""
    for sign in (1, -1):
        small = Gain(area=0.99, random=0.99, gain=sign * 0.002, low=sign * 0.002 - 1e-4, high=sign * 0.002 + 1e-4)
        verdict = Verdict(ranking="attention", slides=12, deletion=small, insertion=small)
        assert "map is not shown to be trustworthy" in trust_sentence([verdict])
        assert f"gain {sign * 0.002:+.3f}" in trust_sentence([verdict])


def test_one_slide_says_nothing() -> None:
    verdict = Verdict(ranking="evidence", slides=1, deletion=gain(0.1), insertion=gain(0.1))
    assert "one slide only" in trust_sentence([verdict])


def test_a_model_without_evidence_is_said_to_have_none() -> None:
    attention, evidence = (
        Verdict(ranking=ranking, slides=12, deletion=gain(0.1), insertion=gain(0.1))
        for ranking in ("attention", "evidence")
    )
    assert trust_sentence([attention]).endswith(NO_EVIDENCE)
    assert NO_EVIDENCE not in trust_sentence([attention, evidence])
