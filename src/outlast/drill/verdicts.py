"""Judge a drill: one verdict for each question, from what was seen. Pure.

Each "no" says in one line what was seen and what to change.
"""

import re
from collections.abc import Callable

from outlast._base.durations import format_duration
from outlast.drill.facts import Facts, NotJudged, Verdict
from outlast.drill.records import NEVER_HEARD, Attempt, Ended, Eviction, Handling, LegEnd
from outlast.drill.resuming import started_over

__all__ = ["Facts", "NotJudged", "Verdict", "judge", "times"]

_LEFTOVERS_SHARE = 0.4
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
# What programs say when they read a file that was cut off.
_TORN_WORDS = re.compile(
    r"JSONDecodeError|EOFError|UnpicklingError|BadZipFile|PytorchStreamReader|corrupt|truncated"
    r"|malformed|unexpected end|cut off|incomplete|checksum|not a zip|invalid header|torn",
    re.IGNORECASE,
)


def judge(facts: Facts) -> tuple[tuple[Verdict, ...], tuple[NotJudged, ...]]:
    """All verdicts in the order in which they explain each other, and what stays open."""
    found = [question(facts) for question in _QUESTIONS]
    verdicts = tuple(one for one in found if isinstance(one, Verdict))
    return verdicts, tuple(one for one in found if isinstance(one, NotJudged))


def _exit_zero(facts: Facts) -> Verdict:
    early = [one for one in facts.leg.evictions if one.unfinished_zero]
    if not early:
        left = [one.exit_code for one in _noticed(facts) if not one.killed]
        codes = ", ".join(map(str, sorted(set(left))))
        said = f"After a notice it left with {codes}." if left else "It never left with 0 too soon."
        return Verdict(code="exit-zero", ok=True, reason=said)
    first = early[0]
    return Verdict(
        code="exit-zero",
        ok=False,
        reason=f"Attempt {first.attempt} left with exit code 0 on SIGTERM before the work was done:"
        " a Job counts exit 0 as complete and never starts it again. Leave with 75"
        " (OUTLAST_EXIT_CODE) when interrupted, or run it under `outlast exec --distrust-zero --`.",
    )


def _killed(facts: Facts) -> Verdict | NotJudged:
    given = [one for one in facts.leg.evictions if one.had_full_grace]
    heard_once = any(one.handling is Handling.CAUGHT for one in given)
    # Before its handler is there, no program can hear anything.
    fair = [
        one
        for one in given
        if not one.in_start_up and not (heard_once and one.handling is Handling.DEFAULT)
    ]
    if not fair:
        return NotJudged(code="killed", reason="No eviction with a full grace period landed.")
    killed = [one for one in fair if one.killed]
    if killed:
        said = f"{len(killed)} of {len(fair)} times it was still there after the grace period of "
        said += f"{facts.grace_seconds:g} s and was killed. {_why_killed(killed[0])}"
        return Verdict(code="killed", ok=False, reason=said)
    # A supervisor may wait for signals in ways that do not show, but then it leaves with a code.
    unheard = [one for one in fair if one.handling in NEVER_HEARD and one.exit_code == 0]
    if unheard:
        said = f"{len(unheard)} of {len(fair)} times it never heard SIGTERM, and would have been"
        said += f" killed had it not been done by itself before. {_why_killed(unheard[0])}"
        return Verdict(code="killed", ok=False, reason=said)
    slowest = max(one.left_seconds for one in fair)
    said = f"It left {len(fair)} of {len(fair)} times, at the latest after {slowest:.2f} s of "
    said += f"{facts.grace_seconds:g} s."
    if too_early := sum(one.handling in NEVER_HEARD for one in given if one not in fair):
        said += f" In its start-up it could not hear {too_early} more."
    return Verdict(code="killed", ok=True, reason=said)


def _why_killed(eviction: Eviction) -> str:
    if eviction.handling is Handling.IGNORED:
        return "It ignores SIGTERM. Handle it: save and leave (`outlast.Run`, `outlast.Guard`)."
    if eviction.handling is Handling.DEFAULT and eviction.process in _SHELLS:
        return (
            f"Process 1 is the shell {eviction.process!r}, which passes no signal on. Start the"
            " program with `exec`, or put `outlast exec --` in front; a script that does the work"
            " itself needs a `trap`."
        )
    if eviction.handling is Handling.DEFAULT:
        return (
            "It has no handler for SIGTERM, and process 1 is not stopped by what it does not"
            " handle. Handle it (`outlast.Run`, `outlast.Guard`), or put `outlast exec --` in"
            " front."
        )
    if eviction.writing:
        return (
            f"It was still writing {eviction.writing[0]!r}. Let the save be shorter than the grace"
            " period: save less, or save often and only finish what is under way."
        )
    return "It heard SIGTERM and went on. Look for the notice more often, and leave."


def _torn(facts: Facts) -> Verdict:
    for one in facts.comparisons:
        if one.torn is not None:
            said = f"{one.name} is torn: {one.torn}. Write aside, fsync, then rename."
            return Verdict(code="torn", ok=False, reason=said)
    for attempt in _crashed(facts):
        before = _kill_before(facts, attempt)
        if before is None:
            continue
        hint = _last_line(attempt)
        if before.torn or _TORN_WORDS.search(attempt.output_tail):
            names = ", ".join(before.torn or before.writing) or "what it had saved"
            said = (
                f"Attempt {attempt.number} failed on what the kill of attempt {before.attempt} left"
                f" half written ({names}): {hint} Write aside, fsync, then rename."
            )
            return Verdict(code="torn", ok=False, reason=said)
    return Verdict(code="torn", ok=True, reason="No attempt failed on a file left half written.")


def _crashes(facts: Facts) -> Verdict | NotJudged:
    crashed = _crashed(facts)
    if not crashed:
        return Verdict(code="crashed", ok=True, reason="No attempt failed by itself.")
    if not _torn(facts).ok:
        return NotJudged(code="crashed", reason="Attempts failed on what was torn.")
    first = crashed[0]
    said = (
        f"{len(crashed)} of {len(facts.leg.attempts)} attempts failed by themselves, the first was"
        f" attempt {first.number} with exit code {first.exit_code}: {_last_line(first)} Let it"
        " start in a folder where an earlier attempt has been."
    )
    return Verdict(code="crashed", ok=False, reason=said)


def _not_finished(facts: Facts) -> Verdict:
    reason = _why_not_finished(facts)
    if reason is None:
        finisher = facts.leg.finisher
        number = finisher.number if finisher is not None else len(facts.leg.attempts)
        said = f"The job was complete with attempt {number}."
        return Verdict(code="not-finished", ok=True, reason=said)
    return Verdict(code="not-finished", ok=False, reason=reason)


def _why_not_finished(facts: Facts) -> str | None:
    leg = facts.leg
    if leg.end is LegEnd.CRASH_LOOP:
        last = max(leg.attempts, key=lambda one: one.ended_seconds)
        return (
            f"It failed {times(len(_crashed(facts)))} by itself, which is more than a Job's"
            f" back-off limit: {_last_line(last)}"
        )
    if leg.end is LegEnd.TIMED_OUT:
        return (
            f"It was not done after {format_duration(leg.seconds)}. If it makes no progress between"
            " evictions, save more often; else drill it with fewer --evictions, or more --timeout."
        )
    if facts.finished_when is False:
        return "The job ended with exit code 0, but --finished-when says that it is not finished."
    if facts.missing:
        return (
            f"The job ended with exit code 0, but {facts.missing[0]!r} was not written. Leave with"
            " 0 only when all work is done."
        )
    if facts.workers == 1 and any(one.unfinished_zero for one in leg.evictions):
        return "The job ended with the work undone, because of the exit code 0."
    return None


def _lost_items(facts: Facts) -> Verdict | NotJudged:
    items = [(one, item) for one in facts.comparisons for item in one.items]
    if not items:
        return NotJudged(code="lost-items", reason="No --expect names a file of rows.")
    for one, item in items:
        if item.lost:
            said = f"{item.lost} of {item.items} items are missing in {one.name}, such as "
            said += f"{', '.join(item.lost_examples)}. Store the result first, then acknowledge."
            return Verdict(code="lost-items", ok=False, reason=said)
    count = sum(item.items for _, item in items)
    return Verdict(code="lost-items", ok=True, reason=f"All {count} items are there.")


def _doubled_items(facts: Facts) -> Verdict | NotJudged:
    items = [(one, item) for one in facts.comparisons for item in one.items]
    if not items:
        return NotJudged(code="doubled-items", reason="No --expect names a file of rows.")
    for one, item in items:
        if item.doubled:
            said = f"{item.doubled} items were stored more than once in {one.name}, such as "
            said += f"{', '.join(item.doubled_examples)}. Store under the item's key, so that a"
            said += " second time changes nothing."
            return Verdict(code="doubled-items", ok=False, reason=said)
    return Verdict(code="doubled-items", ok=True, reason="No item was stored twice.")


def _not_identical(facts: Facts) -> Verdict | NotJudged:
    if not facts.comparisons:
        return _not_identical_by_hashes(facts)
    for one in facts.comparisons:
        if one.difference is None:
            continue
        said = f"{one.name} differs from the undisturbed run: {one.difference}."
        if facts.hashes is not None and facts.hashes.divergence is not None:
            said += f" It first went apart at {facts.hashes.divergence}."
        elif not one.items and one.torn is None:
            said += " Save and restore all state, random generators and the position in the data"
            said += " too, and keep times and host names out of the result."
        elif any(item.changed and not (item.lost or item.doubled) for item in one.items):
            said += " If that is no part of the result, say behind '#' what is."
        return Verdict(code="not-identical", ok=False, reason=said)
    names = ", ".join(f"{one.name} ({one.how})" for one in facts.comparisons)
    return Verdict(code="not-identical", ok=True, reason=f"The same as undisturbed: {names}.")


def _not_identical_by_hashes(facts: Facts) -> Verdict | NotJudged:
    if facts.figures is None:
        said = "Without a baseline there is nothing to compare."
        return NotJudged(code="not-identical", reason=said)
    if facts.hashes is None or not facts.hashes.steps:
        said = "No --expect names a file to compare."
        return NotJudged(code="not-identical", reason=said)
    if facts.hashes.divergence is not None:
        said = f"The state went apart from the undisturbed run at {facts.hashes.divergence}."
        return Verdict(code="not-identical", ok=False, reason=said)
    said = f"The state was the same, bit for bit, after {facts.hashes.steps} compared steps, the"
    said += f" last of them {facts.hashes.last_step}."
    return Verdict(code="not-identical", ok=True, reason=said)


def _inconclusive(facts: Facts) -> Verdict | NotJudged:
    if unproven := [one for one in facts.leg.evictions if one.unproven_zero]:
        said = f"Attempt {unproven[0].attempt} left with exit code 0 after SIGTERM, and nothing"
        said += " shows whether the work was done by then. Name what does: --expect FILE, with a"
        said += " baseline, or --finished-when TEST."
        return Verdict(code="inconclusive", ok=False, reason=said)
    landed = facts.leg.landed
    if landed >= facts.needed:
        said = f"All {landed} evictions landed."
        return Verdict(code="inconclusive", ok=True, reason=said)
    if _why_not_finished(facts) is not None:
        said = f"Only {landed} of {facts.needed} evictions landed, because the job had ended."
        return NotJudged(code="inconclusive", reason=said)
    said = f"Only {landed} of {facts.needed} evictions landed before the job was done in"
    said += f" {format_duration(facts.leg.work_seconds)} of work."
    if _found_leftovers(facts):
        said += " Undisturbed it took far longer, so it seems to have found what that run left"
        said += " outside its folder. Keep all state below {dir}, or clean it up with --reset."
    else:
        said += " Give it more to do, or fewer --evictions."
    return Verdict(code="inconclusive", ok=False, reason=said)


def _found_leftovers(facts: Facts) -> bool:
    first = facts.leg.attempts[0]
    return (
        facts.figures is not None
        and first.ended is Ended.FINISHED
        and first.seconds < _LEFTOVERS_SHARE * facts.figures.seconds
    )


def times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


def _noticed(facts: Facts) -> list[Eviction]:
    return [one for one in facts.leg.evictions if one.notice]


def _crashed(facts: Facts) -> list[Attempt]:
    return [one for one in facts.leg.attempts if one.ended is Ended.FAILED]


def _kill_before(facts: Facts, attempt: Attempt) -> Eviction | None:
    """The last eviction by a kill before an attempt began."""
    kills = [
        one
        for one in facts.leg.evictions
        if one.killed and one.at_seconds + one.left_seconds <= attempt.started_seconds + 0.001
    ]
    return max(kills, key=lambda one: one.at_seconds, default=None)


def _last_line(attempt: Attempt) -> str:
    lines = [line for line in attempt.output_tail.splitlines() if line.strip()]
    return f"{lines[-1].strip()[:200]!r}." if lines else "It printed nothing."


_QUESTIONS: tuple[Callable[[Facts], Verdict | NotJudged], ...] = (
    _not_finished,
    _exit_zero,
    _killed,
    lambda facts: started_over(facts, is_finished=_why_not_finished(facts) is None),
    _torn,
    _crashes,
    _not_identical,
    _lost_items,
    _doubled_items,
    _inconclusive,
)
