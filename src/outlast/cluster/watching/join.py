"""The attempts of a run: what its journal recorded, joined with the Pods by their UID. Pure.

The journal is the true count: Pods disappear within a second of some evictions. A Pod without an
attempt never got as far as the journal, such as one that a node refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from outlast._base.durations import format_duration
from outlast.cluster.diagnosis.causes.cause import name
from outlast.cluster.diagnosis.causes.endings import has_ended
from outlast.cluster.diagnosis.causes.job import ended_at
from outlast.cluster.diagnosis.engine import PodEnding, all_causes
from outlast.cluster.diagnosis.facts import PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.errors import shown
from outlast.journal.attempt import Ending
from outlast.journal.derive import AttemptSummary, summarize
from outlast.journal.events import AttemptFailed
from outlast.journal.run_journal import RunJournal

_TITLES = {cause.id: cause.title for cause in all_causes()}
_PROGRAM_CAUSES = ("E15", "E21")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRow:
    """One attempt. `number` is None for a Pod that did not get as far as the journal.

    `part` is the subfolder of an indexed Job. `how` says how it ended, or that it runs.
    """

    number: int | None
    part: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    is_running: bool = False
    how: str = ""
    cause: str | None = None
    steps_lost: int = 0
    pod: str = ""
    node: str = ""
    zone: str = ""
    is_counted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """Failures that the Job counts against its limit, and who caused them as far as known."""

    used: int
    limit: int | None
    is_per_index: bool
    by_nodes: int
    by_program: int

    @property
    def by_unknown(self) -> int:
        return max(0, self.used - self.by_nodes - self.by_program)


def is_alive(journal: RunJournal, snapshot: Snapshot | None) -> bool:
    """Whether the newest attempt of a journal may still run."""
    if snapshot is None:
        return True
    uid = journal.summary.attempts[-1].place.pod_uid if journal.summary.attempts else None
    if not snapshot.is_current and not any(pod.uid == uid for pod in snapshot.pods):
        # The journal may be newer than what is known of the Pods.
        return True
    active = [pod for pod in snapshot.pods if not has_ended(pod)]
    if uid is None:
        # Written by a manifest that states no Pod: any Pod may be the one.
        return any(pod.phase == "Running" for pod in active)
    return any(pod.uid == uid for pod in active)


def ends_of(journals: Sequence[RunJournal], snapshot: Snapshot) -> tuple[datetime, ...]:
    """When the attempts ended, if the Pod of the newest is gone. Not for a run of several parts."""
    if len(journals) != 1 or any(not has_ended(pod) for pod in snapshot.pods):
        return ()
    attempts = summarize(journals[0].records, is_live=False).attempts
    newest = attempts[-1].place.pod_uid if attempts else None
    if any(newest is None or pod.uid == newest for pod in snapshot.pods):
        return ()
    return tuple(attempt.ended for attempt in attempts if attempt.ended is not None)


def attempt_rows(
    journals: Sequence[RunJournal], snapshot: Snapshot | None, endings: Sequence[PodEnding]
) -> tuple[AttemptRow, ...]:
    """All attempts and the Pods that have none, newest first."""
    by_uid = {ending.pod.uid: ending for ending in endings}
    pods = {pod.uid: pod for pod in snapshot.pods} if snapshot else {}
    rows: list[AttemptRow] = []
    joined: set[str] = set()
    for journal in journals:
        part = journal.url.rstrip("/").rpartition("/")[2] if len(journals) > 1 else ""
        summary = summarize(journal.records, is_live=is_alive(journal, snapshot))
        for record, attempt in zip(journal.records, summary.attempts, strict=True):
            uid = attempt.place.pod_uid or ""
            joined.add(uid)
            failed = [event for event in record.events if isinstance(event, AttemptFailed)]
            error = failed[-1].error if failed else ""
            row = _row(attempt, part, by_uid.get(uid), pods.get(uid), error)
            # The journal alone does not show whether an attempt without an end still runs.
            is_guess = snapshot is None and row.is_running
            rows.append(_unended(row, attempt) if is_guess else row)
    rows += _without_journal(endings, pods, joined)
    return tuple(sorted(rows, key=_moment, reverse=True))


def retries_of(snapshot: Snapshot, endings: Sequence[PodEnding]) -> Retries | None:
    """None if the run has no Job."""
    if snapshot.job_sets:
        found = snapshot.job_sets[0]
        given = _shared_out(found.restarts_counted, endings)
        return Retries(limit=found.restarts_max, is_per_index=False, **given)
    if not snapshot.jobs:
        return None
    per_index = snapshot.jobs[0].limit_per_index
    limit = snapshot.jobs[0].backoff_limit if per_index is None else per_index
    given = _shared_out(sum(job.failed for job in snapshot.jobs), endings)
    return Retries(limit=limit, is_per_index=per_index is not None, **given)


def _shared_out(used: int, endings: Sequence[PodEnding]) -> dict[str, int]:
    """Who used the retries. Nobody is named if more Pods seem to count than the Job has counted."""
    counted = [ending for ending in endings if ending.is_counted]
    if len(counted) > used:
        return {"used": used, "by_nodes": 0, "by_program": 0}
    by_program = sum(one.diagnosis.cause in (*_PROGRAM_CAUSES, None) for one in counted)
    return {"used": used, "by_nodes": len(counted) - by_program, "by_program": by_program}


def _row(
    attempt: AttemptSummary,
    part: str,
    ending: PodEnding | None,
    pod: PodFact | None,
    error: str,
) -> AttemptRow:
    is_open = attempt.ending is Ending.OPEN
    return AttemptRow(
        number=attempt.attempt,
        part=part,
        started=attempt.started,
        ended=None if is_open else attempt.ended,
        is_running=is_open,
        how=_how(attempt, ending, error),
        cause=ending.diagnosis.cause if ending else None,
        steps_lost=attempt.steps_lost,
        pod=name(attempt.place.pod or (pod.name if pod else "")),
        node=name(attempt.place.node or (pod.node if pod else "")),
        zone=name(attempt.place.zone or ""),
        is_counted=ending.is_counted if ending else False,
    )


def _unended(row: AttemptRow, attempt: AttemptSummary) -> AttemptRow:
    return replace(row, is_running=False, ended=attempt.ended, how="no end in the journal so far")


def _how(attempt: AttemptSummary, ending: PodEnding | None, error: str) -> str:
    cause = ending.diagnosis.cause if ending else None
    title = _TITLES.get(cause or "", "")
    lost = f"{attempt.steps_lost:,} steps lost"
    match attempt.ending:
        case Ending.OPEN:
            return "running"
        case Ending.FINISHED:
            return "finished"
        case Ending.FENCED:
            return "replaced by a newer attempt"
        case Ending.LEFT:
            return "exited by itself before the end"
        case Ending.FAILED:
            return f"failed: {_first_line(error)}" if error else "failed"
        case Ending.ANNOUNCED:
            return f"{title or 'evicted with notice'}, {_outcome(attempt, lost)}"
        case Ending.KILLED:
            what = f"{title}, no notice" if title and "notice" not in title else title
            suffix = f"at least {lost}" if attempt.steps_lost else "no steps lost"
            return f"{what or 'killed without notice'}, {suffix}"
    raise AssertionError(attempt.ending)


def _outcome(attempt: AttemptSummary, lost: str) -> str:
    if attempt.steps_lost:
        return lost
    if not attempt.kept_all:
        return "not all work saved"
    grace = attempt.grace
    left = grace.given_seconds - grace.used_seconds if grace else 0.0
    return f"all work saved with {format_duration(left)} left" if left > 0 else "all work saved"


def _without_journal(
    endings: Sequence[PodEnding], pods: dict[str, PodFact], joined: set[str]
) -> Iterator[AttemptRow]:
    ended = {ending.pod.uid: ending for ending in endings}
    for uid, pod in pods.items():
        ending = ended.get(uid)
        if uid in joined or (ending is None and pod.phase != "Running"):
            continue
        title = _TITLES.get((ending and ending.diagnosis.cause) or "", "not recognized")
        reason = f" ({name(pod.reason)})" if pod.reason else ""
        yield AttemptRow(
            number=None,
            started=pod.created,
            ended=ended_at(pod) if ending else None,
            is_running=ending is None,
            how=f"{title}{reason}" if ending else "running, nothing in the journal yet",
            cause=ending.diagnosis.cause if ending else None,
            pod=name(pod.name),
            node=name(pod.node),
            is_counted=ending.is_counted if ending else False,
        )


def _first_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return shown(lines[-1], characters_max=120) if lines else ""


def _moment(row: AttemptRow) -> tuple[bool, float, int]:
    at = row.started or row.ended
    return row.is_running, at.timestamp() if at else 0.0, row.number or 0
