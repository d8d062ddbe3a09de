"""Check whether a job resumed or silently started over. Pure.

If the job keeps a journal, its first steps decide. Otherwise the evidence of the attempts does; if
there is none, the check is not judged. It never passes without evidence.

Fewer writes than in the baseline count only together with a control run: once more without
evictions, for a little longer than the last attempt took.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from outlast._base.durations import format_duration
from outlast.drills.judge.continued import Continuation, by_files, by_lines, never_printed
from outlast.drills.judge.evidence import JournaledRun
from outlast.drills.judge.verdict import (
    Check,
    CheckResult,
    Observations,
    failed,
    not_applicable,
    passed,
)
from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.records import Attempt

_NAME = "resumed"
_GOOD_PART = 0.35
_LONGER = 1.25
_LONGER_SECONDS_MIN = 0.75
"""A busy machine can delay the start of a program by this much."""
_MARGIN = 1.05
_BUSY_SHARE = 0.5
_MORE_CPU = 1.1
_CPU_NOISE_SHARE = 0.1


def resumed(observed: Observations, *, is_finished: bool) -> Check:
    """Whether the attempt that finished the job continued where the earlier ones had stopped."""
    finisher = observed.job_run.finisher
    if observed.workers > 1:
        return not_applicable(_NAME, "Workers that share a queue have no state to resume.")
    if finisher is None or not is_finished:
        return not_applicable(_NAME, "The job did not finish.")
    if len(observed.job_run.attempts) == 1:
        return not_applicable(_NAME, "There was only one attempt.")
    if (by_journal := _by_journal(observed.runs, finisher)) is not None:
        return by_journal
    if observed.baseline_evidence is None:
        return not_applicable(_NAME, "Not judged: there is no baseline to compare with.")
    check = _by_evidence(observed, observed.baseline_evidence, finisher)
    if check.result is CheckResult.NOT_APPLICABLE and _did_nothing_before(observed.runs, finisher):
        return not_applicable(_NAME, _not_judged(_NO_STEP, _DRILL_AGAIN_LATER))
    return _doubted(observed, check) if check.result is CheckResult.PASS else check


def needs_control(observed: Observations, *, is_finished: bool) -> bool:
    """Whether a control run could show that the job resumed, and nothing else does."""
    finisher = observed.job_run.finisher
    if observed.control is not None or finisher is None:
        return False
    slow = replace(finisher, ended_seconds=math.inf, cpu_seconds=math.inf)
    with_control = resumed(replace(observed, control=slow), is_finished=is_finished)
    is_shown = with_control.result in (CheckResult.PASS, CheckResult.WARN)
    without = resumed(observed, is_finished=is_finished)
    return is_shown and without.result is CheckResult.NOT_APPLICABLE


def control_seconds(finisher: Attempt) -> float:
    """How long a control run has to run to be compared with the last attempt."""
    return _longer_than(finisher.seconds) * _MARGIN


def _by_journal(runs: Sequence[JournaledRun], finisher: Attempt) -> Check | None:
    """What the first steps of all attempts show; None if they show nothing."""
    for run in runs:
        saved = 0
        for one in run.attempts:
            if one.first_step == 0 and saved > 0:
                reason = f"Attempt {one.attempt or one.run_attempt} started at step 0, although"
                reason += f" step {saved} had been saved. Give every attempt the same URL, and"
                return failed(_NAME, f"{reason} check its log for checkpoints that it skipped.")
            saved = max(saved, one.saved_step or 0)
        before = sum(one.last_step for one in run.attempts[:-1])
        if run.attempts[-1].first_step == 0 and before > _GOOD_PART * run.steps_done:
            reason = f"Attempt {finisher.number} started at step 0, although earlier attempts had"
            reason += f" done {before} steps: nothing had been saved. Save more often"
            return failed(_NAME, f"{reason} (`every_steps`).")
    begun = [one.first_step for run in runs for one in run.attempts if one.first_step]
    if begun:
        return passed(_NAME, f"It resumed at step {', '.join(map(str, begun[-5:]))}.")
    return _by_abandoned(runs, finisher)


def _by_abandoned(runs: Sequence[JournaledRun], finisher: Attempt) -> Check | None:
    """Whether earlier attempts left runs in other folders unfinished; None if not."""
    last = [run for run in runs if finisher.number in {one.attempt for one in run.attempts}]
    left = [run for run in runs if run not in last and not run.finished]
    done = max(left, key=_steps, default=None)
    if not last or done is None:
        return None
    is_saved = any(one.saved_step for run in left for one in run.attempts)
    if not is_saved and sum(map(_steps, left)) <= _GOOD_PART * last[-1].steps_done:
        return None
    reason = f"Attempt {finisher.number} started at step 0 in {last[-1].folder!r}, although an"
    reason += f" earlier attempt had done {_steps(done)} steps in {done.folder!r}. Give every"
    return failed(_NAME, f"{reason} attempt the same URL, for example without the time.")


def _did_nothing_before(runs: Sequence[JournaledRun], finisher: Attempt) -> bool:
    """Whether the last attempt keeps a journal, and no attempt before it completed a step."""
    has_journal = any(one.attempt == finisher.number for run in runs for one in run.attempts)
    earlier = [one for run in runs for one in run.attempts if one.attempt != finisher.number]
    return has_journal and not any(one.last_step or one.saved_step for one in earlier)


def _steps(run: JournaledRun) -> int:
    return max((one.last_step for one in run.attempts), default=0)


def _by_evidence(observed: Observations, baseline: AttemptEvidence, finisher: Attempt) -> Check:
    number = finisher.number
    last = observed.evidence.get(number)
    earlier = [one for at, one in sorted(observed.evidence.items()) if at != number]
    if last is None:
        return not_applicable(_NAME, "Not judged: the output of the last attempt is missing.")
    lines = by_lines(baseline.printed, [one.printed for one in earlier], last.printed)
    if lines.outcome is Continuation.CONTINUED:
        return passed(_NAME, f"Attempt {number} continued: {lines.sentence}.")
    if last.files is not None and not last.files.found:
        return _nothing_left(observed, number, lines.sentence, lines.outcome)
    if lines.outcome is Continuation.STARTED_OVER:
        return failed(_NAME, f"Attempt {number} started over: {lines.sentence}. {_SAVE}")
    if last.files is None:
        return not_applicable(_NAME, _not_judged(lines.sentence))
    files = by_files(baseline, earlier, last.files)
    if files.outcome is Continuation.STARTED_OVER:
        return failed(_NAME, f"Attempt {number} started over: {files.sentence}. {_SAVE}")
    if files.outcome is Continuation.UNKNOWN:
        advice = _DRILL_AGAIN if lines.came_too_late else _SHOW_PROGRESS
        return not_applicable(_NAME, _not_judged(f"{lines.sentence}, and {files.sentence}", advice))
    if files.only_writes and (why := _why_no_less_work(observed.control, finisher)) is not None:
        return not_applicable(_NAME, _not_judged(f"{files.sentence}, but {why}"))
    return passed(_NAME, f"Attempt {number} continued: {files.sentence}.")


def _why_no_less_work(control: Attempt | None, finisher: Attempt) -> str | None:
    """Why the last attempt may have done all the work; None if a run without evictions did more.

    The control run is as warm as the last attempt. On a busier machine it would take longer without
    doing more, so its CPU time must be more as well.
    """
    if control is None:
        return "there is no second run without evictions to compare with"
    if control.seconds < _longer_than(finisher.seconds):
        return f"a second run without evictions took hardly longer ({control.seconds:.1f} s)"
    is_busy = finisher.cpu_seconds >= _BUSY_SHARE * finisher.seconds
    needed = finisher.cpu_seconds * (_MORE_CPU if is_busy else 1.0)
    if control.cpu_seconds < needed - _CPU_NOISE_SHARE * finisher.seconds:
        return "the machine was too busy to compare it with a second run without evictions"
    return None


def _longer_than(seconds: float) -> float:
    return max(_LONGER * seconds, seconds + _LONGER_SECONDS_MIN)


def _doubted(observed: Observations, check: Check) -> Check:
    """The check that passed, with a warning if work was skipped."""
    assert observed.baseline_evidence is not None, "The evidence was compared with the baseline."
    attempts = [one.printed for _, one in sorted(observed.evidence.items())]
    holes = never_printed(observed.baseline_evidence.printed, attempts)
    if holes is None:
        return check
    reason = f"{check.reason} But {holes}: it may have skipped work. Resume at the step that was"
    reason += " saved, and save a step only when it is done."
    return Check(name=_NAME, result=CheckResult.WARN, reason=reason)


def _nothing_left(observed: Observations, number: int, lines: str, outcome: Continuation) -> Check:
    """No file of an earlier attempt was in the folder when the last one started."""
    reason = f"Attempt {number} found no file of an earlier attempt in its folder"
    if outcome is Continuation.STARTED_OVER:
        reason += f", and {lines}"
    elif observed.may_save_elsewhere:
        return not_applicable(_NAME, _not_judged(f"{lines}, and it may save outside its folder"))
    if observed.figures is None or observed.figures.saves == 0:
        reason += ". It wrote nothing until it finished: save progress below {dir}, and resume from"
        return failed(_NAME, f"{reason} it.")
    work = observed.figures.work_seconds
    worked = sum(one.work_seconds for one in observed.job_run.evictions if one.attempt != number)
    if outcome is not Continuation.STARTED_OVER and worked < _GOOD_PART * work:
        short = f"the earlier attempts had worked only {format_duration(worked)}"
        return not_applicable(_NAME, _not_judged(short))
    return failed(_NAME, f"{reason}. Nothing had been saved by then: save more often.")


_SAVE = "Save progress below {dir}, and resume from it when a file is there."


_SHOW_PROGRESS = (
    "Print a numbered line for each step or epoch, such as 'step 12', or use `outlast.Run`."
)
_NO_STEP = "every attempt was evicted before it completed a step"
_DRILL_AGAIN_LATER = (
    "Run the drill with another --seed or, if the machine was busier than during the baseline,"
    " run it again."
)
_DRILL_AGAIN = "The last eviction came too late to show it: run the drill with another --seed."


def _not_judged(why: str, advice: str = _SHOW_PROGRESS) -> str:
    return f"Not judged: {why}. {advice}"
