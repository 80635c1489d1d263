"""Whether maps can be trusted, in words."""

from collections.abc import Sequence

from ..maps.faithfulness import Gain, Verdict
from ..maps.patch_maps import NO_EVIDENCE


def trust_sentence(verdicts: Sequence[Verdict]) -> str:
    """Whether each map of a model can be trusted, with the figures that say so."""
    missing = [] if any(verdict.ranking == "evidence" for verdict in verdicts) else [NO_EVIDENCE]
    return " ".join([*map(_sentence, verdicts), *missing])


def _sentence(verdict: Verdict) -> str:
    removed, given, name = verdict.deletion, verdict.insertion, verdict.ranking
    if verdict.slides < 2:
        return f"The {name} map was tried on one slide only, which says nothing about the model."
    if verdict.trusted:
        why = "without the patches it marks the prediction falls sooner, and on them alone it stands sooner,"
        words = f"The {name} map can be trusted to show what this model uses: {why}"
    else:
        failed = ["removing the patches it marks lowers the prediction sooner"] * (not removed.better)
        failed += ["the patches it marks alone make the prediction sooner"] * (not given.better)
        words = f"The {name} map is not shown to be right: it is open whether {', and whether '.join(failed)},"
        if min(removed.high, given.high) < 0:
            words = f"The {name} map misleads about this model: it is not so that {', or that '.join(failed)},"
    figures = f"deletion {_stated(removed)}; insertion {_stated(given)}; {verdict.slides} slides"
    return f"{words} than with random patches ({figures})."


def _stated(gain: Gain) -> str:
    areas = f"area {gain.area:.2f}, random {gain.random:.2f}"
    return f"{areas}, gain {gain.gain:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"
