"""Whether maps can be trusted, in words."""

import pytest

from jigsawmil.maps.faithfulness import Gain, Verdict
from jigsawmil.maps.patch_maps import NO_EVIDENCE
from jigsawmil.report.trust import trust_sentence


def gain(low: float) -> Gain:
    return Gain(area=0.4, random=0.6, gain=0.2, low=low, high=low + 0.3)


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
    assert "[+0.10, +0.40]" in sentence or verdict.deletion.low < 0


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
