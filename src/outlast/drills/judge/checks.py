"""The checks of a drill, each decided from what was observed. Pure.

Each failed check explains in one line what was observed and what to change.
"""

from outlast._base.durations import format_duration
from outlast.drills.judge.crashes import crashed, files_intact, no_crash, quoted_error
from outlast.drills.judge.notices import exit_code, left_in_time
from outlast.drills.judge.results import identical, no_duplicates, no_lost_items
from outlast.drills.judge.resuming import needs_control, resumed
from outlast.drills.judge.verdict import (
    CONCLUSIVE,
    Check,
    CheckResult,
    Observations,
    failed,
    not_applicable,
    passed,
)
from outlast.drills.run.records import AttemptEnd, JobRunEnd

_LEFTOVERS_SHARE = 0.4


def judge(observed: Observations) -> tuple[Check, ...]:
    """All checks, in an order in which earlier ones explain later ones."""
    first = (_finished(observed), exit_code(observed))
    how = resumed(observed, is_finished=_why_not_finished(observed) is None)
    rest = (
        files_intact(observed),
        no_crash(observed),
        identical(observed),
        no_lost_items(observed),
        no_duplicates(observed),
    )
    in_time = left_in_time(observed, [*first, how, *rest])
    return (*first, in_time, how, *rest, _conclusive(observed, how))


def control_needed(observed: Observations) -> bool:
    """Whether the drill has to run the job once more without evictions to decide `resumed`."""
    return needs_control(observed, is_finished=_why_not_finished(observed) is None)


def _finished(observed: Observations) -> Check:
    reason = _why_not_finished(observed)
    if reason is not None:
        return failed("finished", reason)
    finisher = observed.job_run.finisher
    number = finisher.number if finisher is not None else len(observed.job_run.attempts)
    return passed("finished", f"The job completed in attempt {number}.")


def _why_not_finished(observed: Observations) -> str | None:
    job_run = observed.job_run
    if job_run.end is JobRunEnd.CRASH_LOOP:
        last = max(job_run.attempts, key=lambda one: one.ended_seconds)
        return (
            f"It failed {times(len(crashed(observed)))} on its own, more often than the backoff"
            f" limit of a Job allows: {quoted_error(last)}."
        )
    if job_run.end in (JobRunEnd.TIMED_OUT, JobRunEnd.TOO_SLOW):
        return _why_too_slow(observed)
    if observed.finished_when is False:
        return "The job ended with exit code 0, but the --finished-when test failed."
    if observed.missing:
        return (
            f"The job ended with exit code 0, but {observed.missing[0]!r} was not written. Exit"
            " with 0 only when all work is done."
        )
    if observed.workers == 1 and any(one.unfinished_zero for one in job_run.evictions):
        return "The job ended with work left to do, because an attempt exited with code 0."
    return None


def _why_too_slow(observed: Observations) -> str:
    job_run, figures = observed.job_run, observed.figures
    reason = f"It was not finished after {format_duration(job_run.seconds)}"
    advice = "If it makes no progress between evictions, save more often; otherwise use fewer"
    if job_run.end is JobRunEnd.TIMED_OUT or figures is None:
        return f"{reason}, the end of the drill. {advice} --evictions or a longer --timeout."
    reason += ", the limit of a run with evictions: 3 times the baseline"
    reason += f" ({format_duration(figures.seconds)}) and the time for grace periods and restarts,"
    return f"{reason} or 1 min if that is more. {advice} --evictions."


def _conclusive(observed: Observations, how: Check) -> Check:
    if unproven := [one for one in observed.job_run.evictions if one.unproven_zero]:
        reason = (
            f"Attempt {unproven[0].attempt} exited with code 0 after SIGTERM, and nothing shows"
        )
        reason += " whether the work was done. Use --expect FILE with a baseline, or"
        return failed(CONCLUSIVE, f"{reason} --finished-when TEST.")
    landed = observed.job_run.landed
    if landed < observed.needed:
        return _too_few_landed(observed, landed)
    landed_all = "The eviction landed" if landed == 1 else f"All {landed} evictions landed"
    if _is_open(observed, how) and observed.workers > 1:
        reason = f"{landed_all}, but nothing shows whether work was kept. Use --expect with a file"
        reason += " of rows that the workers write as they go, or --finished-when TEST."
        return failed(CONCLUSIVE, reason)
    if _is_open(observed, how):
        reason = f"{landed_all}, but nothing shows whether the job resumed or started over."
        return failed(CONCLUSIVE, f"{reason} See `resumed`.")
    return passed(CONCLUSIVE, f"{landed_all}.")


def _is_open(observed: Observations, how: Check) -> bool:
    """Whether the drill cannot decide what matters most.

    Workers have no state to resume, but their items, or a test, must show that work was kept.
    """
    if how.result is not CheckResult.NOT_APPLICABLE or _why_not_finished(observed) is not None:
        return False
    if observed.workers == 1:
        return True
    kept = observed.figures is not None and observed.figures.saves > 0
    has_items = any(one.items for one in observed.comparisons)
    return observed.finished_when is None and not (has_items and kept)


def _too_few_landed(observed: Observations, landed: int) -> Check:
    reason = f"Only {landed} of {observed.needed} evictions landed"
    if _why_not_finished(observed) is not None:
        return not_applicable(CONCLUSIVE, f"{reason}, because the job had ended.")
    reason += " before the job finished after"
    reason += f" {format_duration(observed.job_run.work_seconds)} of work."
    if _found_leftovers(observed):
        reason += " The baseline run took much longer, so this run may have found files that"
        reason += " the baseline left outside its folder. Keep all state below {dir}, or clean up"
        return failed(CONCLUSIVE, f"{reason} with --reset.")
    return failed(CONCLUSIVE, f"{reason} Give the job more work, or use fewer --evictions.")


def _found_leftovers(observed: Observations) -> bool:
    first = observed.job_run.attempts[0]
    return (
        observed.figures is not None
        and first.ended is AttemptEnd.FINISHED
        and first.seconds < _LEFTOVERS_SHARE * observed.figures.seconds
    )


def times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"
