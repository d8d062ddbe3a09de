"""Why a run waits, and how its attempts ended. Pure: takes a snapshot, asks nothing.

diagnosis = why_waiting(snapshot)
for ending in endings(snapshot):
    print(*lines(ending.diagnosis), sep="\\n")
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from outlast.cluster.diagnosis.causes.cause import Cause, EndingCause, event_evidence, name
from outlast.cluster.diagnosis.causes.containers import (
    CONTAINERS,
    MOUNTS,
    mount_failure,
    waiting_evidence,
)
from outlast.cluster.diagnosis.causes.endings import (
    ENDINGS,
    has_ended,
    is_ignored,
    pod_evidence,
    was_suspended,
)
from outlast.cluster.diagnosis.causes.job import CREATION, NO_POD, ended_at, failed_create
from outlast.cluster.diagnosis.causes.kueue import DEACTIVATED, KUEUE, workload_evidence
from outlast.cluster.diagnosis.causes.over import OVER, over_evidence
from outlast.cluster.diagnosis.causes.provisioning import CLASSES, REQUESTS, failure_evidence
from outlast.cluster.diagnosis.causes.scale_up import (
    FAILED_SCALE_UP,
    NO_SCALE_UP,
    TRIGGERED_SCALE_UP,
    failed_scale_up,
    triggered_scale_up,
)
from outlast.cluster.diagnosis.causes.scheduling import GATES, LOW_PRIORITY, SCHEDULING, refused
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence, not_recognized
from outlast.cluster.diagnosis.facts import EventFact, PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment
from outlast.cluster.errors import shown


@dataclass(frozen=True, kw_only=True, slots=True)
class PodEnding:
    """How the attempt of a Pod ended. `is_counted`: whether it spent a retry of its Job."""

    pod: PodFact
    diagnosis: Diagnosis
    is_counted: bool


def why_waiting(snapshot: Snapshot) -> Diagnosis | None:
    """The dominant reason why the run does not run, None if it runs or has finished.

    A Job that has failed is a reason too. A text that is not recognized is shown as it is.
    """
    if not _is_waiting(snapshot):
        return None
    for stage in STAGES:
        diagnosis = stage.diagnosis(snapshot)
        if diagnosis is not None:
            return diagnosis
    return _unexplained(snapshot)


def endings(snapshot: Snapshot) -> tuple[PodEnding, ...]:
    """How each ended attempt ended, and false alarms, in the order of time."""
    found = [(pod, how_ended(snapshot, pod)) for pod in snapshot.pods]
    listed = [
        PodEnding(pod=pod, diagnosis=diagnosis, is_counted=is_counted(snapshot, pod))
        for pod, diagnosis in found
        if diagnosis is not None
    ]
    return tuple(sorted(listed, key=lambda one: (moment(ended_at(one.pod)), one.pod.name)))


def how_ended(snapshot: Snapshot, pod: PodFact) -> Diagnosis | None:
    """How the attempt of a Pod ended, None if it has not."""
    for cause in ENDINGS:
        if has_ended(pod) or cause.id == "E18":
            diagnosis = cause.match(snapshot, pod)
            if diagnosis is not None:
                return diagnosis
    return not_recognized(*pod_evidence(pod)) if has_ended(pod) else None


def is_counted(snapshot: Snapshot, pod: PodFact) -> bool:
    """Whether a Job with the rendered podFailurePolicy counts the Pod against backoffLimit."""
    # A failure from before the Job was suspended was counted, and still is.
    return pod.phase == "Failed" and not is_ignored(pod) and not was_suspended(snapshot, pod)


def lines(diagnosis: Diagnosis) -> list[str]:
    """A diagnosis as lines to print, with the cluster's texts escaped and cut."""
    texts = [f"{one.where}: {shown(one.text)}" for one in diagnosis.evidence]
    next_step = [f"Next: {diagnosis.next_step}"] if diagnosis.next_step else []
    return [diagnosis.summary, *texts, *next_step]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Causes that are looked at together.

    If `evidence` returns something, this stage decides: what none of its causes recognizes is shown
    as it is, and not explained by a later stage.
    """

    causes: tuple[Cause, ...]
    evidence: Callable[[Snapshot], tuple[Evidence, ...]] = lambda snapshot: ()

    def diagnosis(self, snapshot: Snapshot) -> Diagnosis | None:
        for cause in self.causes:
            diagnosis = cause.match(snapshot)
            if diagnosis is not None:
                return diagnosis
        evidence = self.evidence(snapshot)
        return not_recognized(*evidence) if evidence else None


def _from_event(
    find: Callable[[Snapshot], EventFact | None],
) -> Callable[[Snapshot], tuple[Evidence, ...]]:
    def evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
        event = find(snapshot)
        return (event_evidence(event),) if event else ()

    return evidence


def _refusals(snapshot: Snapshot) -> tuple[Evidence, ...]:
    return tuple(evidence for _, evidence in refused(snapshot))[:1]


STAGES = (
    Stage(causes=OVER, evidence=over_evidence),
    Stage(causes=DEACTIVATED),
    Stage(causes=REQUESTS, evidence=failure_evidence),
    Stage(causes=KUEUE, evidence=workload_evidence),
    Stage(causes=CREATION, evidence=_from_event(failed_create)),
    Stage(causes=GATES),
    Stage(causes=CLASSES),
    Stage(causes=FAILED_SCALE_UP, evidence=_from_event(failed_scale_up)),
    Stage(causes=NO_SCALE_UP),
    Stage(causes=TRIGGERED_SCALE_UP, evidence=_from_event(triggered_scale_up)),
    Stage(causes=LOW_PRIORITY),
    Stage(causes=SCHEDULING, evidence=_refusals),
    Stage(causes=NO_POD),
    Stage(causes=CONTAINERS, evidence=waiting_evidence),
    Stage(causes=MOUNTS, evidence=_from_event(mount_failure)),
)
"""In the order in which they decide: what comes first prevents what comes after it."""


def all_causes() -> tuple[Cause | EndingCause, ...]:
    waiting: Iterable[Cause] = (cause for stage in STAGES for cause in stage.causes)
    return tuple(
        sorted((*waiting, *ENDINGS), key=lambda cause: ("PE".index(cause.id[0]), cause.id))
    )


def _is_waiting(snapshot: Snapshot) -> bool:
    owners = (*snapshot.job_sets, *snapshot.jobs)
    if snapshot.pending or snapshot.suspended or any(one.is_true("Failed") for one in owners):
        return True
    is_running = any(pod.phase == "Running" and not pod.is_deleted for pod in snapshot.pods)
    is_done = all(one.is_true("Complete") or one.is_true("Completed") for one in owners)
    return not is_running and not is_done


def _unexplained(snapshot: Snapshot) -> Diagnosis:
    """Nothing in the table applies: show where the Pods are, or that there are none."""
    open_pods = [pod for pod in snapshot.pods if not has_ended(pod)]
    evidence = [
        Evidence(
            where=f"Pod {name(pod.name)}, status.phase",
            text=f"{pod.phase}, being deleted" if pod.is_deleted else pod.phase,
            seen=pod.created,
        )
        for pod in open_pods[:3]
    ]
    none = Evidence(where="Pods of the run", text="there is none at the moment")
    return not_recognized(*(evidence or [none]))
