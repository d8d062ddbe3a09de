"""Why the scheduler finds no node: gates, selectors, taints, size, volumes, priority."""

import re
from collections.abc import Iterator
from fractions import Fraction

from outlast.cluster.diagnosis.causes.cause import (
    READ_CHARACTERS_MAX,
    Cause,
    Text,
    condition_evidence,
    first_read,
    later,
    name,
)
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import NodeFact, PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot, is_unschedulable
from outlast.manifests.lint.scheduling import HARD_EFFECTS, Taint

_SELECTOR = r"didn't match Pod's node affinity/selector"
_NO_NODES = r"no nodes available to schedule pods"
_TAINT = r"had untolerated taint(?: \{(?P<key>[^\s:}]+): (?P<value>[^\s}]*)\}|\(s\))"
_LACKING = r"Insufficient (?P<resource>[\w./-]*\w)"
_TOO_MANY = r"Too many pods"
_AUTOSCALER_EVENTS = ("TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp")
_PRIORITY_CUTOFF = -10
_CREATE_POOL = "Create a node pool with these labels, or correct the selector."
_AUTOSCALER_SECONDS = 120.0
"""After this long without any event, the autoscaler has not considered the Pod."""


def scheduling_evidence(pod: PodFact) -> Evidence | None:
    condition = pod.condition("PodScheduled")
    return condition_evidence(f"Pod {name(pod.name)}", condition) if condition else None


def refused(snapshot: Snapshot) -> Iterator[tuple[PodFact, Evidence]]:
    """The Pods that the scheduler has found no node for, with what it reports."""
    for pod in snapshot.pending:
        evidence = scheduling_evidence(pod)
        if evidence is not None and is_unschedulable(pod):
            yield pod, evidence


def _selector(snapshot: Snapshot) -> Diagnosis | None:
    for pod, evidence in refused(snapshot):
        if _has(_NO_NODES, evidence):
            return Diagnosis(
                cause="P01",
                summary="The cluster has no nodes.",
                next_step="Wait for the autoscaler, or create a node pool.",
                evidence=(evidence,),
            )
        if _matches_no_node(snapshot, pod, evidence):
            mismatch, next_step = _mismatch(snapshot, pod)
            return Diagnosis(
                cause="P01",
                summary=f"No node matches the Pod's node selector or affinity{mismatch}.",
                next_step=next_step,
                evidence=(evidence,),
            )
    return None


def _matches_no_node(snapshot: Snapshot, pod: PodFact, evidence: Evidence) -> bool:
    """Whether the labels are the reason, although the scheduler may report only a taint.

    It looks at taints first, and reports one reason for each node.
    """
    if not _has(_TAINT, evidence):
        return _has(_SELECTOR, evidence)
    if not snapshot.nodes or pod.demand is None:
        return _has(_SELECTOR, evidence)
    selected = _selected(snapshot, pod)
    return not selected or (_has(_SELECTOR, evidence) and not _tainted_nodes(snapshot, pod))


def _taint(snapshot: Snapshot) -> Diagnosis | None:
    for pod, evidence in refused(snapshot):
        found = _found(_TAINT, evidence)
        if found is None:
            continue
        barring = _tainted_nodes(snapshot, pod)
        more = [
            Evidence(where=f"Node {name(node.name)}, spec.taints", text=str(taints[0]))
            for node, taints in barring[:1]
        ]
        known = str(barring[0][1][0]) if barring else _reported(found)
        which = f"the taint {name(known)}" if known else "a taint (which one is not reported)"
        return Diagnosis(
            cause="P02",
            summary=f"The nodes that the Pod could use have {which}, which it does not tolerate.",
            next_step="Add a toleration for the taint to the Pod, or remove the taint.",
            evidence=(evidence, *more),
        )
    return None


def _size(snapshot: Snapshot) -> Diagnosis | None:
    for pod, evidence in refused(snapshot):
        found = _found(_LACKING, evidence)
        if found is not None:
            return _too_small(snapshot, pod, found["resource"], evidence)
        if _has(_TOO_MANY, evidence):
            return Diagnosis(
                cause="P03",
                summary="The matching nodes are full: each runs as many Pods as it may.",
                next_step="Wait until Pods end, or add nodes.",
                evidence=(evidence,),
            )
    return None


def _too_small(snapshot: Snapshot, pod: PodFact, resource: str, evidence: Evidence) -> Diagnosis:
    wanted = pod.demand.requests.get(resource) if pod.demand else None
    sizes = [node.allocatable.get(resource, Fraction(0)) for node in _usable(snapshot, pod)]
    largest = max(sizes, default=None)
    if wanted is not None and largest is not None and wanted > largest:
        return Diagnosis(
            cause="P03",
            summary=(
                f"The Pod never fits these nodes: it requests {_amount(wanted, resource)} of "
                f"{name(resource)}, and the largest matching node has {_amount(largest, resource)}."
            ),
            next_step="Lower the request, or use a larger machine type.",
            evidence=(evidence,),
        )
    is_full = wanted is not None and largest is not None
    state = "are full: not enough" if is_full else "do not have enough"
    return Diagnosis(
        cause="P03",
        summary=f"The matching nodes {state} {name(resource)}{' is free' if is_full else ''}.",
        next_step="Wait until other Pods end, or add nodes.",
        evidence=(evidence,),
    )


_VOLUME_TEXTS = (
    Text(
        cause="P34",
        pattern=r'persistentvolumeclaim "(\S+?)" not found',
        summary="The PersistentVolumeClaim {0} does not exist.",
        next_step="Create the claim {0} in the Pod's namespace, or correct its name.",
    ),
    Text(
        cause="P34",
        pattern=r"unbound immediate PersistentVolumeClaims",
        summary="A PersistentVolumeClaim of the Pod has no volume yet.",
        next_step="See the events of the claim: kubectl describe pvc",
    ),
    Text(
        cause="P34",
        pattern=(
            r"had volume node affinity conflict|didn't match PersistentVolume's node affinity"
            r"|had no available volume zone"
        ),
        summary="The Pod's volume is in a zone without a matching node.",
        next_step="Compare the zone of the PersistentVolume with the zones of the node pool.",
    ),
)


def _volume(snapshot: Snapshot) -> Diagnosis | None:
    found = (first_read(_VOLUME_TEXTS, evidence) for _, evidence in refused(snapshot))
    return next((diagnosis for diagnosis in found if diagnosis), None)


def _priority(snapshot: Snapshot) -> Diagnosis | None:
    if snapshot.is_autopilot or "events" in snapshot.unread:
        return None
    for pod, evidence in refused(snapshot):
        is_old = pod.created and snapshot.now > later(pod.created, _AUTOSCALER_SECONDS)
        if pod.priority is None or pod.priority >= _PRIORITY_CUTOFF or not is_old:
            continue
        if snapshot.newest(pod.uid, *_AUTOSCALER_EVENTS) is None:
            own = Evidence(where=f"Pod {name(pod.name)}, spec.priority", text=str(pod.priority))
            return Diagnosis(
                cause="P18",
                summary=(
                    f"The Pod's priority {pod.priority} is below {_PRIORITY_CUTOFF}: the cluster "
                    "autoscaler adds no node for it."
                ),
                next_step=f"Use a PriorityClass with a value of {_PRIORITY_CUTOFF} or above.",
                evidence=(own, evidence),
            )
    return None


def _gate(snapshot: Snapshot) -> Diagnosis | None:
    for pod in snapshot.pending:
        condition, evidence = pod.condition("PodScheduled"), scheduling_evidence(pod)
        if condition is None or evidence is None or condition.reason != "SchedulingGated":
            continue
        gates = ", ".join(name(gate) for gate in pod.gates[:5]) or "(not listed)"
        return Diagnosis(
            cause="P30",
            summary=f"The Pod is kept back by its scheduling gate: {gates}.",
            next_step="See the controller that has set the gate. It removes the gate when ready.",
            evidence=(evidence,),
        )
    return None


def _usable(snapshot: Snapshot, pod: PodFact) -> list[NodeFact]:
    """The nodes that match the Pod's labels and taints. Their size is not considered."""
    return [node for node in _selected(snapshot, pod) if not _untolerated(pod, node)]


def _tainted_nodes(snapshot: Snapshot, pod: PodFact) -> list[tuple[NodeFact, list[Taint]]]:
    """The nodes that match the Pod's labels and have taints that it does not tolerate.

    The scheduler does not name the taint from 1.35 on, so it is computed.
    """
    found = [(node, _untolerated(pod, node)) for node in _selected(snapshot, pod)]
    return [(node, taints) for node, taints in found if taints]


def _selected(snapshot: Snapshot, pod: PodFact) -> list[NodeFact]:
    demand = pod.demand
    return [n for n in snapshot.nodes if demand is not None and demand.nodes.selects(n.labels)]


def _untolerated(pod: PodFact, node: NodeFact) -> list[Taint]:
    tolerations = pod.demand.nodes.tolerations if pod.demand else ()
    return [
        taint
        for taint in node.taints
        if taint.effect in HARD_EFFECTS and not any(one.matches(taint) for one in tolerations)
    ]


def _mismatch(snapshot: Snapshot, pod: PodFact) -> tuple[str, str]:
    """The demand that no node meets, as far as the nodes are known, and what to do."""
    terms = pod.demand.nodes.alternatives if pod.demand and snapshot.nodes else ()
    for one in terms[0] if len(terms) == 1 else ():
        if any(one.accepts(node.labels) for node in snapshot.nodes):
            continue
        label = name(f"{one.key}={'|'.join(one.values)}" if one.values else one.key)
        if one.operator in ("DoesNotExist", "NotIn"):
            unwanted = "Create a node pool without this label, or correct the affinity."
            return f": every node has the label {label}", unwanted
        return f": no node has the label {label}", _CREATE_POOL
    return "", _CREATE_POOL


def _reported(found: re.Match[str]) -> str:
    key, value = found["key"], found["value"]
    return f"{key}={value}" if value else key or ""


def _found(pattern: str, evidence: Evidence) -> re.Match[str] | None:
    return re.search(pattern, evidence.text[:READ_CHARACTERS_MAX])


def _has(pattern: str, evidence: Evidence) -> bool:
    return _found(pattern, evidence) is not None


def _amount(amount: Fraction, resource: str) -> str:
    if resource in ("memory", "ephemeral-storage"):
        return f"{float(amount / 2**30):.4g} GiB"
    return str(amount.numerator) if amount.denominator == 1 else f"{float(amount):g}"


_SEEN = "Pod condition PodScheduled=False, Unschedulable"

GATES = (
    Cause(
        id="P30",
        title="a scheduling gate",
        seen_in="Pod condition PodScheduled, reason SchedulingGated",
        match=_gate,
    ),
)
LOW_PRIORITY = (
    Cause(
        id="P18",
        title="priority below -10",
        seen_in="Pod spec.priority, and no event of the autoscaler",
        match=_priority,
    ),
)
# A node that lacks room has passed the checks of taints and labels, so it was closest to taking
# the Pod. Volumes are checked last of all.
SCHEDULING = (
    Cause(id="P34", title="a volume", seen_in=_SEEN, match=_volume),
    Cause(id="P03", title="nodes too small or full", seen_in=_SEEN, match=_size),
    Cause(id="P01", title="no node matches the selector", seen_in=_SEEN, match=_selector),
    Cause(id="P02", title="an untolerated taint", seen_in=_SEEN, match=_taint),
)
