"""How many patches the slides of each cohort of a study have."""

from ..bags.counts import PatchStatistics
from ..errors import ConfigError
from .study import Study


def cohort_patches(study: Study) -> dict[str, PatchStatistics]:
    """Of the slides that have a label and features, from the headers of the feature files.

    Example: `cohort_patches(read_study("studies/table2-encoders.toml"))["UNI"].mean`
    """
    cohorts = {name: source.read() for name, source in study.cohorts.items()}
    return {
        name: PatchStatistics.of([slide.patches for slide in cohort.slides], cohort.dim)
        for name, cohort in cohorts.items()
    }


def standin_patches(study: Study) -> dict[str, PatchStatistics]:
    """Patch statistics of the stand-ins, without drawing them.

    Example: `standin_patches(read_study("studies/table2-encoders.toml"))["phantom UNI"].mean`
    """
    if missing := [name for name in study.cohorts if name not in study.standins]:
        raise ConfigError(f"No stand-in for {', '.join(missing)}; expected [cohorts.{missing[0]}.standin].")
    specs = {name: study.standins[name].spec() for name in study.cohorts}
    return {f"phantom {name}": PatchStatistics.of(spec.counts, spec.dim) for name, spec in specs.items()}
