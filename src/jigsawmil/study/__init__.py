"""Studies: cohorts, variants, folds and seeds, run as jobs that resume, and the statistics of what they predict.

Example:

    from jigsawmil.study import cross_validate, open_run, read_study

    cross_validate(read_study("study.toml"), "run").summary  # one row per cohort and variant
    open_run("run").predictions  # out of fold
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .cases import run_maps
    from .compare import compare_methods, summarise
    from .patches import cohort_patches, standin_patches
    from .published import Published, published_figures, published_patches
    from .run import Run, open_run
    from .run_pairs import compare_runs
    from .runner import cross_validate
    from .study import Study, cohort_spec, with_choices
    from .study_file import read_study
else:
    __getattr__ = attach(__name__, __file__)

__all__ = [
    "Published", "Run", "Study", "cohort_patches", "cohort_spec", "compare_methods", "compare_runs", "cross_validate",
    "open_run", "published_figures", "published_patches", "read_study", "run_maps", "standin_patches", "summarise",
    "with_choices",
]  # fmt: skip
