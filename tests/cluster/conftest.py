"""Small studies and slides."""

from ..fixtures.slides import (  # noqa: F401
    digests,
    encoder,
    painted,
    painting,
    picture,
    plan,
    real_slide,
    script,
    slides,
    tiff,
)
from ..fixtures.studies import finished, own, phantom, ran, relabel, small, spec, study_of  # noqa: F401
