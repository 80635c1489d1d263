"""Run a study: do the jobs that its folder lacks, then gather the tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..cohort.cohort import Cohort
from ..config import require
from ..errors import StudyError
from .choosing import choice_tables, decisions_of, expand_inner, where_of
from .executors import Event, Listener, run_local
from .gather import by_reason, gather, whole
from .job import Job
from .plan import expand, model_notes, prepare, refuse_other_settings, unrecorded_note
from .run import Run, open_run
from .run_folder import RunFolder
from .study import Study

Executor = Callable[[Sequence[Job], Mapping[str, Cohort], Path, Listener], None]

GONE = "its folder is missing although it ran. Is another process deleting files there? Run the same command again."
UNDECIDED = "no settings were chosen, because some inner jobs of this fold failed. Run the same command again."


def cross_validate(
    study: Study,
    out: str | Path,
    *,
    processes: int = 1,
    listen: Listener = lambda event: None,
    on_cohorts: Callable[[Mapping[str, Cohort]], None] = lambda cohorts: None,
    on_plan: Callable[[list[Job], int], None] = lambda jobs, done: None,
    executor: Executor | None = None,
) -> Run:
    """Run the jobs that the folder `out` lacks, write its tables, and open it; `jigsawmil.run_study` adds pictures.

    processes: of this machine, which share memory_gb; with several of them a script has to call this below
    `if __name__ == "__main__":`. executor: runs the jobs elsewhere, such as `cluster.studies.run_on_ray`; each then has
    all of memory_gb. on_cohorts, on_plan: called once the cohorts are read, and with all jobs and how many are done.
    Jobs that failed are in `Run.failed`; an error is raised only if no variant has all its folds.

    Example: `cross_validate(read_study("study.toml"), "run", processes=4).summary`
    """
    require(
        "processes", processes, processes == 1 or executor is None, "1 with an executor, which starts its own processes"
    )
    out = Path(out)
    cohorts, folds = prepare(study)
    on_cohorts(cohorts)
    RunFolder(out).make()  # nothing is written before everything is known to be possible
    with RunFolder(out).alone():
        jobs = expand(study, cohorts, folds, out, processes)
        inner = expand_inner(study, jobs, cohorts, folds, out)
        settled = [job for job in jobs if job.variant not in study.choices]
        unknown = refuse_other_settings([*inner, *settled], cohorts, out)
        on_plan([*inner, *jobs], sum(job.done for job in (*inner, *jobs)))
        failed: dict[str, str] = {}

        def note(event: Event) -> None:
            if event.error is not None:
                failed[event.job.name] = event.error
            listen(event)

        def run(some: Sequence[Job]) -> None:
            missing = [job for job in some if not job.done]
            if executor is not None:
                executor(missing, cohorts, out, note)
            else:
                run_local(missing, processes, note)

        run([*inner, *settled])
        decisions = decisions_of(study, inner)
        if inner:
            jobs = expand(study, cohorts, folds, out, processes, decisions)
            choosing = [job for job in jobs if job.variant in study.choices]
            decided = [job for job in choosing if where_of(job) in decisions]
            unknown |= refuse_other_settings(decided, cohorts, out)
            run(decided)
            for job in choosing:
                if where_of(job) not in decisions and not job.done:
                    note(Event(job, error=UNDECIDED))
        for job in jobs:
            if not job.done and job.name not in failed:
                note(Event(job, error=GONE))
        if failed and not any(whole([job for job in jobs if not job.shuffled], name) for name in cohorts):
            reasons = "\n".join(f"{', '.join(names)}:\n{why}" for why, names in by_reason(failed).items())
            raise StudyError(
                f"{len(failed)} of {len(inner) + len(jobs)} jobs failed, and no method has finished all folds.\n"
                f"{reasons}"
            )
        notes = {name: model_notes(study, cohort) for name, cohort in cohorts.items()}
        for name, count in unknown.items():
            notes[name].append(unrecorded_note(count))
        gather(study, out, jobs, cohorts, failed, choice_tables(inner, decisions), notes)
    return open_run(out)
