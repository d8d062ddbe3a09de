"""One run in a cluster at one moment, as the diagnosis sees it. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from outlast.cluster.diagnosis.autoscaler_log import ScaleUpRefusal
from outlast.cluster.diagnosis.facts import EventFact, JobFact, NodeFact, PodFact
from outlast.cluster.diagnosis.queue_facts import (
    ComputeClassFact,
    JobSetFact,
    ProvisioningRequestFact,
    WorkloadFact,
)

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_REFUSALS = ("NotTriggerScaleUp",)
"""Events that are Normal although they report a problem: they do not make a Warning stale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The Jobs of one run, their Pods and events, and all Nodes.

    Nodes may include those that are gone: when a lease ended is known only from them. `unread` has
    the kinds that could not be read, such as `events`, so that nothing is concluded from their
    absence; `is_current` is false if the Pods may have changed since they were read. `refusals`,
    `logs` (by the UID of a Pod), `has_started` (whether the journal has a started attempt) and
    `attempts_ended` (when the attempts ended, by the journal of a run of one part) are optional.
    """

    now: datetime
    jobs: tuple[JobFact, ...] = ()
    job_sets: tuple[JobSetFact, ...] = ()
    pods: tuple[PodFact, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    events: tuple[EventFact, ...] = ()
    workloads: tuple[WorkloadFact, ...] = ()
    requests: tuple[ProvisioningRequestFact, ...] = ()
    compute_classes: tuple[ComputeClassFact, ...] = ()
    refusals: tuple[ScaleUpRefusal, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    has_started: bool | None = None
    attempts_ended: tuple[datetime, ...] = ()
    has_kueue: bool | None = None
    is_autopilot: bool | None = None
    unread: frozenset[str] = frozenset()
    is_current: bool = True

    @property
    def pending(self) -> tuple[PodFact, ...]:
        """The Pods that have not started, by age."""
        waiting = [pod for pod in self.pods if pod.phase == "Pending" and not pod.is_deleted]
        return tuple(sorted(waiting, key=lambda pod: (moment(pod.created), pod.name)))

    @property
    def unschedulable(self) -> tuple[PodFact, ...]:
        """The Pods that the scheduler has found no node for."""
        return tuple(pod for pod in self.pending if is_unschedulable(pod))

    @property
    def bound(self) -> tuple[PodFact, ...]:
        """The Pods that have a node, and have not started."""
        return tuple(pod for pod in self.pending if pod.node)

    @property
    def suspended(self) -> tuple[JobFact | JobSetFact, ...]:
        """The topmost objects of the run that are suspended."""
        sets = tuple(one for one in self.job_sets if one.is_suspended)
        return sets or tuple(one for one in self.jobs if one.is_suspended)

    def node(self, name: str) -> NodeFact | None:
        return next((node for node in self.nodes if name and node.name == name), None)

    def workload_of(self, owner: str) -> WorkloadFact | None:
        return next((one for one in self.workloads if owner and one.owner == owner), None)

    def newest(self, about: str, *reasons: str) -> EventFact | None:
        """The event with one of these reasons that was observed last."""
        found = [
            event
            for event in self.events
            if event.about == about and about and event.reason in reasons
        ]
        return max(found, key=lambda event: moment(event.last_seen), default=None)

    def current_warning(self, about: str, *reasons: str) -> EventFact | None:
        """The newest such event, None if a Normal event about the object was observed after it."""
        event = self.newest(about, *reasons)
        if event is None:
            return None
        superseded = any(
            one.about == about
            and not one.is_warning
            and one.reason not in (*_REFUSALS, *reasons)
            and moment(one.last_seen) > moment(event.last_seen)
            for one in self.events
        )
        return None if superseded else event


def is_unschedulable(pod: PodFact) -> bool:
    scheduled = pod.condition("PodScheduled")
    return (
        not pod.node
        and scheduled is not None
        and scheduled.is_true is False
        and scheduled.reason == "Unschedulable"
    )


def moment(time: datetime | None) -> datetime:
    """A time to compare with others. One that is missing is earlier than all."""
    return time or _BEGINNING
