"""The object uses an API version that Kubernetes has removed.

Why: the API server no longer recognizes the version and rejects the object, so what it defines is
never created.
Instead: use the version that replaced it, and check for fields that have changed.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from outlast.manifests.lint.engine.rule import Severity, object_rule
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.view import Fault, KubernetesObject
from outlast.yamltext.editing import Put


class _Removed(NamedTuple):
    """The minor version that removed a kind, its replacement, and whether they look alike."""

    minor: int
    now: str | None
    is_alike: bool = False


_APPS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_STORAGE = ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment")
_FLOW = ("FlowSchema", "PriorityLevelConfiguration")


def _each(
    version: str, kinds: tuple[str, ...], removed: _Removed
) -> dict[tuple[str, str], _Removed]:
    return {(version, kind): removed for kind in kinds}


_REMOVED: dict[tuple[str, str], _Removed] = {
    **_each("extensions/v1beta1", _APPS, _Removed(16, "apps/v1")),
    **_each("apps/v1beta1", _APPS, _Removed(16, "apps/v1")),
    **_each("apps/v1beta2", _APPS, _Removed(16, "apps/v1")),
    ("extensions/v1beta1", "NetworkPolicy"): _Removed(16, "networking.k8s.io/v1"),
    ("extensions/v1beta1", "PodSecurityPolicy"): _Removed(16, None),
    ("extensions/v1beta1", "Ingress"): _Removed(22, "networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", "Ingress"): _Removed(22, "networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", "IngressClass"): _Removed(22, "networking.k8s.io/v1"),
    **_each(
        "rbac.authorization.k8s.io/v1beta1",
        _RBAC,
        _Removed(22, "rbac.authorization.k8s.io/v1", True),
    ),
    **_each(
        "rbac.authorization.k8s.io/v1alpha1", _RBAC, _Removed(22, "rbac.authorization.k8s.io/v1")
    ),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"): _Removed(
        22, "apiextensions.k8s.io/v1"
    ),
    **_each(
        "admissionregistration.k8s.io/v1beta1",
        _WEBHOOKS,
        _Removed(22, "admissionregistration.k8s.io/v1"),
    ),
    ("apiregistration.k8s.io/v1beta1", "APIService"): _Removed(22, "apiregistration.k8s.io/v1"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"): _Removed(
        22, "certificates.k8s.io/v1"
    ),
    ("coordination.k8s.io/v1beta1", "Lease"): _Removed(22, "coordination.k8s.io/v1", True),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): _Removed(22, "scheduling.k8s.io/v1", True),
    **_each("storage.k8s.io/v1beta1", _STORAGE, _Removed(22, "storage.k8s.io/v1", True)),
    ("batch/v2alpha1", "CronJob"): _Removed(21, "batch/v1"),
    ("batch/v2alpha1", "Job"): _Removed(21, "batch/v1"),
    ("batch/v1beta1", "CronJob"): _Removed(25, "batch/v1", True),
    ("batch/v1beta1", "Job"): _Removed(25, "batch/v1", True),
    ("extensions/v1beta1", "Job"): _Removed(16, "batch/v1"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"): _Removed(25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", "Event"): _Removed(25, "events.k8s.io/v1"),
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"): _Removed(25, "autoscaling/v2"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): _Removed(26, "autoscaling/v2", True),
    ("policy/v1beta1", "PodDisruptionBudget"): _Removed(25, "policy/v1"),
    ("policy/v1beta1", "PodSecurityPolicy"): _Removed(25, None),
    ("node.k8s.io/v1beta1", "RuntimeClass"): _Removed(25, "node.k8s.io/v1", True),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity"): _Removed(27, "storage.k8s.io/v1", True),
    **_each(
        "flowcontrol.apiserver.k8s.io/v1beta1",
        _FLOW,
        _Removed(26, "flowcontrol.apiserver.k8s.io/v1"),
    ),
    **_each(
        "flowcontrol.apiserver.k8s.io/v1beta2",
        _FLOW,
        _Removed(29, "flowcontrol.apiserver.k8s.io/v1"),
    ),
    **_each(
        "flowcontrol.apiserver.k8s.io/v1beta3",
        _FLOW,
        _Removed(32, "flowcontrol.apiserver.k8s.io/v1"),
    ),
}

_RELEASE = re.compile(r"v\d+\.\d+\.\d+(?:[-.]\w+)*")

# Where kinds of Kubernetes are today, for a version that never had them.
_TODAY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_APPS, ("apps/v1",)),
    **dict.fromkeys(_RBAC, ("rbac.authorization.k8s.io/v1",)),
    **dict.fromkeys(("CronJob", "Job"), ("batch/v1",)),
    **dict.fromkeys(
        (
            "ConfigMap",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "Secret",
            "Service",
            "ServiceAccount",
        ),
        ("v1",),
    ),
    "HorizontalPodAutoscaler": ("autoscaling/v2", "autoscaling/v1"),
    "Ingress": ("networking.k8s.io/v1",),
    "NetworkPolicy": ("networking.k8s.io/v1",),
    "PodDisruptionBudget": ("policy/v1",),
    "PriorityClass": ("scheduling.k8s.io/v1",),
    "StorageClass": ("storage.k8s.io/v1",),
}
# Other groups have kinds of the same name.
_OWN_GROUPS = frozenset(
    ("", "extensions", *(one.partition("/")[0] for all_ in _TODAY.values() for one in all_))
)


@object_rule("OL906", Severity.ERROR)
def removed_api(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    removed = _REMOVED.get((manifest.api_version, manifest.kind))
    if removed is None:
        yield from _never_there(manifest)
        return
    if review.kubernetes_minor < removed.minor or _is_for_old_clusters(manifest):
        return
    hint = f"Use {removed.now}." if removed.now else "It has no replacement; remove the object."
    yield manifest.fault(
        f"Kubernetes 1.{removed.minor} removed {manifest.kind} from {manifest.api_version}.",
        at=("apiVersion",),
        hint=hint,
        # It may have been written for an older cluster.
        fix=manifest.fix(
            f"Change it to {removed.now}", Put(("apiVersion",), removed.now), is_safe=False
        )
        if removed.is_alike
        else None,
        is_minor=_is_of_release(manifest),
    )


def _is_for_old_clusters(manifest: KubernetesObject) -> bool:
    """Whether it is a definition in a folder named for its version."""
    path = manifest.source.path
    return (
        manifest.kind == "CustomResourceDefinition"
        and path is not None
        and path.parent.name == manifest.api_version.rpartition("/")[2]
    )


def _is_of_release(manifest: KubernetesObject) -> bool:
    """Whether it is in a folder for a release, such as v0.5.0, which is kept as it was."""
    path = manifest.source.path
    return path is not None and any(map(_RELEASE.fullmatch, path.parts[:-1]))


def _never_there(manifest: KubernetesObject) -> Iterator[Fault]:
    today = _TODAY.get(manifest.kind)
    if today is None or not manifest.api_version or manifest.api_version in today:
        return
    if manifest.group in _OWN_GROUPS:
        yield manifest.fault(
            f"Kubernetes has no {manifest.kind} in {manifest.api_version}.",
            at=("apiVersion",),
            hint=f"Use {today[0]}.",
            fix=manifest.fix(
                f"Change it to {today[0]}", Put(("apiVersion",), today[0]), is_safe=False
            ),
        )
