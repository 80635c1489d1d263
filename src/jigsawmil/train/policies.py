"""Rules for lambda, the weight of the jigsaw: Loss = MIL + lambda * jigsaw.

What each rule implies, and what was measured, is in docs/lambda.md and docs/results.md. A new rule is a class like
those below, in `POLICIES` under the name by which people choose it.
"""

import math
from typing import TYPE_CHECKING, ClassVar

from ..config import choose, require
from ..registry import Registry

if TYPE_CHECKING:
    from .config import LambdaConfig


class Policy:
    """A rule for lambda, the weight of the jigsaw loss. per_slide: each slide has its own lambda."""

    per_slide: ClassVar[bool] = False

    def __init__(self, config: "LambdaConfig") -> None:
        self.config = config

    def rule(self, mil: float, jigsaw: float) -> float:
        """Lambda from the mean losses of the last period."""
        raise NotImplementedError

    def describe(self) -> str:
        """In the words of a report."""
        return f"lambda by the rule {type(self).__name__}, updated every {self._period}"

    @property
    def _period(self) -> str:
        unit = self.config.unit
        return unit.removesuffix("s") if self.config.every == 1 else f"{self.config.every} {unit}"


POLICIES: Registry[type[Policy]] = Registry()


class Fixed(Policy):
    """A number."""

    def __init__(self, config: "LambdaConfig") -> None:
        super().__init__(config)
        self.value = float(config.policy)
        require("lambda value", self.value, 0 <= self.value < math.inf, "a number of at least 0")

    def rule(self, mil: float, jigsaw: float) -> float:
        return self.value

    def describe(self) -> str:
        return f"fixed weight lambda = {self.value:g}"


@POLICIES.register("em")
class EM(Policy):
    """The paper's rule: the posterior mean of a Gamma(a, b) prior under the pseudo-likelihood exp(-lambda L),
    lambda = a / (b + L), L averaged since the last update."""

    def rule(self, mil: float, jigsaw: float) -> float:
        return self.config.a / max(self.config.b + jigsaw, 1e-6)

    def describe(self) -> str:
        return f"lambda = a / (b + jigsaw loss) with {self._prior}, updated every {self._period}"

    @property
    def _prior(self) -> str:
        return f"a = {self.config.a:g}, b = {self.config.b:g}"


@POLICIES.register("em-per-slide")
class EMPerSlide(EM):
    """The same, with one lambda for each slide."""

    per_slide = True

    def describe(self) -> str:
        return f"one lambda per slide, a / (b + its jigsaw loss) with {self._prior}, updated every {self._period}"


@POLICIES.register("balanced")
class Balanced(Policy):
    """Ours: lambda = mean MIL loss / mean jigsaw loss, so that both terms weigh the same; no constants."""

    def rule(self, mil: float, jigsaw: float) -> float:
        return mil / max(jigsaw, 1e-6)

    def describe(self) -> str:
        return f"lambda = MIL loss / jigsaw loss, so that both terms have equal weight, updated every {self._period}"


def find_policy(name: str | float) -> type[Policy]:
    """The rule that `0.5`, `em`, `em-per-slide` or `balanced` means, as the command line and study files write it."""
    try:
        float(name)
    except ValueError:
        choose("lambda", name, ("a number", *POLICIES))
        return POLICIES[str(name)]
    return Fixed
