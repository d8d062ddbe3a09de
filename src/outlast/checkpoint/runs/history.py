"""Statistics of earlier attempts: how often they were interrupted, and what their saves cost.

The file by which an attempt claims its number holds the totals of all attempts before it. The next
attempt reads that file and the journals of the last two attempts, so a start costs the same after
ten attempts and after ten thousand. The previous attempt may still be alive when the next one
starts; how it ended is judged one attempt later.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from outlast._base.interval import COSTS_KEPT, Observed, SaveCost
from outlast.checkpoint.runs import fence
from outlast.journal.attempt import plausible
from outlast.journal.derive import summarize
from outlast.journal.events import Resumed, Saved
from outlast.journal.reader import AttemptRecord, read_attempt, read_journal
from outlast.storage import NotFound, Store, read_json_object

# More journals are read if attempts could not store totals, up to a maximum.
_USUAL = 2
_ATTEMPTS_READ_MAX = 50
_COUNT_MAX = 2**60
_SECONDS_MAX = 1e15


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The totals of all attempts up to `through`. `has_saved`: one of them has committed."""

    through: int = 0
    observed: Observed = field(default_factory=Observed)
    costs: tuple[SaveCost, ...] = ()
    bytes_last: int | None = None
    has_saved: bool = False

    def plus(self, records: Sequence[AttemptRecord], *, through: int) -> "History":
        """The totals with these later attempts added, all of which have ended."""
        records = [plausible(record) for record in records]
        summary = summarize(records, is_live=False)
        seen, missed = self.observed, summary.interruptions_missed
        saves = [event for record in records for event in record.events if isinstance(event, Saved)]
        costs = [SaveCost(stall_seconds=s.stall_seconds, durable_seconds=s.seconds) for s in saves]
        resumed = any(isinstance(event, Resumed) for record in records for event in record.events)
        return replace(
            self,
            through=through,
            observed=Observed(
                running_seconds=seen.running_seconds + summary.running_seconds,
                announced=seen.announced + summary.interruptions_announced - missed,
                missed=seen.missed + missed,
                unannounced=seen.unannounced + summary.interruptions_unannounced,
            ),
            costs=(*self.costs, *costs)[-COSTS_KEPT:],
            bytes_last=saves[-1].bytes_total if saves else self.bytes_last,
            has_saved=self.has_saved or bool(saves) or resumed,
        )

    def to_facts(self) -> dict[str, object]:
        """The totals in the form that an attempt file holds."""
        return {
            "history": {
                "through": self.through,
                "running_seconds": self.observed.running_seconds,
                "announced": self.observed.announced,
                "missed": self.observed.missed,
                "unannounced": self.observed.unannounced,
                "costs": [[cost.stall_seconds, cost.durable_seconds] for cost in self.costs],
                "bytes_last": self.bytes_last,
                "has_saved": self.has_saved,
            }
        }


def read_history(store: Store, newest: int) -> tuple[History, History]:
    """The totals up to the attempt before `newest`, and up to `newest`.

    The first is what the next attempt should store. If no totals were stored, because an older
    version made the attempts, the complete journal is read.
    """
    if newest == 0:
        return History(), History()
    # All at once, because each request to a distant store takes its time.
    with ThreadPoolExecutor(_USUAL + 1, thread_name_prefix="outlast-history") as pool:
        usual = range(max(1, newest - _USUAL + 1), newest + 1)
        journals = {one: pool.submit(read_attempt, store, one) for one in usual}
        known = _stored_totals(store, newest)
        if known is None:
            known, records = History(), read_journal(store)
        else:
            first = max(known.through, newest - _ATTEMPTS_READ_MAX) + 1
            journals |= {
                one: pool.submit(read_attempt, store, one) for one in range(first, usual[0])
            }
            found = (journals[one].result() for one in range(first, newest + 1))
            records = [record for record in found if record is not None]
    settled = known.plus([r for r in records if r.attempt < newest], through=newest - 1)
    return settled, settled.plus([r for r in records if r.attempt == newest], through=newest)


def _stored_totals(store: Store, attempt: int) -> History | None:
    """The totals in the file of an attempt; None if there are none, or they cannot be right."""
    try:
        facts = read_json_object(store, fence.name_of(attempt))["history"]
        found = _parsed(facts)
    except (NotFound, ValueError, KeyError, TypeError):
        return None
    return found if found.through < attempt else None


def _parsed(facts: Mapping[str, Any]) -> History:
    """Raises `ValueError`, `KeyError` or `TypeError` for anything that no attempt writes."""
    bytes_last = facts["bytes_last"]
    return History(
        through=_count(facts["through"]),
        observed=Observed(
            running_seconds=_seconds(facts["running_seconds"]),
            announced=_count(facts["announced"]),
            missed=_count(facts["missed"]),
            unannounced=_count(facts["unannounced"]),
        ),
        costs=tuple(
            SaveCost(stall_seconds=_seconds(stall), durable_seconds=_seconds(durable))
            for stall, durable in facts["costs"][-COSTS_KEPT:]
        ),
        bytes_last=None if bytes_last is None else _count(bytes_last),
        has_saved=facts["has_saved"] is True,
    )


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _COUNT_MAX:
        raise ValueError(f"{value!r} is not a count.")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number of seconds.")
    if not 0 <= value <= _SECONDS_MAX:
        raise ValueError(f"{value!r} is not a number of seconds.")
    return float(value)
