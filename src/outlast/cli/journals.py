"""What a run's journal tells, as the plain numbers that planning takes. Changes nothing."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast._base.interval import SaveCost
from outlast.capacity.learn import Seen
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.why import Spent
from outlast.errors import OutlastError
from outlast.journal.attempt import Ending, believed
from outlast.journal.derive import AttemptSummary, Summary, summarise
from outlast.journal.events import Left, Resumed, Saved
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.storage.opening import open_store

_NODES_MAX = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """A run: its attempts, without what cannot be believed, and what follows from them."""

    url: str
    records: tuple[AttemptRecord, ...]
    summary: Summary


def open_journal(url: str) -> Journal:
    """The journal of a run; what is missing in it is told on stderr.

    Raises if nothing was ever written down there.
    """
    store = open_store(url)
    records = tuple(believed(record) for record in read_journal(store))
    if not records:
        raise OutlastError(
            f"There is no journal in {store.url}.",
            hint="Name a run, such as ./run or gs://bucket/run: a folder that outlast.Run wrote.",
        )
    journal = Journal(url=store.url, records=records, summary=summarise(records))
    _warn_of_gaps(journal)
    return journal


def node_count(nodes: int | None, workload: WorkloadSpec | None) -> int:
    """How many nodes a run had: as given, else as its workload file says, else one."""
    if nodes is None:
        return workload.nodes if workload is not None else 1
    if not 1 <= nodes <= _NODES_MAX:
        raise OutlastError(
            f"--nodes is {nodes}; a run has 1 to {_NODES_MAX:,}.",
            hint="Leave it out for a run on one node.",
        )
    return nodes


def seen_in(journals: Sequence[Journal], *, nodes: int = 1) -> Seen:
    """What all these runs have shown, together."""
    summaries = [journal.summary for journal in journals]
    pairs = [pair for journal in journals for pair in _attempts(journal)]
    saves = [save for record, _ in pairs for save in _saves(record)]
    missed = sum(summary.interruptions_missed for summary in summaries)
    return Seen(
        running_seconds=sum(summary.running_seconds for summary in summaries),
        announced=sum(summary.interruptions_announced for summary in summaries) - missed,
        missed=missed,
        unannounced=sum(summary.interruptions_unannounced for summary in summaries),
        costs=[
            SaveCost(
                stall_seconds=save.stall_seconds,
                durable_seconds=save.seconds,
                slow_seconds=save.slow_seconds,
            )
            for save in saves
        ],
        size_bytes=max((save.bytes_total for save in saves), default=None),
        restarts_seconds=[
            attempt.starting_seconds
            for record, attempt in pairs
            # One that was over before its first step does not show how long that takes.
            if _has(record, Resumed) and attempt.last_step > (attempt.first_step or 0)
        ],
        waits_seconds=[
            attempt.waited_seconds for summary in summaries for attempt in summary.attempts[1:]
        ],
        graces_seconds=[grace for pair in pairs if (grace := _grace_seconds(*pair)) > 0],
        nodes=nodes,
    )


def spent_in(journal: Journal) -> Spent:
    """Where the time of one run went. No second counts twice, whatever the clocks said."""
    summary = journal.summary
    step_seconds = summary.step_seconds or 0.0
    # A final save is a part of leaving.
    saves = [save for record in journal.records for save in _saves(record) if not save.final]
    missed = [
        attempt.steps_lost
        for attempt in summary.attempts
        if attempt.ending is Ending.ANNOUNCED and not attempt.kept_all
    ]
    # What was measured comes first, then what follows from the mean of a step. A kill leaves no
    # last word, so that the last moments before it look like waiting, which takes what is left.
    starting, leaving, saving, work, redone, waiting = _capped(
        summary.total_seconds,
        sum(attempt.starting_seconds for attempt in summary.attempts),
        sum(attempt.grace.used_seconds for attempt in summary.attempts if attempt.grace),
        sum(save.stall_seconds + save.slow_seconds for save in saves),
        summary.useful_seconds,
        summary.steps_lost * step_seconds,
        summary.restart_seconds,
    )
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
        saves=len(saves),
        save_seconds=saving / len(saves) if saves else 0.0,
        missed_seconds=min(redone, sum(missed) * step_seconds),
    )


def _warn_of_gaps(journal: Journal) -> None:
    summary = journal.summary
    gaps = []
    if summary.lines_garbled:
        gaps.append(f"lines that cannot be read: {summary.lines_garbled:,}")
    if summary.events_dropped:
        gaps.append(f"events never written: {summary.events_dropped:,}")
    if gaps:
        print(
            f"warning: The journal of {journal.url} has gaps ({'; '.join(gaps)}). "
            "What follows is known from the rest.",
            file=sys.stderr,
        )


def _attempts(journal: Journal) -> Iterator[tuple[AttemptRecord, AttemptSummary]]:
    return zip(journal.records, journal.summary.attempts, strict=True)


def _grace_seconds(record: AttemptRecord, attempt: AttemptSummary) -> float:
    """What was really given: as told if the process left by itself, else until it was killed."""
    if attempt.ending is not Ending.ANNOUNCED or attempt.grace is None:
        return 0.0
    if _has(record, Left):
        return attempt.grace.given_seconds
    return min(attempt.grace.used_seconds, attempt.grace.given_seconds)


def _capped(whole: float, *parts: float) -> Iterator[float]:
    """The parts, each with at most what those before it have left of the whole."""
    for part in parts:
        taken = min(part, whole)
        yield taken
        whole -= taken


def _saves(record: AttemptRecord) -> list[Saved]:
    return [event for event in record.events if isinstance(event, Saved)]


def _has(record: AttemptRecord, kind: type[Left] | type[Resumed]) -> bool:
    return any(isinstance(event, kind) for event in record.events)
