"""Small studies, and tables as studies write them."""

from ..cli.conftest import jigsawmil  # noqa: F401
from ..fixtures.runs import drawn, graded, legible, make_run, predictions, whole  # noqa: F401
from ..fixtures.studies import finished, own, phantom, ran, relabel, small, spec, study_of  # noqa: F401
