"""The methods, and what can be chosen about the parts of a model."""

from dataclasses import dataclass
from typing import NamedTuple

from ..config import choose, require, setting
from .convs import CONVS
from .jigsaw import JIGSAWS


class Method(NamedTuple):
    """Which parts a method has; a row of `METHODS`."""

    graph: bool
    attention: bool
    jigsaw: bool

    @property
    def sees_positions(self) -> bool:
        """Whether coordinates can change what is learnt; if not, shuffling them is no test of the method."""
        return self.graph or self.jigsaw


METHODS = {
    "abmil": Method(graph=False, attention=True, jigsaw=False),
    "abmil+jigsaw": Method(graph=False, attention=True, jigsaw=True),
    "graph-mil": Method(graph=True, attention=False, jigsaw=False),
    "graph-abmil": Method(graph=True, attention=True, jigsaw=False),
    "graph-abmil+jigsaw": Method(graph=True, attention=True, jigsaw=True),
}
DEFAULT_METHOD = "graph-abmil+jigsaw"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What can be chosen about the parts of a model. The defaults are the paper's."""

    conv: str = setting("gat", "Graph convolution of graph methods: gat, gcn, gin or sage.", option=True)
    hidden: int = setting(256, "Width of the hidden states.")
    layers: int = setting(2, "Layers of the encoder.")
    heads: int = setting(1, "Attention heads of the gat convolution, which share the width; a divisor of hidden.")
    attention_dim: int = setting(128, "Rows of V in the attention pooling.")
    gated: bool = setting(False, "Gated attention pooling (Ilse et al. 2018).")
    dropout: float = setting(0.0, "Dropout after each layer of the encoder.")
    jigsaw: str = setting(
        "position", "Jigsaw task of +jigsaw methods: position, consistency or equivariance.", option=True
    )
    grid: int = setting(10, "Cells per side of the grid whose cells the position task predicts.")
    share: float = setting(0.9, "Share of the patches that the position task asks at each step.")
    kinds: int = setting(
        0,
        "Number of patch kinds whose co-occurrence among neighbours the head sees beside the pooled state, in graph "
        "methods; 0: none, as in the paper.",
    )

    def __post_init__(self) -> None:
        choose("conv", self.conv, CONVS)
        choose("jigsaw", self.jigsaw, JIGSAWS)
        for name in ("hidden", "layers", "heads", "attention_dim", "grid"):
            value = getattr(self, name)
            require(name, value, isinstance(value, int) and value >= 1, "a whole number of at least 1")
        require("heads", self.heads, self.hidden % self.heads == 0, f"a divisor of hidden = {self.hidden}")
        require("dropout", self.dropout, 0 <= self.dropout < 1, "a number in [0, 1)")
        require("share", self.share, 0 < self.share <= 1, "a number in (0, 1]")
        require("kinds", self.kinds, isinstance(self.kinds, int) and self.kinds >= 0, "a whole number of at least 0")
