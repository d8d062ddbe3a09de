"""What a run's journal tells, as the plain numbers that planning takes. Reads, never writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from outlast._base.interval import SaveCost
from outlast.capacity.learn import Seen
from outlast.capacity.why import Spent
from outlast.errors import OutlastError
from outlast.journal.derive import AttemptSummary, Ending, Summary, summarise
from outlast.journal.events import AttemptStarted, Event, Left, Resumed, Saved
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.storage.opening import open_store

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """A run: its attempts, and what follows from them."""

    url: str
    records: tuple[AttemptRecord, ...]
    summary: Summary


def open_journal(url: str) -> Journal:
    """The journal of a run. Raises if nothing was ever written down there."""
    store = open_store(url)
    records = tuple(read_journal(store))
    if not records:
        raise OutlastError(
            f"There is no journal in {store.url}.",
            hint="Name a run, such as ./run or gs://bucket/run: a folder that outlast.Run wrote.",
        )
    return Journal(url=store.url, records=records, summary=summarise(records))


def seen_in(journals: Sequence[Journal], *, nodes: int = 1) -> Seen:
    """What all these runs have shown, together."""
    records = [record for journal in journals for record in journal.records]
    summaries = [journal.summary for journal in journals]
    attempts = [attempt for summary in summaries for attempt in summary.attempts]
    saves = [save for record in records for save in _all(record, Saved)]
    missed = sum(summary.interruptions_missed for summary in summaries)
    return Seen(
        running_seconds=sum(summary.running_seconds for summary in summaries),
        announced=sum(summary.interruptions_announced for summary in summaries) - missed,
        missed=missed,
        unannounced=sum(summary.interruptions_unannounced for summary in summaries),
        costs=[
            SaveCost(
                stall_seconds=max(0.0, save.stall_seconds),
                durable_seconds=max(0.0, save.seconds),
                slow_seconds=max(0.0, save.slow_seconds),
            )
            for save in saves
        ],
        size_bytes=max((save.bytes_total for save in saves), default=None),
        restarts_seconds=[start for record in records if (start := _start(record)) > 0],
        waits_seconds=[
            attempt.waited_seconds for summary in summaries for attempt in summary.attempts[1:]
        ],
        graces_seconds=_graces(records, attempts),
        nodes=nodes,
    )


def spent_in(journal: Journal) -> Spent:
    """Where the time of one run went."""
    summary = journal.summary
    step_seconds = summary.step_seconds or 0.0
    missed = [
        attempt.steps_lost
        for attempt in summary.attempts
        if attempt.ending is Ending.ANNOUNCED and not attempt.kept_all
    ]
    saving = summary.stall_seconds_total + summary.slow_seconds_total
    work = min(summary.useful_seconds, summary.total_seconds)
    redone = summary.steps_lost * step_seconds
    starting = sum(_start(record) for record in journal.records)
    leaving = sum(
        attempt.grace.used_seconds for attempt in summary.attempts if attempt.grace is not None
    )
    # A kill leaves no last word, so that the last moments before it look like waiting.
    known = work + redone + saving + starting + leaving
    waiting = max(0.0, min(summary.restart_seconds, summary.total_seconds - known))
    return Spent(
        total_seconds=summary.total_seconds,
        work_seconds=work,
        redone_seconds=redone,
        saving_seconds=saving,
        starting_seconds=starting,
        waiting_seconds=waiting,
        leaving_seconds=leaving,
        interruptions=summary.interruptions_announced + summary.interruptions_unannounced,
        losses=summary.interruptions_unannounced + summary.interruptions_missed,
        saves=summary.saves,
        save_seconds=saving / summary.saves if summary.saves else 0.0,
        missed_seconds=sum(missed) * step_seconds,
    )


def _graces(records: Sequence[AttemptRecord], attempts: Sequence[AttemptSummary]) -> list[float]:
    """What was really given: as told if the process left by itself, else until it was killed."""
    graces = []
    for record, attempt in zip(records, attempts, strict=True):
        if attempt.ending is not Ending.ANNOUNCED or attempt.grace is None:
            continue
        if _all(record, Left):
            graces.append(attempt.grace.given_seconds)
        else:
            graces.append(min(attempt.grace.used_seconds, attempt.grace.given_seconds))
    return [grace for grace in graces if grace > 0]


def _start(record: AttemptRecord) -> float:
    """From the claim of an attempt until its state was loaded."""
    started, resumed = _all(record, AttemptStarted), _all(record, Resumed)
    if not started or not resumed:
        return 0.0
    return _between(started[0].at, resumed[0].at)


def _between(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


def _all(record: AttemptRecord, kind: type[E]) -> list[E]:
    return [event for event in record.events if isinstance(event, kind)]
