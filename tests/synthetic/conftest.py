"""Synthetic slides."""

from ..fixtures.slides import *  # noqa: F403
