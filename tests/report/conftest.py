"""Tables and run folders as studies write them."""

from ..cli.conftest import jigsawmil  # noqa: F401
from ..fixtures.runs import drawn, graded, legible, make_run, predictions, whole  # noqa: F401
