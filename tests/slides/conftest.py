"""Slides, real and synthetic, and an encoder."""

from ..fixtures.slides import (  # noqa: F401
    digests,
    encoder,
    painted,
    painting,
    picture,
    plan,
    real_slide,
    script,
    slides,
    tiff,
)
