"""Small studies and slides."""

from ..fixtures.slides import *  # noqa: F403
from ..fixtures.studies import finished, own, phantom, ran, relabel, small, spec, study_of  # noqa: F401
