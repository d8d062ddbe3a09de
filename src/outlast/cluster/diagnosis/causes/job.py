"""Jobs that have no Pod: creation fails, an old Pod blocks, a back-off runs, or a restart."""

import re
from collections.abc import Iterator
from datetime import datetime

from outlast.cluster.diagnosis.causes.cause import (
    Cause,
    Text,
    clock,
    condition_evidence,
    event_evidence,
    first_read,
    later,
    name,
)
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import EventFact, JobFact, PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment

BACKOFF_SECONDS = 10.0
BACKOFF_SECONDS_MAX = 600.0
_WAIT = "Wait. The pause doubles with every failure, up to 10 minutes."
_CREATION_SECONDS_MAX = 60.0
"""A Job that is older has had a Pod, unless an event reports why it could not create one."""

_FORBIDDEN = r"\b403\b.*(?:Forbidden|PermissionDenied|AccessDenied|does not have storage\.)"
_CREATE_TEXTS = (
    Text(
        cause="P31",
        pattern=r"exceeded quota: ([^\s,]+), requested: ([^\s,]+)",
        summary="The namespace's ResourceQuota {0} allows no more Pods (requested {1}).",
        next_step="Ask for more quota in the namespace, or request less.",
    ),
    Text(
        cause="P31",
        pattern=r"no PriorityClass with name (\S+) was found",
        summary="The PriorityClass {0} does not exist.",
        next_step="Create it: `outlast submit --setup`, or kubectl apply as an administrator.",
    ),
    Text(
        cause="P31",
        pattern=r"error looking up service account ([^\s:]+)",
        summary="The ServiceAccount {0} does not exist.",
        next_step="Create the ServiceAccount, or correct its name in the Pod.",
    ),
    Text(
        cause="P31",
        pattern=r"GKE Warden rejected the request(?: because it violates one or more constraints)?",
        summary="A policy of GKE (Warden) rejects the Pod.",
        next_step="Change what the evidence names: Autopilot does not allow it.",
    ),
)


def failed_create(snapshot: Snapshot) -> EventFact | None:
    """The newest failure to create a Pod, unless one was created since."""
    found = [snapshot.current_warning(job.uid, "FailedCreate") for job in _open(snapshot)]
    events = [event for event in found if event is not None]
    return max(events, key=lambda event: moment(event.last_seen), default=None)


def _open(snapshot: Snapshot) -> Iterator[JobFact]:
    """Jobs that are neither suspended nor over."""
    for job in snapshot.jobs:
        over = (job.condition(kind) for kind in ("Complete", "Failed", "FailureTarget"))
        if not job.is_suspended and not any(one and one.is_true for one in over):
            yield job


def _cannot_create(snapshot: Snapshot) -> Diagnosis | None:
    event = failed_create(snapshot)
    return first_read(_CREATE_TEXTS, event_evidence(event)) if event else None


def _blocked(snapshot: Snapshot) -> Diagnosis | None:
    for job in _open(snapshot):
        if job.terminating < 1 or job.active:
            continue
        for pod in snapshot.pods:
            node = snapshot.node(pod.node)
            ready = node.condition("Ready") if node else None
            if pod.owner != job.uid or not pod.is_deleted or not ready or ready.is_true is not None:
                continue
            where = f"Node {name(pod.node)}, condition Ready=Unknown"
            return Diagnosis(
                cause="P33",
                summary=(
                    f"The old Pod {name(pod.name)} cannot end: its node {name(pod.node)} does not "
                    "answer. The Job starts no new Pod before that."
                ),
                next_step=(
                    "If the machine is gone, delete the Node object, or add the taint "
                    "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute to it."
                ),
                evidence=(
                    Evidence(
                        where=where, text=f"{ready.reason}: {ready.message}", seen=ready.since
                    ),
                    Evidence(
                        where=f"Job {name(job.name)}, status.terminating",
                        text=str(job.terminating),
                    ),
                ),
            )
    return None


def _no_access(snapshot: Snapshot) -> Diagnosis | None:
    """Without the program's log this would be a guess."""
    if snapshot.has_started is not False:
        return None
    for pod in sorted(snapshot.pods, key=lambda pod: moment(ended_at(pod)), reverse=True):
        log = snapshot.logs.get(pod.uid, "")[-100_000:]
        lines = [line for line in log.splitlines() if re.search(_FORBIDDEN, line[:2000])]
        codes = [one.exit_code for one in pod.containers if one.exit_code]
        if pod.phase == "Failed" and codes and codes[0] != 75 and lines:
            return Diagnosis(
                cause="P42",
                summary="The program has no access to its bucket (403) and exits before it starts.",
                next_step="Check Workload Identity and the bucket's permissions: `outlast doctor`.",
                evidence=(
                    Evidence(where=f"log of Pod {name(pod.name)}", text=lines[-1]),
                    Evidence(where=f"Pod {name(pod.name)}, exit code", text=str(codes[0])),
                ),
            )
    return None


def _backoff(snapshot: Snapshot) -> Diagnosis | None:
    for job in _open(snapshot):
        if job.active or job.terminating:
            continue
        gone = _backoff_after_gone(snapshot, job)
        if gone is not None:
            return gone
        failed = _failures(snapshot, job)
        last = max((moment(ended_at(pod)) for pod in failed), default=None)
        if last is None or not any(ended_at(pod) for pod in failed):
            continue
        if snapshot.now > later(last, BACKOFF_SECONDS_MAX):
            continue
        when = _next_pod(snapshot.now, last, _due(failed))
        return Diagnosis(
            cause="P32",
            summary=f"The Job waits for its back-off after {_count(failed)}: {when}.",
            next_step=_WAIT,
            evidence=(
                Evidence(
                    where=f"Job {name(job.name)}, its last failed Pod",
                    text=name(max(failed, key=lambda pod: moment(ended_at(pod))).name),
                    seen=last,
                ),
            ),
        )
    return None


def _backoff_after_gone(snapshot: Snapshot, job: JobFact) -> Diagnosis | None:
    """The same if the last Pod is gone: some evictions delete it within a second."""
    own = [pod for pod in snapshot.pods if pod.owner == job.uid and job.uid]
    if job.parallelism < 1 or not snapshot.is_current or any(_is_open(pod) for pod in own):
        return None
    where = Evidence(where=f"Job {name(job.name)}", text="it has no Pod at the moment")
    begun = _begun(job)
    ends = sorted(end for end in snapshot.attempts_ended if end >= begun)
    if ends:
        newest = max((moment(ended_at(pod)) for pod in own), default=moment(None))
        if newest >= ends[-1] or snapshot.now > later(ends[-1], BACKOFF_SECONDS_MAX):
            return None
        attempts = "1 attempt" if len(ends) == 1 else f"{len(ends)} attempts"
        when = _next_pod(snapshot.now, ends[-1], later(ends[-1], _pause_seconds(len(ends))))
        summary = f"The Job waits for its back-off after {attempts}: {when}."
        seen = Evidence(where="journal", text="end of the newest attempt", seen=ends[-1])
        return Diagnosis(cause="P32", summary=summary, next_step=_WAIT, evidence=(seen, where))
    age_seconds = (snapshot.now - begun).total_seconds()
    if own or "events" in snapshot.unread or age_seconds < _CREATION_SECONDS_MAX:
        return None
    summary = (
        "The Job has no Pod now. After an eviction, it waits for its back-off of up to 10 minutes."
    )
    return Diagnosis(cause="P32", summary=summary, next_step=_WAIT, evidence=(where,))


def _begun(job: JobFact) -> datetime:
    """When it was created, or resumed the last time."""
    suspended = job.condition("Suspended")
    return max(moment(job.created), moment(suspended.since if suspended else None))


def _next_pod(now: datetime, last: datetime, due: datetime) -> str:
    latest = later(last, BACKOFF_SECONDS_MAX)
    if now <= due:
        return f"the next Pod starts at about {clock(due, now)}"
    # Failures whose Pods are gone count too, and are not visible.
    return f"the next Pod starts by {clock(latest, now)} at the latest"


def _is_open(pod: PodFact) -> bool:
    return pod.phase not in ("Failed", "Succeeded")


def _restart(snapshot: Snapshot) -> Diagnosis | None:
    for one in snapshot.job_sets:
        for job in snapshot.jobs:
            ended = job.condition("FailureTarget") or job.condition("Failed")
            if job.owner != one.uid or one.is_suspended or ended is None or not ended.is_true:
                continue
            return Diagnosis(
                cause="P43",
                summary=f"The JobSet {name(one.name)} restarts: its Job {name(job.name)} failed.",
                next_step="Wait. Its old Pods end first, and may use their grace period to save.",
                evidence=(condition_evidence(f"Job {name(job.name)}", ended),),
            )
    return None


def _failures(snapshot: Snapshot, job: JobFact) -> list[PodFact]:
    """The Job's failed Pods since its last success, ignored ones too."""
    own = [pod for pod in snapshot.pods if pod.owner == job.uid and job.uid]
    done = [pod for pod in own if pod.phase == "Succeeded"]
    failed = [pod for pod in own if pod.phase == "Failed"]
    if any(pod.index_failures is not None for pod in failed):
        return [pod for pod in failed if pod.index not in {one.index for one in done}]
    since = max((moment(ended_at(pod)) for pod in done), default=moment(None))
    return [pod for pod in failed if moment(ended_at(pod)) >= since]


def _count(failed: list[PodFact]) -> str:
    return "1 failed Pod" if len(failed) == 1 else f"{len(failed)} failed Pods"


def _due(failed: list[PodFact]) -> datetime:
    """When the back-off ends. With a limit for each index, the first index that may go on."""
    newest = {pod.index: pod for pod in sorted(failed, key=lambda pod: moment(ended_at(pod)))}
    if any(pod.index_failures is not None for pod in failed):
        return min(_due_after(pod, (pod.index_failures or 0) + 1) for pod in newest.values())
    last = max(failed, key=lambda pod: moment(ended_at(pod)))
    return _due_after(last, len(failed))


def _due_after(pod: PodFact, failures: int) -> datetime:
    """10 s after the first failure, then twice as long each time."""
    return later(moment(ended_at(pod)), _pause_seconds(failures))


def _pause_seconds(failures: int) -> float:
    return min(BACKOFF_SECONDS * 2.0 ** (min(failures, 10) - 1), BACKOFF_SECONDS_MAX)


def ended_at(pod: PodFact) -> datetime | None:
    """When the last container of a Pod ended, or when it was found to be disrupted."""
    times = [one.finished_at for one in pod.containers if one.finished_at is not None]
    disruption = pod.condition("DisruptionTarget")
    ready = pod.condition("Ready")
    return max(times, default=(disruption and disruption.since) or (ready and ready.since) or None)


CREATION = (
    Cause(
        id="P31",
        title="the Job cannot create Pods",
        seen_in="Job event FailedCreate",
        match=_cannot_create,
    ),
)
NO_POD = (
    Cause(
        id="P33",
        title="the old Pod cannot end",
        seen_in="Job status.terminating, Node condition Ready=Unknown",
        match=_blocked,
    ),
    Cause(
        id="P42",
        title="no access to the bucket",
        seen_in="the program's log, and no start in the journal",
        match=_no_access,
    ),
    Cause(
        id="P32",
        title="the Job's back-off",
        seen_in="Job without active Pods, times of its failed Pods",
        match=_backoff,
    ),
    Cause(
        id="P43",
        title="the JobSet restarts",
        seen_in="Job of a JobSet, condition FailureTarget",
        match=_restart,
    ),
)
