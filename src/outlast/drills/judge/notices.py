"""Checks of how the job reacts to a notice: its exit code, and whether it exits in time. Pure."""

import itertools
import re
import statistics
from collections.abc import Sequence

from outlast.drills.judge.crashes import quoted_error
from outlast.drills.judge.evidence import JournaledRun
from outlast.drills.judge.nodes import all_interrupted, is_world, stuck_node, wrong_code
from outlast.drills.judge.verdict import (
    CONCLUSIVE,
    Check,
    CheckResult,
    Observations,
    failed,
    not_applicable,
    passed,
)
from outlast.drills.run.records import NEVER_HEARD, Attempt, Eviction, SigtermHandling

_NAME = "left-in-time"
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
# SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV, as exit codes.
_CRASH_CODES = frozenset({132, 134, 135, 136, 139})
# A long traceback may be cut off at its start.
_FRAME = re.compile(r"^ +File \".+\", line \d+", re.MULTILINE)
_DELIBERATE = re.compile(r"^(KeyboardInterrupt|SystemExit)\b")


def exit_code(observed: Observations) -> Check:
    early = [one for one in observed.job_run.evictions if one.unfinished_zero]
    if early:
        return failed(
            "exit-code",
            f"Attempt {early[0].attempt} exited with code 0 on SIGTERM before the work was done: a"
            " Job counts exit code 0 as complete and does not restart it. Exit with 75"
            " (OUTLAST_EXIT_CODE) when interrupted, or run it under"
            " `outlast exec --distrust-zero --`.",
        )
    if is_world(observed):
        reason = wrong_code(observed)
        if reason is not None:
            return failed("exit-code", reason)
        return passed("exit-code", all_interrupted(observed))
    noticed = [one for one in observed.job_run.evictions if one.notice and not one.killed]
    if not noticed:
        return passed("exit-code", "It never exited with 0 before the work was done.")
    codes = ", ".join(map(str, sorted({one.exit_code for one in noticed})))
    return passed("exit-code", f"After SIGTERM it exited with {codes}.")


def left_in_time(observed: Observations, others: Sequence[Check]) -> Check:
    """Whether it used its notice. `others` are the other checks: without harm, it only warns."""
    if (reason := stuck_node(observed)) is not None:
        return failed(_NAME, reason)
    fair = _with_full_grace(observed)
    if not fair:
        return not_applicable(_NAME, "No eviction with a full grace period landed.")
    at_fault, reason = _fault(observed, fair)
    if reason is None:
        return passed(_NAME, _in_time(observed, fair))
    if not _did_no_harm(observed, at_fault, others):
        return failed(_NAME, reason)
    what = "finished with the same result as the baseline"
    if not any(one.name == "identical" and one.result is CheckResult.PASS for one in others):
        what = "finished"
    return Check(name=_NAME, result=CheckResult.WARN, reason=f"{reason} The job still {what}.")


def _fault(
    observed: Observations, fair: Sequence[Eviction]
) -> tuple[Sequence[Eviction], str | None]:
    """The evictions that it handled wrongly, and what happened then."""
    of = f"of {len(fair)} evictions it"
    if killed := [one for one in fair if one.killed]:
        said = f"was still running after the grace period of {observed.grace_seconds:g} s"
        if killed[0].handling in NEVER_HEARD:
            said = "did not react to SIGTERM"
        why = _why_killed(observed, killed[0])
        return killed, f"In {len(killed)} {of} {said} and was killed. {why}"
    # A supervisor may wait for signals in ways that do not show, but then it exits with a code.
    if unheard := [one for one in fair if one.handling in NEVER_HEARD and one.exit_code == 0]:
        said = "did not react to SIGTERM, and would have been killed if it had not finished first."
        return unheard, f"In {len(unheard)} {of} {said} {_why_killed(observed, unheard[0])}"
    attempts = {one.number: one for one in observed.job_run.attempts}
    if crashed := [one for one in fair if _is_crash(one, attempts[one.attempt])]:
        first = attempts[crashed[0].attempt]
        said = f"crashed on SIGTERM, with exit code {first.exit_code}: {quoted_error(first)}. Only"
        said += " set a flag in the handler; then save and exit between two steps."
        return crashed, f"In {len(crashed)} {of} {said}"
    return (), None


def _is_crash(eviction: Eviction, attempt: Attempt) -> bool:
    if eviction.exit_code in _CRASH_CODES:
        return True
    if attempt.nodes:
        # A launcher prints a traceback for every SIGTERM; the exit code of its node is judged.
        return False
    frames = list(_FRAME.finditer(attempt.output_tail))
    if eviction.exit_code != 1 or not frames:
        return False
    lines = attempt.output_tail[frames[-1].end() :].splitlines()
    return not any(_DELIBERATE.match(line) for line in lines)


def _did_no_harm(
    observed: Observations, at_fault: Sequence[Eviction], others: Sequence[Check]
) -> bool:
    """Whether no check failed and no step was lost, although it really was interrupted."""
    lost = [run.steps_lost_by(one.attempt) or 0 for run in observed.runs for one in at_fault]
    was_ended = any(one.killed or one.exit_code != 0 for one in observed.job_run.evictions)
    bad = any(one.result is CheckResult.FAIL and one.name != CONCLUSIVE for one in others)
    return was_ended and not any(lost) and not bad


def _in_time(observed: Observations, fair: Sequence[Eviction]) -> str:
    slowest = max(one.left_seconds for one in fair)
    reason = f"It exited in time in {len(fair)} of {len(fair)} evictions, after at most"
    reason += f" {slowest:.2f} s of {observed.grace_seconds:g} s."
    given = [one for one in observed.job_run.evictions if one.had_full_grace]
    if too_early := sum(one.handling in NEVER_HEARD for one in given if one not in fair):
        reason += f" {too_early} more came during startup, before it could handle SIGTERM."
    return reason


def _with_full_grace(observed: Observations) -> list[Eviction]:
    """The evictions that a program could react to: no program can before its handler is set.

    One that was about to exit anyway may have removed its handler already.
    """
    given = [one for one in observed.job_run.evictions if one.had_full_grace]
    heard_once = any(one.handling is SigtermHandling.CAUGHT for one in given)
    return [
        one
        for one in given
        if not one.in_start_up
        and not (heard_once and one.handling is SigtermHandling.DEFAULT)
        and not (one.handling is SigtermHandling.UNKNOWN and not one.took_effect)
    ]


def _why_killed(observed: Observations, eviction: Eviction) -> str:
    if eviction.handling is SigtermHandling.IGNORED:
        return "It ignores SIGTERM. Handle it: save and exit (`outlast.Run`, `outlast.Guard`)."
    if eviction.handling is SigtermHandling.DEFAULT and eviction.process in _SHELLS:
        return (
            f"Process 1 is the shell {eviction.process!r}, which does not forward signals. Start"
            " the program with `exec`, or put `outlast exec --` before the command; a script that"
            " does the work itself needs a `trap`."
        )
    if eviction.handling is SigtermHandling.DEFAULT:
        return (
            "It has no handler for SIGTERM, and the kernel drops signals that process 1 does not"
            " handle. Handle it (`outlast.Run`, `outlast.Guard`), or put `outlast exec --` before"
            " the command."
        )
    if observed.runs:
        return _why_a_run_was_killed(observed.grace_seconds, observed.runs[0])
    if eviction.writing:
        return (
            f"It was still writing {eviction.writing[0]!r}. Make the save shorter than the grace"
            " period: save less, or save often and only complete the save in progress."
        )
    return "It received SIGTERM and kept running. Check for the notice more often, then exit."


def _why_a_run_was_killed(grace_seconds: float, run: JournaledRun) -> str:
    """`outlast.Run` looks for the notice after each step, so only the durations can be wrong."""
    step, save = _step_seconds(run), run.save_seconds
    took = [f"a step took {step:.2f} s" if step is not None else ""]
    took.append(f"a save {save:.2f} s (medians)" if save is not None else "")
    facts = " and ".join(filter(None, took)) or "the journal shows no step and no save"
    return (
        f"`outlast.Run` exits after the current step and its final save: {facts}, and the grace"
        f" period is {grace_seconds:g} s. Use a longer grace period, shorter steps, `run.check()`"
        " inside long stretches, or less state."
    )


def _step_seconds(run: JournaledRun) -> float | None:
    points = run.progress
    pairs = [
        (later.seconds - one.seconds) / (later.step - one.step)
        for one, later in itertools.pairwise(points)
        if one.attempt == later.attempt and later.step > one.step
    ]
    return statistics.median(pairs) if pairs else None
