"""Whether maps can be trusted, in words."""

from collections.abc import Sequence

from ..maps.faithfulness import LEAST, Gain, Verdict
from ..maps.patch_maps import NO_EVIDENCE

NAMES = {"evidence": "contribution (evidence)"}
RULE = (
    "A map is trusted to show what the model uses if, compared with random patches, the prediction falls sooner when "
    "the patches it marks are removed (deletion) and recovers sooner from them alone (insertion): both gains have 95 % "
    f"intervals above 0, and are at least {LEAST:g}."
)


def trust_sentence(verdicts: Sequence[Verdict]) -> str:
    """Whether each map of a model can be trusted, with the figures that say so; `RULE` is the reason."""
    missing = [] if any(verdict.ranking == "evidence" for verdict in verdicts) else [NO_EVIDENCE]
    return " ".join([*map(_sentence, verdicts), *missing])


def _sentence(verdict: Verdict) -> str:
    name = NAMES.get(verdict.ranking, verdict.ranking)
    if verdict.slides < 2:
        return f"The {name} map was tested on one slide only, which allows no conclusion about the model."
    words = "can be trusted" if verdict.trusted else "is not shown to be trustworthy"
    if verdict.misleads:  # significantly worse than random patches
        words = "misleads about this model"
    figures = f"deletion {_stated(verdict.deletion)}; insertion {_stated(verdict.insertion)}; {verdict.slides} slides"
    return f"The {name} map {words} ({figures})."


def _stated(gain: Gain) -> str:
    areas = f"area {gain.area:.3f}, random {gain.random:.3f}"
    return f"{areas}, gain {gain.gain:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
