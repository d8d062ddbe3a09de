"""ProvisioningRequests and ComputeClasses: where their nodes are."""

import re
from collections.abc import Iterator

from outlast.cluster.diagnosis.causes.cause import (
    READ_CHARACTERS_MAX,
    Cause,
    condition_evidence,
    event_evidence,
    later,
    name,
)
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import ConditionFact
from outlast.cluster.diagnosis.queue_facts import (
    ComputeClassFact,
    PriorityFact,
    ProvisioningRequestFact,
)
from outlast.cluster.diagnosis.snapshot import Snapshot, moment

NEW_SECONDS = 60.0
_CLASS_LABEL = "cloud.google.com/compute-class"
_CLASS_PROBLEMS = ("CrdMisconfigured", "RuleMisconfigured")
_POD_EVENTS = ("IgnoredInScaleUp", "MissingProvisioningRequest", "FailedProvisioningRequest")

_FAILURES = {
    "NoQueuedNodepoolAvailable": (
        "no node pool takes queued requests",
        "Create a node pool with queued provisioning that fits the Pods.",
    ),
    "NodepoolSizeReached": (
        "the node pool is at its maximum size",
        "Raise the pool's maximum number of nodes (max_nodes).",
    ),
    "NodepoolInBackoff": (
        "the node pool is in back-off after a failure",
        "Wait until the back-off ends, or use another zone.",
    ),
    "ProvisioningRequestNotSchedulableInNodepool": (
        "the Pods do not fit the node pool",
        "Compare the Pod's selectors, tolerations and requests with the node pool.",
    ),
    "ProvisioningRequestSingleZoneInfeasible": (
        "no single zone can provide all nodes",
        "Use fewer nodes, or a node pool with more zones.",
    ),
    "WaitTimeExceeded": (
        "it has waited as long as it may",
        "Submit it again with a longer waiting time, or use another tier.",
    ),
    "QueuingInfeasibleNoCapacity": (
        "the zone will not have the capacity",
        "Use another zone or machine type: `outlast plan` compares them.",
    ),
    "ZoneNotSupported": ("the zone does not support it", "Use another zone."),
    "InvalidMachineType": ("the machine type is not valid", "Correct the machine type."),
    "PermissionDenied": (
        "permission was denied",
        "Check the permissions of the cluster's service agent.",
    ),
}
_QUEUED = {
    "NotProvisioned": "",
    "ResourcePoolExhausted": " The last attempt found no free machines.",
    "QuotaExceeded": " The last attempt exceeded a quota.",
    "IPSpaceExhausted": " The last attempt found no free IP addresses.",
}


def _requests(snapshot: Snapshot) -> Iterator[ProvisioningRequestFact]:
    """The requests of waiting Pods and of suspended Jobs."""
    owners = {
        workload.uid
        for one in snapshot.suspended
        if (workload := snapshot.workload_of(one.uid)) is not None
    }
    names = {pod.consumes for pod in snapshot.unschedulable if pod.consumes}
    for request in snapshot.requests:
        if request.owner in owners or request.name in names:
            yield request


def _evidence(request: ProvisioningRequestFact, condition: ConditionFact) -> Evidence:
    return condition_evidence(f"ProvisioningRequest {name(request.name)}", condition)


def _unseen(snapshot: Snapshot) -> Diagnosis | None:
    for request in _requests(snapshot):
        accepted = request.condition("Accepted")
        if not request.conditions:
            where = f"ProvisioningRequest {name(request.name)}, status.conditions"
            evidence = Evidence(where=where, text="(none)", seen=request.created)
        elif accepted is not None and accepted.is_true is False:
            evidence = _evidence(request, accepted)
        else:
            continue
        is_new = _is_new(request, snapshot)
        class_name = name(request.class_name) or "empty"
        check = f"Check its class name ({class_name}) and the version of the cluster."
        return Diagnosis(
            cause="P19",
            summary=(
                f"No autoscaler has accepted the ProvisioningRequest {name(request.name)}"
                f"{' yet' if is_new else ''}."
            ),
            next_step="Wait a minute: it has just been created." if is_new else check,
            evidence=(evidence,),
        )
    return None


def _is_new(request: ProvisioningRequestFact, snapshot: Snapshot) -> bool:
    """Whether an autoscaler may not have seen it so far."""
    is_unseen = not request.conditions and request.created is not None
    return is_unseen and snapshot.now < later(moment(request.created), NEW_SECONDS)


def _queued(snapshot: Snapshot) -> Diagnosis | None:
    for request in _requests(snapshot):
        provisioned = request.condition("Provisioned")
        is_queued = request.is_true("Accepted") and not _is_over(request)
        if not is_queued or provisioned is None or provisioned.is_true is not False:
            continue
        if provisioned.reason not in _QUEUED:
            continue
        parts = (f"pool {name(request.pool)}" if request.pool else "", name(request.zone))
        where = ", ".join(part for part in parts if part)
        return Diagnosis(
            cause="P20",
            summary=(
                f"The ProvisioningRequest {name(request.name)} is queued"
                f"{f' ({where})' if where else ''}.{_QUEUED[provisioned.reason]}"
            ),
            next_step="Wait: requests are served in the order of the queue.",
            evidence=(_evidence(request, provisioned),),
        )
    return None


def _is_over(request: ProvisioningRequestFact) -> bool:
    return any(request.is_true(kind) for kind in ("Failed", "BookingExpired", "CapacityRevoked"))


def _failed(snapshot: Snapshot) -> Diagnosis | None:
    for request in _requests(snapshot):
        failed = request.condition("Failed")
        if failed is None or not failed.is_true or failed.reason not in _FAILURES:
            continue
        why, next_step = _FAILURES[failed.reason]
        return Diagnosis(
            cause="P21",
            summary=f"The ProvisioningRequest {name(request.name)} failed: {why}.",
            next_step=next_step,
            evidence=(_evidence(request, failed),),
        )
    return None


_OVER = {
    "CapacityRevoked": ("has lost its capacity", "Submit the run again."),
    "BookingExpired": (
        "has expired before the Pods started",
        "Submit the run again: nodes are kept for 10 minutes only.",
    ),
}


def failure_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Requests that have failed, for when the reason is not recognized."""
    return tuple(
        _evidence(request, failed)
        for request in _requests(snapshot)
        if (failed := request.condition("Failed")) is not None and failed.is_true
    )


def _over(snapshot: Snapshot) -> Diagnosis | None:
    for request in _requests(snapshot):
        for kind, (how, next_step) in _OVER.items():
            condition = request.condition(kind)
            if condition is not None and condition.is_true:
                return Diagnosis(
                    cause="P22",
                    summary=f"The ProvisioningRequest {name(request.name)} {how}.",
                    next_step=next_step,
                    evidence=(_evidence(request, condition),),
                )
    for pod in snapshot.unschedulable:
        event = snapshot.current_warning(pod.uid, *_POD_EVENTS)
        if event is not None:
            return Diagnosis(
                cause="P22",
                summary="The Pod's ProvisioningRequest is missing, failed or over.",
                next_step="Submit the run again.",
                evidence=(event_evidence(event),),
            )
    return None


def _classes(snapshot: Snapshot) -> Iterator[ComputeClassFact]:
    wanted = {
        pod.demand.nodes.selector.get(_CLASS_LABEL)
        for pod in snapshot.unschedulable
        if pod.demand is not None
    }
    return (one for one in snapshot.compute_classes if one.name in wanted)


def _broken_class(snapshot: Snapshot) -> Diagnosis | None:
    for found in _classes(snapshot):
        for condition in found.conditions:
            is_sick = condition.type == "Health" and condition.is_true is False
            if not is_sick and not (condition.type in _CLASS_PROBLEMS and condition.is_true):
                continue
            detail = name(condition.message or condition.reason) or "no reason is given"
            return Diagnosis(
                cause="P16",
                summary=f"The ComputeClass {name(found.name)} is not usable: {detail}",
                next_step="Correct the ComputeClass.",
                evidence=(condition_evidence(f"ComputeClass {name(found.name)}", condition),),
            )
    return None


def _exhausted_class(snapshot: Snapshot) -> Diagnosis | None:
    for found in _classes(snapshot):
        stops = [(one, stop) for one in found.priorities if (stop := _stop(one))]
        if not stops or len(stops) < max(len(found.priorities), found.priority_count):
            continue
        return Diagnosis(
            cause="P17",
            summary=(
                f"The ComputeClass {name(found.name)} has no usable priority left: "
                + "; ".join(_described(one, stop) for one, stop in stops[:5])
                + "."
            ),
            next_step="Wait until then, or add another machine type, zone or tier to the class.",
            evidence=tuple(
                condition_evidence(
                    f"ComputeClass {name(found.name)}, priority {name(one.identifier)}", stop
                )
                for one, stop in stops[:5]
            ),
        )
    return None


def _stop(priority: PriorityFact) -> ConditionFact | None:
    """Why all of a priority is suspended. One that is only constrained still has pools."""
    for condition in priority.conditions:
        if condition.type == "ProvisioningSuspended" and condition.is_true:
            return condition
    return None


def _described(priority: PriorityFact, stop: ConditionFact) -> str:
    until = re.search(r"until (\S+)", stop.message[:READ_CHARACTERS_MAX])
    ends = f" until {name(until[1]).rstrip('.')}" if until else ""
    return f"{name(priority.identifier)} ({name(stop.reason) or 'no reason'}{ends})"


_REQUEST = "ProvisioningRequest status.conditions"
REQUESTS = (
    Cause(id="P22", title="ProvisioningRequest over", seen_in=_REQUEST, match=_over),
    Cause(id="P21", title="ProvisioningRequest failed", seen_in=_REQUEST, match=_failed),
    Cause(id="P19", title="ProvisioningRequest not accepted", seen_in=_REQUEST, match=_unseen),
    Cause(id="P20", title="ProvisioningRequest queued", seen_in=_REQUEST, match=_queued),
)
CLASSES = (
    Cause(
        id="P16",
        title="ComputeClass broken",
        seen_in="ComputeClass status.conditions",
        match=_broken_class,
    ),
    Cause(
        id="P17",
        title="ComputeClass without a usable priority",
        seen_in="ComputeClass status.priorityStatuses",
        match=_exhausted_class,
    ),
)
