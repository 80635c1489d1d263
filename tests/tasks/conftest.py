from ..cli.conftest import cohort, given, jigsawmil, quick  # noqa: F401
