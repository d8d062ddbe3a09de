"""Checks of the result: the same as the baseline's, with every item exactly once. Pure.

A job can differ from itself without any eviction. Then a difference proves nothing, so it warns.
"""

from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.items import ItemDifference
from outlast.drills.judge.verdict import (
    Check,
    CheckResult,
    Observations,
    failed,
    not_applicable,
    passed,
)

_NO_ROWS = "No --expect names a file of rows."
_NOT_ITSELF = (
    "The job is not deterministic by itself: seed its random generators, or compare only what is"
    " the same in every run (select it after '#', or use --tolerance)."
)


def differs(observed: Observations) -> bool:
    """Whether the result differs in a way that the job could show without evictions too."""
    by_hash = observed.hashes is not None and observed.hashes.divergence is not None
    return by_hash or result_differs(observed)


def result_differs(observed: Observations) -> bool:
    """Whether an expected file is there and complete, but differs from that of the baseline."""
    return any(one.difference and not (one.torn or one.missing) for one in observed.comparisons)


def identical(observed: Observations) -> Check:
    if not observed.comparisons:
        return _identical_by_hashes(observed)
    differing = [one for one in observed.comparisons if one.difference is not None]
    if not differing:
        names = ", ".join(f"{one.name} ({one.how})" for one in observed.comparisons)
        return passed("identical", f"Same as the baseline: {names}.")
    itself = {one.name: one.difference for one in observed.repeat if one.difference is not None}
    for one in differing:
        if one.name not in itself:
            return failed("identical", _difference(observed, one))
    first = differing[0]
    reason = f"{first.name} differs from the baseline: {first.difference}. Two runs without any"
    reason += f" eviction differ too: {itself[first.name]}. {_NOT_ITSELF}"
    return Check(name="identical", result=CheckResult.WARN, reason=reason)


def _difference(observed: Observations, one: Comparison) -> str:
    reason = f"{one.name} differs from the baseline: {one.difference}."
    if observed.repeat:
        reason += " A second run without evictions did not."
    if observed.hashes is not None and observed.hashes.divergence is not None:
        return f"{reason} The runs first diverged {observed.hashes.divergence.where}."
    if not one.items and one.torn is None:
        reason += " Save and restore all state, including random generators and the position in"
        return f"{reason} the data, and keep times and host names out of the result."
    if any(item.changed and not (item.lost or item.doubled) for item in one.items):
        return f"{reason} If that is not part of the result, select what is after '#'."
    return reason


def _identical_by_hashes(observed: Observations) -> Check:
    hashes, repeat = observed.hashes, observed.repeat_hashes
    if observed.figures is None:
        return not_applicable("identical", "There is no baseline to compare with.")
    if observed.expected and observed.job_run.finisher is None:
        names = ", ".join(observed.expected)
        return not_applicable("identical", f"The job did not finish, so {names} was not compared.")
    if observed.missing:
        return not_applicable("identical", f"{observed.missing[0]!r} was not written.")
    if hashes is None or not hashes.steps:
        return not_applicable("identical", "No --expect names a file to compare.")
    if hashes.divergence is None:
        reason = f"The state was the same as in the baseline, bit for bit, at {hashes.steps}"
        return passed("identical", f"{reason} compared steps up to step {hashes.last_step}.")
    reason = f"The state diverged from the baseline {hashes.divergence.where}."
    if repeat is None or repeat.divergence is None:
        return failed("identical", reason)
    reason += f" In two runs without any eviction it diverged too, {repeat.divergence.place}."
    return Check(name="identical", result=CheckResult.WARN, reason=f"{reason} {_NOT_ITSELF}")


def no_lost_items(observed: Observations) -> Check:
    items = _items(observed)
    if not items:
        return not_applicable("no-lost-items", _NO_ROWS)
    for file, item in items:
        if item.lost and (why := _other_keys(observed, file)) is not None:
            return not_applicable("no-lost-items", why)
        if item.lost:
            reason = f"{item.lost} of {item.items} items are missing from {file}, such as "
            reason += f"{', '.join(item.lost_examples)}. Store the result before you acknowledge"
            return failed("no-lost-items", f"{reason} the item.")
    count = sum(item.items for _, item in items)
    return passed("no-lost-items", f"All {count:,} items are present.")


def no_duplicates(observed: Observations) -> Check:
    items = _items(observed)
    if not items:
        return not_applicable("no-duplicates", _NO_ROWS)
    for file, item in items:
        if item.doubled and (why := _other_keys(observed, file)) is not None:
            return not_applicable("no-duplicates", why)
        if item.doubled:
            reason = f"{item.doubled} items were stored more than once in {file}, such as "
            reason += f"{', '.join(item.doubled_examples)}. Store each result under the key of its"
            return failed("no-duplicates", f"{reason} item, so that a second write has no effect.")
    return passed("no-duplicates", "No item was stored twice.")


def _items(observed: Observations) -> list[tuple[str, ItemDifference]]:
    return [(one.name, item) for one in observed.comparisons for item in one.items]


def _other_keys(observed: Observations, file: str) -> str | None:
    """Why items cannot be matched: two runs without evictions have different ones."""
    for one in observed.repeat:
        if one.name == file and any(item.lost or item.doubled for item in one.items):
            return f"Two runs without any eviction store different items in {file}."
    return None
