"""What the cluster autoscaler does for a Pod that no node can take."""

from outlast.cluster.diagnosis.causes.cause import Cause, Match, Text, event_evidence, first_read
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import EventFact
from outlast.cluster.diagnosis.snapshot import Snapshot, moment

_FAILED = r"Node scale up in zones (.+?) associated with this pod failed: .*?"
_PLAN = "Use another zone, machine type or tier: `outlast plan` compares them."


def failed_scale_up(snapshot: Snapshot) -> EventFact | None:
    """The newest failure about a Pod that still has no node, unless a newer attempt runs."""
    found = [snapshot.current_warning(pod.uid, "FailedScaleUp") for pod in snapshot.unschedulable]
    return _newest(found)


def _not_triggered(snapshot: Snapshot) -> EventFact | None:
    found = [
        snapshot.current_warning(pod.uid, "NotTriggerScaleUp") for pod in snapshot.unschedulable
    ]
    return _newest(found)


def _newest(found: list[EventFact | None]) -> EventFact | None:
    events = [event for event in found if event is not None]
    return max(events, key=lambda event: moment(event.last_seen), default=None)


def _failed(*texts: Text) -> Match:
    def match(snapshot: Snapshot) -> Diagnosis | None:
        event = failed_scale_up(snapshot)
        return first_read(texts, event_evidence(event)) if event else None

    return match


def _refused(text: Text) -> Match:
    def match(snapshot: Snapshot) -> Diagnosis | None:
        event = _not_triggered(snapshot)
        return text.read(event_evidence(event)) if event else None

    return match


_STOCKOUT = Text(
    cause="P05",
    pattern=_FAILED + r"GCE out of resources",
    summary="Compute Engine has no such machines left in {0} (out of resources).",
    next_step=_PLAN,
)
_QUOTA = Text(
    cause="P06",
    pattern=_FAILED + r"GCE quota exceeded",
    summary="A Compute Engine quota is exceeded in {0}.",
    next_step="`outlast doctor FILE` shows which quota. Ask for more, or use fewer machines.",
)


def _other(pattern: str, summary: str, next_step: str) -> Text:
    pattern = _FAILED + f"({pattern})"
    return Text(cause="P07", pattern=pattern, summary=summary, next_step=next_step)


_OTHERS = (
    _other(
        "IP space exhausted",
        "The subnet has no IP addresses left for nodes in {0}.",
        "Extend the IP range of the subnet or of the Pods.",
    ),
    _other(
        "Service Account was deleted",
        "The service account of the node pool in {0} was deleted.",
        "Restore the service account, or create the node pool with another one.",
    ),
    _other(
        "failed to appear in time",
        "Nodes were requested in {0} and did not appear in time.",
        "See the instance group's errors in the Google Cloud console.",
    ),
    _other(
        r"Reservation[^.\n]{0,200}",
        "The reservation cannot be used in {0}: {1}.",
        "Check the name, the project and the free machines of the reservation.",
    ),
    _other(
        "Internal error",
        "Compute Engine reported an internal error in {0}.",
        "It is retried. If it lasts, use another zone.",
    ),
)
_BACKOFF = Text(
    cause="P08",
    pattern=r"(\d+) in backoff after failed scale-up",
    summary="Node pools in back-off after a failed scale-up: {0}.",
    next_step="Wait until the back-off ends. " + _PLAN,
)
_POOL_FULL = Text(
    cause="P09",
    pattern=r"max node group size reached",
    summary="The node pool has reached its maximum size.",
    next_step="Raise the pool's maximum number of nodes (max_nodes).",
)
_CLUSTER_FULL = Text(
    cause="P10",
    pattern=r"max total nodes in cluster reached",
    summary="The cluster has reached its maximum number of nodes.",
    next_step="Remove nodes that are not needed, or raise the limit of the cluster.",
)
_LIMITS = Text(
    cause="P11",
    pattern=r'exceeded quota: "[^"]*", resources: ([^;\n]+)',
    summary="A resource limit of the autoscaler is exceeded: {0}.",
    next_step="Raise the resource limits of node auto-provisioning.",
)


def _backoff(snapshot: Snapshot) -> Diagnosis | None:
    event = _not_triggered(snapshot)
    if event is None:
        return None
    # The failure itself may have been about a Pod that is gone.
    failures = [one for one in snapshot.events if one.reason == "FailedScaleUp"]
    failure = _newest([*failures])
    more = [event_evidence(failure)] if failure else []
    return _BACKOFF.read(event_evidence(event), *more)


def _limits(snapshot: Snapshot) -> Diagnosis | None:
    return _refused(_LIMITS)(snapshot) or _LOGGED_LIMITS(snapshot)


_TRIGGERED = (
    Text(
        cause="P04",
        pattern=(
            r"triggered scale-up: \[\{\S*?/zones/([^\s/]+)/instanceGroups/(\S+) "
            r"(\d+)->(\d+) \(max: (\d+)\)\}"
        ),
        summary="A node is coming: {1} in {0} grows from {2} to {3} nodes (at most {4}).",
        next_step="Wait. A new node usually takes a few minutes.",
    ),
)


def triggered_scale_up(snapshot: Snapshot) -> EventFact | None:
    """The newest scale-up for a Pod without a node, unless a refusal came after it."""
    found = []
    for pod in snapshot.unschedulable:
        event = snapshot.newest(pod.uid, "TriggeredScaleUp")
        later = snapshot.newest(pod.uid, "FailedScaleUp", "NotTriggerScaleUp")
        if event and not (later and moment(later.last_seen) > moment(event.last_seen)):
            found.append(event)
    return _newest([*found])


def _coming(snapshot: Snapshot) -> Diagnosis | None:
    event = triggered_scale_up(snapshot)
    return first_read(_TRIGGERED, event_evidence(event)) if event else None


def _logged(cause: str, message_ids: dict[str, tuple[str, str]]) -> Match:
    """A cause that only the autoscaler's visibility log shows."""

    def match(snapshot: Snapshot) -> Diagnosis | None:
        pods = {pod.name: moment(pod.created) for pod in snapshot.unschedulable}
        for refusal in snapshot.refusals:
            # A message that names no Pod counts if it is not older than all of them.
            since = pods.get(refusal.pod) if refusal.pod else min(pods.values(), default=None)
            texts = message_ids.get(refusal.message_id)
            if texts is None or since is None or moment(refusal.seen) < since:
                continue
            evidence = Evidence(
                where="cluster-autoscaler-visibility log",
                text=" ".join((refusal.message_id, *refusal.parameters)),
                seen=refusal.seen,
            )
            return Diagnosis(
                cause=cause, summary=texts[0], next_step=texts[1], evidence=(evidence,)
            )
        return None

    return match


_LOGGED_LIMITS = _logged(
    "P11",
    {
        "no.scale.up.nap.pod.zonal.resources.exceeded": (
            "Node auto-provisioning would exceed its resource limits in every zone.",
            "Raise the resource limits of node auto-provisioning.",
        )
    },
)
_POOL_MISSING = _logged(
    "P12",
    {
        "no.scale.up.nap.disabled": (
            "No node pool fits the Pod, and node auto-provisioning is off.",
            "Create a node pool that fits, or enable node auto-provisioning.",
        )
    },
)
_GPU = _logged(
    "P13",
    {
        "no.scale.up.nap.pod.gpu.no.limit.defined": (
            "Node auto-provisioning has no resource limit for this type of GPU.",
            "Add a limit for the GPU type to node auto-provisioning.",
        ),
        "no.scale.up.nap.pod.gpu.type.not.supported": (
            "Node auto-provisioning does not support this type of GPU.",
            "Correct the accelerator label, or create a node pool with this GPU.",
        ),
    },
)
_FLEX_START = _logged(
    "P14",
    {
        "no.scale.up.flex.start.misconfigured.error": (
            "The Pod's flex-start selectors contradict each other.",
            "Run `outlast lint`: a Pod cannot ask for flex-start and Spot together.",
        )
    },
)
_CLASS = _logged(
    "P15",
    {
        "no.scale.up.nap.ccc.not.found": (
            "The ComputeClass that the Pod selects does not exist.",
            "Create the ComputeClass, or correct its name in the Pod.",
        ),
        "no.scale.up.nap.ccc.pod.incompatible": (
            "The Pod does not fit the ComputeClass that it selects.",
            "Compare the Pod's selectors and requests with the priorities of the ComputeClass.",
        ),
        "no.scale.up.nap.ccc.autoprovisioning.disabled": (
            "The ComputeClass may not create node pools, and none fits the Pod.",
            "Enable nodePoolAutoCreation in the ComputeClass, or create a node pool for it.",
        ),
    },
)


def _cause(id: str, title: str, seen_in: str, match: Match) -> Cause:
    return Cause(id=id, title=title, seen_in=seen_in, match=match)


_LOG = "the autoscaler's visibility log in Cloud Logging"
FAILED_SCALE_UP = (
    _cause("P05", "machines out of stock", "Pod event FailedScaleUp", _failed(_STOCKOUT)),
    _cause("P06", "quota exceeded", "Pod event FailedScaleUp", _failed(_QUOTA)),
    _cause("P07", "another scale-up error", "Pod event FailedScaleUp", _failed(*_OTHERS)),
)
NO_SCALE_UP = (
    _cause("P08", "node pool in back-off", "Pod event NotTriggerScaleUp", _backoff),
    _cause("P09", "node pool at its maximum", "Pod event NotTriggerScaleUp", _refused(_POOL_FULL)),
    _cause("P10", "cluster at its maximum", "Pod event NotTriggerScaleUp", _refused(_CLUSTER_FULL)),
    _cause("P11", "auto-provisioning limits", f"Pod event NotTriggerScaleUp, or {_LOG}", _limits),
    _cause("P12", "auto-provisioning off", _LOG, _POOL_MISSING),
    _cause("P13", "GPU not available to auto-provisioning", _LOG, _GPU),
    _cause("P14", "contradicting flex-start selectors", _LOG, _FLEX_START),
    _cause("P15", "ComputeClass missing or unfit", _LOG, _CLASS),
)
TRIGGERED_SCALE_UP = (_cause("P04", "a node is coming", "Pod event TriggeredScaleUp", _coming),)
