"""A small cohort and models of it."""

from ..fixtures.models import cohort, feed, small  # noqa: F401
