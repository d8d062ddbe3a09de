"""What a diagnosis needs to know of Pods, Nodes, Jobs and events, as frozen values.

Built from objects as the API server sends them. Nothing here raises: a field that is missing, or of
another type than expected, is None or empty. A fact is a small part of its object, so that
thousands of them fit into little memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from outlast.cluster.diagnosis.fields import map_of, maps_of, number_of, quantity, text_of, time_of
from outlast.cluster.resources import Object
from outlast.manifests.lint.scheduling import NodeDemand, Taint, node_demand

APP_LABEL = "app.kubernetes.io/name"
MANAGER_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "outlast"
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_TRACKING = "batch.kubernetes.io/job-tracking"
_STATED_CHARACTERS_MAX = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionFact:
    """A condition of an object, such as PodScheduled=False with its reason."""

    type: str
    is_true: bool | None
    """None if the status is Unknown."""
    reason: str = ""
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerFact:
    """The state of a container: waiting, running or terminated."""

    name: str
    waiting_reason: str = ""
    waiting_message: str = ""
    is_running: bool = False
    exit_code: int | None = None
    """None unless it has terminated."""
    exit_reason: str = ""
    exit_message: str = ""
    finished_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnedFact:
    """What all objects have in common. `owner` is the UID of the controller."""

    name: str
    namespace: str
    uid: str
    owner: str = ""
    created: datetime | None = None
    is_deleted: bool = False
    """Whether it is being deleted, and may still run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionedFact(OwnedFact):
    """An object with conditions."""

    conditions: tuple[ConditionFact, ...] = ()

    def condition(self, kind: str) -> ConditionFact | None:
        return next((one for one in self.conditions if one.type == kind), None)

    def is_true(self, kind: str) -> bool:
        found = self.condition(kind)
        return found is not None and found.is_true is True


@dataclass(frozen=True, kw_only=True, slots=True)
class DemandFact:
    """What a Pod demands of the node that it waits for."""

    nodes: NodeDemand
    requests: Mapping[str, Fraction]


@dataclass(frozen=True, kw_only=True, slots=True)
class PodFact(ConditionedFact):
    phase: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    priority: int | None = None
    gates: tuple[str, ...] = ()
    containers: tuple[ContainerFact, ...] = ()
    init_containers: tuple[ContainerFact, ...] = ()
    demand: DemandFact | None = None
    """None once it has a node, because it would only take memory."""
    index: str = ""
    """Its completion index, empty unless its Job is Indexed."""
    index_failures: int | None = None
    """How often its index had failed before, None without a back-off limit for each index."""
    is_tracked: bool = False
    """Whether its Job has yet to account for it, by its finalizer."""
    consumes: str = ""
    """The ProvisioningRequest whose nodes it is to use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFact(ConditionedFact):
    labels: Mapping[str, str]
    allocatable: Mapping[str, Fraction]
    """What Pods may request in total. An amount that cannot be read is left out."""
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    expires_at: datetime | None = None
    """When its lease ends, by its annotation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFact(ConditionedFact):
    is_suspended: bool = False
    active: int = 0
    failed: int = 0
    succeeded: int = 0
    terminating: int = 0
    backoff_limit: int | None = None
    queue: str = ""
    """Kueue's queue, by its label."""
    limit_per_index: int | None = None
    parallelism: int = 1
    app: str = ""
    """The workload it belongs to, by its label."""
    is_ours: bool = False
    """Whether Outlast has rendered it."""
    run_url: str = ""
    """Where its Pods save, and `tier` and `machine` where they run, as far as they state it."""
    tier: str = ""
    machine: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventFact:
    """An event about the object with the UID `about`. `is_warning` is false for Normal ones."""

    about: str
    reason: str
    message: str
    is_warning: bool = False
    count: int = 1
    last_seen: datetime | None = None


def pod_fact(pod: Object) -> PodFact:
    spec, status = map_of(pod, "spec"), map_of(pod, "status")
    annotations = map_of(map_of(pod, "metadata"), "annotations")
    node = text_of(spec, "nodeName")
    return PodFact(
        **owned(pod),
        phase=text_of(status, "phase"),
        reason=text_of(status, "reason"),
        message=text_of(status, "message"),
        node=node,
        priority=number_of(spec, "priority"),
        gates=tuple(text_of(one, "name") for one in maps_of(spec, "schedulingGates")),
        conditions=conditions_of(status),
        containers=tuple(_container(one) for one in maps_of(status, "containerStatuses")),
        init_containers=tuple(_container(one) for one in maps_of(status, "initContainerStatuses")),
        demand=None if node else _demand(spec),
        index=text_of(annotations, "batch.kubernetes.io/job-completion-index"),
        index_failures=_index_failures(annotations),
        is_tracked=_is_tracked(map_of(pod, "metadata")),
        consumes=next((text_of(annotations, key) for key in _CONSUMES if key in annotations), ""),
    )


def _is_tracked(metadata: Object) -> bool:
    finalizers = metadata.get("finalizers")
    return isinstance(finalizers, list) and _TRACKING in finalizers


def node_fact(node: Object) -> NodeFact:
    metadata, spec = map_of(node, "metadata"), map_of(node, "spec")
    labels = {k: v for k, v in map_of(metadata, "labels").items() if isinstance(v, str)}
    return NodeFact(
        **owned(node),
        labels=labels,
        allocatable=_amounts(map_of(map_of(node, "status"), "allocatable")),
        taints=tuple(
            Taint(
                key=text_of(one, "key"), value=text_of(one, "value"), effect=text_of(one, "effect")
            )
            for one in maps_of(spec, "taints")
        ),
        is_unschedulable=spec.get("unschedulable") is True,
        conditions=conditions_of(map_of(node, "status")),
        expires_at=time_of(
            map_of(metadata, "annotations"), "node.gke.io/machine-termination-datetime"
        ),
    )


def job_fact(job: Object) -> JobFact:
    spec, status = map_of(job, "spec"), map_of(job, "status")
    parallelism = number_of(spec, "parallelism")
    return JobFact(
        **owned(job),
        is_suspended=spec.get("suspend") is True,
        active=number_of(status, "active") or 0,
        failed=number_of(status, "failed") or 0,
        succeeded=number_of(status, "succeeded") or 0,
        terminating=number_of(status, "terminating") or 0,
        backoff_limit=number_of(spec, "backoffLimit"),
        queue=queue_of(job),
        conditions=conditions_of(status),
        limit_per_index=number_of(spec, "backoffLimitPerIndex"),
        parallelism=1 if parallelism is None else parallelism,
        **_labeled(job),
        **_stated(map_of(map_of(spec, "template"), "spec")),
    )


def event_fact(event: Object) -> EventFact:
    """An event. The scheduler sets only `eventTime`, others only the older fields."""
    series = map_of(event, "series")
    times = [
        time_of(series, "lastObservedTime"),
        time_of(event, "lastTimestamp"),
        time_of(event, "eventTime"),
        time_of(map_of(event, "metadata"), "creationTimestamp"),
    ]
    return EventFact(
        about=text_of(map_of(event, "involvedObject"), "uid"),
        reason=text_of(event, "reason"),
        message=text_of(event, "message"),
        is_warning=text_of(event, "type") == "Warning",
        count=max(number_of(series, "count") or 1, number_of(event, "count") or 1),
        last_seen=max((time for time in times if time is not None), default=None),
    )


def _labeled(found: Object) -> dict[str, Any]:
    labels = map_of(map_of(found, "metadata"), "labels")
    # The Jobs of a JobSet have only the labels of JobSet.
    app = text_of(labels, APP_LABEL) or text_of(labels, JOB_SET_LABEL)
    return {"app": app, "is_ours": text_of(labels, MANAGER_LABEL) == MANAGER}


_STATED = {"OUTLAST_RUN_URL": "run_url", "OUTLAST_TIER": "tier", "OUTLAST_MACHINE": "machine"}


def _stated(pod_spec: Object) -> dict[str, Any]:
    return {
        _STATED[name]: text_of(variable, "value")[:_STATED_CHARACTERS_MAX]
        for container in maps_of(pod_spec, "containers")[:1]
        for variable in maps_of(container, "env")
        if (name := text_of(variable, "name")) in _STATED
    }


def queue_of(found: Object) -> str:
    labels = map_of(map_of(found, "metadata"), "labels")
    return text_of(labels, "kueue.x-k8s.io/queue-name")


def owned(found: Object) -> dict[str, Any]:
    metadata = map_of(found, "metadata")
    owners = [one for one in maps_of(metadata, "ownerReferences") if one.get("controller") is True]
    return {
        "name": text_of(metadata, "name"),
        "namespace": text_of(metadata, "namespace"),
        "uid": text_of(metadata, "uid"),
        "owner": text_of(owners[0], "uid") if owners else "",
        "created": time_of(metadata, "creationTimestamp"),
        "is_deleted": time_of(metadata, "deletionTimestamp") is not None,
    }


def conditions_of(status: Object) -> tuple[ConditionFact, ...]:
    return tuple(
        ConditionFact(
            type=text_of(one, "type"),
            is_true={"True": True, "False": False}.get(text_of(one, "status")),
            reason=text_of(one, "reason"),
            message=text_of(one, "message"),
            since=time_of(one, "lastTransitionTime"),
        )
        for one in maps_of(status, "conditions")
    )


def _container(status: Object) -> ContainerFact:
    state = map_of(status, "state")
    waiting, terminated = map_of(state, "waiting"), map_of(state, "terminated")
    return ContainerFact(
        name=text_of(status, "name"),
        waiting_reason=text_of(waiting, "reason"),
        waiting_message=text_of(waiting, "message"),
        is_running=isinstance(state.get("running"), dict),
        exit_code=number_of(terminated, "exitCode"),
        exit_reason=text_of(terminated, "reason"),
        exit_message=text_of(terminated, "message"),
        finished_at=time_of(terminated, "finishedAt"),
    )


_CONSUMES = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
_INDEX_FAILURES = (
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/job-index-ignored-failure-count",
)


def _index_failures(annotations: Object) -> int | None:
    counts = [text_of(annotations, key)[:9] for key in _INDEX_FAILURES if key in annotations]
    return sum(int(one) for one in counts if one.isdecimal()) if counts else None


def _demand(spec: Object) -> DemandFact:
    requests: dict[str, Fraction] = {}
    for container in maps_of(spec, "containers"):
        resources = map_of(container, "resources")
        given = {**map_of(resources, "limits"), **map_of(resources, "requests")}
        for name, amount in _amounts(given).items():
            requests[name] = requests.get(name, Fraction(0)) + amount
    return DemandFact(nodes=node_demand(spec), requests=requests)


def _amounts(found: Object) -> dict[str, Fraction]:
    read = {name: quantity(str(value)[:40]) for name, value in found.items()}
    return {name: amount for name, amount in read.items() if amount}
