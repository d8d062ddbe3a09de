"""Check whether a job resumed or silently started over. Pure.

If the job keeps a journal, its first steps decide. Otherwise the evidence of the attempts does; if
there is none, the check is not judged. It never passes without evidence.
"""

from collections.abc import Sequence

from outlast._base.durations import format_duration
from outlast.drills.judge.continued import Continuation, by_files, by_lines
from outlast.drills.judge.evidence import JournaledRun
from outlast.drills.judge.verdict import Check, Observations, failed, not_applicable, passed
from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.records import Attempt

_NAME = "resumed"
_GOOD_PART = 0.35


def resumed(observed: Observations, *, is_finished: bool) -> Check:
    """Whether the attempt that finished the job continued where the earlier ones had stopped."""
    finisher = observed.job_run.finisher
    if observed.workers > 1:
        return not_applicable(_NAME, "Workers that share a queue have no state to resume.")
    if finisher is None or not is_finished:
        return not_applicable(_NAME, "The job did not finish.")
    if len(observed.job_run.attempts) == 1:
        return not_applicable(_NAME, "There was only one attempt.")
    if observed.runs:
        return _by_journal(observed.runs, finisher)
    if observed.baseline_evidence is None:
        return not_applicable(_NAME, "Not judged: there is no baseline to compare with.")
    return _by_evidence(observed, observed.baseline_evidence, finisher)


def _by_journal(runs: Sequence[JournaledRun], finisher: Attempt) -> Check:
    for run in runs:
        saved = 0
        for one in run.attempts:
            if one.first_step is not None and one.first_step == 0 and saved > 0:
                reason = f"Attempt {one.attempt or one.run_attempt} started at step 0, although"
                reason += f" step {saved} had been saved. Give every attempt the same URL, and"
                return failed(_NAME, f"{reason} check its log for checkpoints that it skipped.")
            saved = max(saved, one.saved_step or 0)
        last = run.attempts[-1]
        before = max((one.last_step for one in run.attempts[:-1]), default=0)
        if last.first_step == 0 and before > _GOOD_PART * run.steps_done:
            reason = f"Attempt {finisher.number} started at step 0, although earlier attempts had"
            reason += f" done {before} steps: nothing had been saved. Save more often"
            return failed(_NAME, f"{reason} (`every_steps`).")
    begun = [one.first_step for run in runs for one in run.attempts if one.first_step]
    if not begun:
        return passed(_NAME, "It resumed.")
    return passed(_NAME, f"It resumed at step {', '.join(map(str, begun[-5:]))}.")


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
    if files.outcome is Continuation.CONTINUED:
        return passed(_NAME, f"Attempt {number} continued: {files.sentence}.")
    if files.outcome is Continuation.STARTED_OVER:
        return failed(_NAME, f"Attempt {number} started over: {files.sentence}. {_SAVE}")
    return not_applicable(_NAME, _not_judged(f"{lines.sentence}, and {files.sentence}"))


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


def _not_judged(why: str) -> str:
    return (
        f"Not judged: {why}. Print a numbered line for each step or epoch, such as 'step 12', or"
        " use `outlast.Run`."
    )
