"""Models, slides and pictures."""

from ..fixtures.models import cohort, feed, small  # noqa: F401
from ..fixtures.runs import drawn, graded, legible, make_run, predictions, whole  # noqa: F401
from ..fixtures.slides import *  # noqa: F403
