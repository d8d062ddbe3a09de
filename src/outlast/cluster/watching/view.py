"""One run at one moment: what the cluster and the journal show of it together. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from outlast.cluster.diagnosis.causes.job import ended_at
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.engine import endings, why_waiting
from outlast.cluster.diagnosis.snapshot import Snapshot, moment
from outlast.cluster.watching.figures import FinishTimes, Money, NoEstimate
from outlast.cluster.watching.join import AttemptRow, Retries, attempt_rows, is_alive, retries_of
from outlast.journal.derive import JournalSummary, summarize
from outlast.journal.events import Saved
from outlast.journal.run_journal import RunJournal


class RunState(StrEnum):
    """What a run does. UNKNOWN if only its journal is known, and that has no end."""

    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    GONE = "gone"
    """Its Job was deleted."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress:
    """Figures of all parts of a run together. `saved_step` is that of the newest save."""

    steps_done: int
    steps_planned: int | None
    steps_lost: int
    lost_seconds: float
    evictions_saved: int
    evictions_missed: int
    evictions_unannounced: int
    failures: int
    attempts: int
    saved_at: datetime | None
    saved_step: int | None
    saved_bytes: int | None
    is_final_save: bool
    goodput: float | None
    is_finished: bool
    last_event: datetime | None
    parts: int

    @property
    def evictions(self) -> int:
        return self.evictions_saved + self.evictions_missed + self.evictions_unannounced


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """What to show of a run. `gaps` says what is missing and how to get it, one sentence each.

    `as_of` is set if the connection to the cluster is lost: how old the picture is.
    """

    name: str
    namespace: str
    now: datetime
    state: RunState
    since: datetime | None
    why: Diagnosis | None
    progress: RunProgress | None
    attempts: tuple[AttemptRow, ...]
    retries: Retries | None
    money: Money | None
    finish: FinishTimes | NoEstimate | None
    tier: str
    machine: str
    url: str
    pods_running: int = 0
    pods_wanted: int = 0
    alarms: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    as_of: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSources:
    """What a view is made of. `snapshot` is None without a cluster.

    `is_final`: the journals were read after the run had ended in the cluster.
    """

    name: str
    namespace: str
    now: datetime
    snapshot: Snapshot | None
    journals: tuple[RunJournal, ...] = ()
    is_final: bool = False
    money: Money | None = None
    finish: FinishTimes | NoEstimate | None = None
    url: str = ""
    gaps: tuple[str, ...] = ()
    as_of: datetime | None = None


def view_of(sources: RunSources) -> RunView:
    """Join everything that is known of a run."""
    snapshot, journals = sources.snapshot, sources.journals
    ended = endings(snapshot) if snapshot else ()
    progress = progress_of(journals, snapshot)
    state = state_of(snapshot, progress)
    rows = attempt_rows(journals, snapshot, ended)
    tier, machine = _place(snapshot, journals)
    return RunView(
        name=sources.name,
        namespace=sources.namespace,
        now=sources.now,
        state=state,
        since=state_since(state, snapshot, progress, rows),
        why=_why(sources, state),
        progress=progress,
        attempts=rows,
        retries=retries_of(snapshot, ended) if snapshot else None,
        money=sources.money,
        finish=sources.finish,
        tier=tier,
        machine=machine,
        url=sources.url,
        pods_running=_running(snapshot),
        pods_wanted=sum(job.parallelism for job in snapshot.jobs) if snapshot else 0,
        alarms=_alarms(state, progress) if sources.is_final else (),
        gaps=sources.gaps,
        as_of=sources.as_of,
    )


def state_of(snapshot: Snapshot | None, progress: RunProgress | None) -> RunState:
    if snapshot is None:
        is_finished = progress is not None and progress.is_finished
        return RunState.FINISHED if is_finished else RunState.UNKNOWN
    owners = snapshot.job_sets or snapshot.jobs
    if not owners:
        is_finished = progress is not None and progress.is_finished
        return RunState.FINISHED if is_finished else RunState.GONE
    if any(one.is_true("Failed") for one in owners):
        return RunState.FAILED
    if all(one.is_true("Complete") or one.is_true("Completed") for one in owners):
        return RunState.FINISHED
    if snapshot.suspended and not _running(snapshot):
        return RunState.STOPPED if is_stopped(snapshot) else RunState.WAITING
    return RunState.RUNNING if _running(snapshot) else RunState.WAITING


def is_stopped(snapshot: Snapshot) -> bool:
    """Whether a person has to resume it: it is suspended without a queue, or deactivated."""
    workloads = [snapshot.workload_of(one.uid) for one in snapshot.suspended]
    if any(one is not None and not one.is_active for one in workloads):
        return True
    return not any(one.queue for one in snapshot.suspended) and not any(workloads)


def progress_of(journals: Sequence[RunJournal], snapshot: Snapshot | None) -> RunProgress | None:
    """The figures of all parts together, None without a journal."""
    found = [
        (one, summarize(one.records, is_live=is_alive(one, snapshot)))
        for one in journals
        if one.records
    ]
    if not found:
        return None
    summaries = [summary for _, summary in found]
    saves = [
        event
        for journal, _ in found
        for record in journal.records
        for event in record.events
        if isinstance(event, Saved)
    ]
    newest = max(saves, key=lambda save: save.at, default=None)
    events = [one.ended for summary in summaries for one in summary.attempts if one.ended]
    planned = [summary.steps_planned for summary in summaries]
    missed = sum(one.interruptions_missed for one in summaries)
    total_seconds = sum(one.total_seconds for one in summaries)
    return RunProgress(
        steps_done=sum(one.steps_done for one in summaries),
        steps_planned=sum(one or 0 for one in planned) if all(planned) else None,
        steps_lost=sum(one.steps_lost for one in summaries),
        lost_seconds=sum(one.steps_lost * (one.step_seconds or 0.0) for one in summaries),
        evictions_saved=sum(one.interruptions_announced for one in summaries) - missed,
        evictions_missed=missed,
        evictions_unannounced=sum(one.interruptions_unannounced for one in summaries),
        failures=sum(one.failures for one in summaries),
        attempts=sum(len(one.attempts) for one in summaries),
        saved_at=newest.at if newest else None,
        saved_step=newest.step if newest and len(found) == 1 else None,
        saved_bytes=newest.bytes_total if newest else None,
        is_final_save=newest.final if newest else False,
        goodput=_goodput(summaries, total_seconds),
        is_finished=all(one.finished for one in summaries),
        last_event=max(events, default=None),
        parts=len(found),
    )


def _goodput(summaries: Sequence[JournalSummary], total_seconds: float) -> float | None:
    if total_seconds <= 0:
        return None
    return min(1.0, sum(one.useful_seconds for one in summaries) / total_seconds)


def _why(sources: RunSources, state: RunState) -> Diagnosis | None:
    snapshot = sources.snapshot
    if snapshot is None or state in (RunState.FINISHED, RunState.GONE):
        return None
    found = why_waiting(snapshot)
    if state is RunState.STOPPED and found is not None and found.cause == "P23":
        evidence = Evidence(where=f"{snapshot.suspended[0].name}, spec.suspend", text="true")
        return Diagnosis(
            cause="P23",
            summary="It was stopped: its Job is suspended.",
            next_step=f"outlast resume {sources.name} --namespace {sources.namespace}",
            evidence=(evidence,),
        )
    return found


def _running(snapshot: Snapshot | None) -> int:
    if snapshot is None:
        return 0
    return sum(pod.phase == "Running" and not pod.is_deleted for pod in snapshot.pods)


def state_since(
    state: RunState,
    snapshot: Snapshot | None,
    progress: RunProgress | None,
    rows: Sequence[AttemptRow],
) -> datetime | None:
    """Since when the state lasts, None if that is not known."""
    if state is RunState.RUNNING:
        starts = [row.started for row in rows if row.is_running and row.started]
        return min(starts, default=None)
    if snapshot is None:
        return progress.last_event if progress else None
    owners = (*snapshot.job_sets, *snapshot.jobs)
    kinds = ("Failed", "Complete", "Completed", "Suspended")
    conditions = [
        found.since
        for one in owners
        for kind in kinds
        if (found := one.condition(kind)) is not None and found.is_true and found.since
    ]
    if state in (RunState.FAILED, RunState.FINISHED, RunState.STOPPED) and conditions:
        return max(conditions)
    ended = [ended_at(pod) for pod in snapshot.pods if pod.phase in ("Failed", "Succeeded")]
    times = [row.ended for row in rows if row.ended]
    begun = [one.created for one in owners if one.created]
    known = [time for time in (*ended, *times, *begun) if time is not None]
    return max(known, key=moment, default=None)


def _place(snapshot: Snapshot | None, journals: Sequence[RunJournal]) -> tuple[str, str]:
    jobs = snapshot.jobs if snapshot else ()
    places = [one.place for journal in journals for one in journal.summary.attempts]
    tiers = [job.tier for job in jobs] + [place.tier or "" for place in reversed(places)]
    machines = [job.machine for job in jobs] + [place.machine or "" for place in reversed(places)]
    return next(filter(None, tiers), ""), next(filter(None, machines), "")


def _alarms(state: RunState, progress: RunProgress | None) -> tuple[str, ...]:
    if state is RunState.FINISHED and progress is not None and not progress.is_finished:
        return (
            "The Job is complete, but the journal has no end of the run: a Pod exited with 0 "
            "before the work was done. Exit with 75 when interrupted, then submit it again with "
            "--replace.",
        )
    return ()
