"""Convert the journal of a run to the plain numbers used by planning. Read-only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from outlast._base.interval import SaveCost
from outlast.capacity.planning.attempt_price import AttemptUse
from outlast.capacity.planning.learn import RunMeasurements
from outlast.capacity.planning.why import TimeBreakdown
from outlast.errors import OutlastError
from outlast.journal.attempt import Ending
from outlast.journal.derive import AttemptSummary
from outlast.journal.events import AttemptExited, Resumed, Saved
from outlast.journal.place import AttemptPlace
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.journal.run_journal import RunJournal, journal_of
from outlast.storage.opening import open_store

if TYPE_CHECKING:
    from outlast.capacity.workload.spec import WorkloadSpec

_NODES_MAX = 10_000


def open_journal(url: str) -> RunJournal:
    """Read the journal of a run. Raises if there is none; `RunJournal.gaps` lists missing parts."""
    store = open_store(url)
    records = read_journal(store)
    if not records:
        raise OutlastError(
            f"No journal found in {store.url}.",
            hint="Pass the folder or URL of a run, such as ./run or gs://bucket/run.",
        )
    return journal_of(store.url, records)


def node_count(nodes: int | None, workload: "WorkloadSpec | None") -> int:
    """The number of nodes of a run: as given, else from its workload file, else 1."""
    if nodes is None:
        return workload.nodes if workload is not None else 1
    if not 1 <= nodes <= _NODES_MAX:
        raise OutlastError(
            f"--nodes: expected 1 to {_NODES_MAX:,}, got {nodes}.",
            hint="Omit it for a run on one node.",
        )
    return nodes


def measurements_in(journals: Sequence[RunJournal], *, nodes: int = 1) -> RunMeasurements:
    """The combined measurements of all these runs."""
    summaries = [journal.summary for journal in journals]
    pairs = [pair for journal in journals for pair in _attempts(journal)]
    saves = [save for record, _ in pairs for save in _saves(record)]
    missed = sum(summary.interruptions_missed for summary in summaries)
    return RunMeasurements(
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
            # An attempt that ended before its first step does not show how long a start takes.
            if _has(record, Resumed) and attempt.last_step > (attempt.first_step or 0)
        ],
        waits_seconds=[
            attempt.waited_seconds for summary in summaries for attempt in summary.attempts[1:]
        ],
        graces_seconds=[grace for pair in pairs if (grace := _grace_seconds(*pair)) > 0],
        lives=[
            (attempt.seconds, attempt.ending in (Ending.ANNOUNCED, Ending.KILLED))
            for _, attempt in pairs
            if attempt.seconds > 0
        ],
        nodes=nodes,
    )


def time_breakdown(journal: RunJournal) -> TimeBreakdown:
    """How the time of one run was spent. No second counts twice, even with bad clocks."""
    summary = journal.summary
    step_seconds = summary.step_seconds or 0.0
    # A final save counts as shutting down.
    saves = [save for record in journal.records for save in _saves(record) if not save.final]
    missed = [
        attempt.steps_lost
        for attempt in summary.attempts
        if attempt.ending is Ending.ANNOUNCED and not attempt.kept_all
    ]
    # Waiting is what no attempt covers, so that it agrees with the attempts. A save that slows the
    # loop down is measured less exactly than a step, so it comes after the work.
    waiting, starting, leaving, work, saving, redone = _capped(
        summary.total_seconds,
        summary.restart_seconds,
        sum(attempt.starting_seconds for attempt in summary.attempts),
        sum(attempt.grace.used_seconds for attempt in summary.attempts if attempt.grace),
        summary.useful_seconds,
        sum(save.stall_seconds + save.slow_seconds for save in saves),
        summary.steps_lost * step_seconds
        + sum(attempt.unrecorded_seconds for attempt in summary.attempts),
    )
    return TimeBreakdown(
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


def attempt_uses(
    journal: RunJournal, nodes: Mapping[str, AttemptPlace] | None = None
) -> list[AttemptUse]:
    """What each attempt used, as it has stated. `nodes` adds what is known of its node."""
    return [_use(attempt, (nodes or {}).get) for attempt in journal.summary.attempts]


def _use(attempt: AttemptSummary, find: Callable[[str], AttemptPlace | None]) -> AttemptUse:
    stated = attempt.place
    node = find(stated.node or "") or AttemptPlace()
    return AttemptUse(
        attempt=attempt.attempt,
        seconds=attempt.seconds,
        tier=stated.tier or node.tier,
        machine=stated.machine or node.machine,
        location=stated.zone or node.zone,
    )


def _attempts(journal: RunJournal) -> Iterator[tuple[AttemptRecord, AttemptSummary]]:
    return zip(journal.records, journal.summary.attempts, strict=True)


def _grace_seconds(record: AttemptRecord, attempt: AttemptSummary) -> float:
    """The actual grace period: as announced if the process exited itself, else until the kill."""
    if attempt.ending is not Ending.ANNOUNCED or attempt.grace is None:
        return 0.0
    if _has(record, AttemptExited):
        return attempt.grace.given_seconds
    return min(attempt.grace.used_seconds, attempt.grace.given_seconds)


def _capped(total: float, *parts: float) -> Iterator[float]:
    """The parts, each limited to what the previous ones have left of the total."""
    for part in parts:
        taken = min(part, total)
        yield taken
        total -= taken


def _saves(record: AttemptRecord) -> list[Saved]:
    return [event for event in record.events if isinstance(event, Saved)]


def _has(record: AttemptRecord, kind: type[AttemptExited] | type[Resumed]) -> bool:
    return any(isinstance(event, kind) for event in record.events)
