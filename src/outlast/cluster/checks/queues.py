"""Whether each queued object reaches Kueue: LocalQueue, ClusterQueue, its flavors and checks."""

from collections.abc import Iterator
from typing import Any

from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown
from outlast.cluster.resources import Object, Resource, namespace_of
from outlast.manifests.conventions import KUEUE_GROUP, QUEUE_LABEL

_VERSIONS = ("v1beta2", "v1beta1")
_PROVISIONING = f"{KUEUE_GROUP}/provisioning-request"
_REQUEST_VERSIONS = ("autoscaling.x-k8s.io/v1", "autoscaling.x-k8s.io/v1beta1")


def check_queues(subject: Subject) -> Iterator[CheckResult]:
    asked = {
        (namespace_of(item) or subject.namespace, queue)
        for item in subject.objects
        if isinstance(queue := _labels(item).get(QUEUE_LABEL), str)
    }
    for namespace, queue in sorted(asked):
        yield from _chain(subject, namespace, queue)


def _chain(subject: Subject, namespace: str, queue: str) -> Iterator[CheckResult]:
    local = _find(subject, "LocalQueue")
    if local is None:
        yield fail(
            f"Kueue is not installed, so nothing would start what waits in queue {queue!r}",
            "Install Kueue: https://kueue.sigs.k8s.io/docs/installation/",
        )
        return
    found = subject.cluster.get(local, queue, namespace)
    if found is None:
        yield fail(f"LocalQueue {queue!r} does not exist in {namespace}", _create("LocalQueue"))
        return
    name = str(found.get("spec", {}).get("clusterQueue"))
    resource = _find(subject, "ClusterQueue")
    behind = subject.cluster.get(resource, name) if resource else None
    if behind is None:
        yield fail(f"ClusterQueue {name!r} of queue {queue!r} does not exist", _create("queues"))
        return
    problems = list(_problems(subject, name, behind))
    yield from problems or [ok(f"queue {queue!r} leads to ClusterQueue {name!r}, which is active")]


def _problems(subject: Subject, name: str, queue: Object) -> Iterator[CheckResult]:
    stopped = queue.get("spec", {}).get("stopPolicy")
    if stopped in ("Hold", "HoldAndDrain"):
        yield fail(
            f"ClusterQueue {name!r} is stopped ({stopped})", "Ask its administrator to resume it."
        )
    flavors = _find(subject, "ResourceFlavor")
    for flavor in dict.fromkeys(_flavors(queue)):
        if flavors is None or subject.cluster.get(flavors, flavor) is None:
            yield fail(
                f"ResourceFlavor {flavor!r} of ClusterQueue {name!r} does not exist",
                _create("flavor"),
            )
    yield from _check_problems(subject, name, queue)
    conditions = queue.get("status", {}).get("conditions") or []
    active = next((one for one in conditions if one.get("type") == "Active"), None)
    if active is None:
        yield unknown(f"ClusterQueue {name!r} has no state yet: does the Kueue controller run?")
    elif active.get("status") != "True" and not stopped:
        yield fail(
            f"ClusterQueue {name!r} is not active: {active.get('message')}",
            "Fix what the message names.",
        )


def _check_problems(subject: Subject, name: str, queue: Object) -> Iterator[CheckResult]:
    """What admission checks need: themselves, and for queued provisioning GKE's requests."""
    resource = _find(subject, "AdmissionCheck")
    for check in dict.fromkeys(_admission_checks(queue)):
        found = subject.cluster.get(resource, check) if resource else None
        if found is None:
            yield fail(
                f"AdmissionCheck {check!r} of ClusterQueue {name!r} does not exist",
                _create("admission check"),
            )
        elif found.get("spec", {}).get("controllerName") == _PROVISIONING and not any(
            subject.cluster.find(version, "ProvisioningRequest") for version in _REQUEST_VERSIONS
        ):
            yield fail(
                f"AdmissionCheck {check!r} requests nodes with ProvisioningRequests, which the "
                "cluster does not serve",
                "Use a GKE cluster of 1.28 or later with a node pool for queued provisioning.",
            )


def _admission_checks(queue: Object) -> Iterator[str]:
    spec = queue.get("spec", {})
    yield from map(str, spec.get("admissionChecks") or ())
    for one in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        yield str(one.get("name"))


def _flavors(queue: Object) -> Iterator[str]:
    for group in queue.get("spec", {}).get("resourceGroups") or ():
        yield from (str(flavor.get("name")) for flavor in group.get("flavors") or ())


def _find(subject: Subject, kind: str) -> Resource | None:
    served = (subject.cluster.find(f"{KUEUE_GROUP}/{version}", kind) for version in _VERSIONS)
    return next((resource for resource in served if resource is not None), None)


def _create(what: str) -> str:
    return f"Run `outlast submit FILE --setup`, or ask an administrator for the {what}."


def _labels(item: Object) -> dict[str, Any]:
    return (item.get("metadata") or {}).get("labels") or {}
