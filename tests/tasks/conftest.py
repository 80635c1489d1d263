from ..cli.conftest import cohort, given, jigsawmil, quick  # noqa: F401
from ..fixtures.studies import ran, small  # noqa: F401
