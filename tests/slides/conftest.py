"""Slides, real and synthetic, and an encoder."""

from ..fixtures.slides import *  # noqa: F403
