"""Tables and run folders as studies write them."""

from ..fixtures.runs import drawn, graded, legible, make_run, predictions, whole  # noqa: F401
