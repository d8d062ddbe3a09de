"""Judge whether a job resumed or silently started over. Pure.

By its journal where there is one: it says at which step each attempt began. Else by time: the last
attempt took about as long as the whole work, although earlier ones had done a good part of it. How
much it printed and computed corrects a clock that a busy machine has slowed down.
"""

from collections.abc import Sequence

from outlast._base.durations import format_duration
from outlast.drill.baseline import Figures
from outlast.drill.evidence import RunEvidence
from outlast.drill.facts import Facts, NotJudged, Verdict
from outlast.drill.records import Attempt

_GOOD_PART = 0.35
_AS_LONG = 0.75
_ALL = 0.98
_CPU_BOUND = 0.5
_LINES_MANY = 20


def started_over(facts: Facts, *, is_finished: bool) -> Verdict | NotJudged:
    """Whether the attempt that ended the job went on where the others had stopped."""
    finisher = facts.leg.finisher
    if facts.workers > 1:
        return NotJudged(code="started-over", reason="Workers share a queue, not a state.")
    if finisher is None or not is_finished:
        return NotJudged(code="started-over", reason="The job never came to its end.")
    if len(facts.leg.attempts) == 1:
        return NotJudged(code="started-over", reason="There was only one attempt.")
    if facts.runs:
        return _started_over_by_journal(facts.runs, finisher)
    if facts.figures is None:
        said = "Without a baseline it is not known how long the whole work takes."
        return NotJudged(code="started-over", reason=said)
    return _started_over_by_time(facts, facts.figures, finisher)


def _started_over_by_journal(runs: Sequence[RunEvidence], finisher: Attempt) -> Verdict:
    for run in runs:
        saved = 0
        for one in run.attempts:
            said = f"Attempt {one.attempt or one.run_attempt}"
            if one.first_step is not None and one.first_step == 0 and saved > 0:
                said += f" began at step 0, although step {saved} had been saved. Give every"
                said += " attempt the same URL, and look for what was passed over in its log."
                return Verdict(code="started-over", ok=False, reason=said)
            saved = max(saved, one.saved_step or 0)
        last = run.attempts[-1]
        before = max((one.last_step for one in run.attempts[:-1]), default=0)
        if last.first_step == 0 and before > _GOOD_PART * run.steps_done:
            said = f"Attempt {finisher.number} began at step 0, although earlier ones had done"
            said += f" {before} steps: nothing had been saved. Save more often (`every_steps`)."
            return Verdict(code="started-over", ok=False, reason=said)
    begun = [one.first_step for run in runs for one in run.attempts if one.first_step]
    said = f"It resumed at step {', '.join(map(str, begun[-5:]))}." if begun else "It resumed."
    return Verdict(code="started-over", ok=True, reason=said)


def _started_over_by_time(facts: Facts, figures: Figures, finisher: Attempt) -> Verdict | NotJudged:
    """It took about as long as the whole work, though others had done a good part of it before."""
    work = figures.work_seconds
    earlier = sum(one.work_seconds for one in facts.leg.evictions if one.attempt != finisher.number)
    if earlier < _GOOD_PART * work:
        said = f"The earlier attempts had worked only {format_duration(earlier)}."
        return NotJudged(code="started-over", reason=said)
    # Not from when it was seen to be ready: a sign of the first start may not come again.
    took = max(0.0, finisher.seconds - figures.start_up_seconds)
    limit = max(_AS_LONG * work, work - earlier / 2)
    said = f"The last attempt worked {format_duration(took)}; an undisturbed one works "
    said += f"{format_duration(work)}, and earlier ones had worked {format_duration(earlier)}."
    did_all = _printed_all(figures, finisher) and took >= work / 2
    done_before = min(1.0, earlier / work)
    if (took < limit and not did_all) or _did_less(figures, finisher, done_before):
        return Verdict(code="started-over", ok=True, reason=said)
    if figures.saves == 0:
        said += " It wrote nothing before its end: save, and resume from it."
    elif not any(save.at_seconds < finisher.started_seconds for save in facts.leg.saves):
        said += " Nothing had been saved by then: save more often."
    else:
        said += " It started over: resume from what was saved."
    return Verdict(code="started-over", ok=False, reason=said)


def _printed_all(figures: Figures, finisher: Attempt) -> bool:
    """Whether it printed as much as the whole work does, which tells more than a busy clock."""
    many = figures.output_lines >= _LINES_MANY
    return many and finisher.output_lines >= _ALL * figures.output_lines


def _did_less(figures: Figures, finisher: Attempt, done_before: float) -> bool:
    """Whether it clearly did less than the whole work, however long it took on a busy machine."""
    printed_less = (
        figures.output_lines >= _LINES_MANY
        and finisher.output_lines < (1 - done_before / 2) * figures.output_lines
    )
    computed_less = (
        figures.cpu_seconds > _CPU_BOUND * figures.seconds
        and finisher.cpu_seconds < _AS_LONG * figures.cpu_seconds
    )
    return printed_less or computed_less
