"""Attention pooling with a gate: what the setting `gated` makes of attention pooling."""

from typing import Self

from ..options import ModelOptions
from . import POOLINGS
from .attention import AttentionPool


@POOLINGS.register("gated-attention")
class GatedAttentionPool(AttentionPool):
    """a_j = softmax(mu . (tanh(V h_j) * sigmoid(U h_j))); z = sum_j a_j h_j (Ilse et al. 2018)."""

    phrase = "gated attention pooling"

    @classmethod
    def of(cls, options: ModelOptions) -> Self:
        return cls(options.hidden, options.attention_dim, bias=options.attention_bias, gated=True)
