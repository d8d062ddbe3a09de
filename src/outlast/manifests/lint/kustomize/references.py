"""References by name from one object to another, updated when names change."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from outlast.manifests.lint.kustomize.fields import FieldSpec, owners_of
from outlast.manifests.lint.kustomize.resources import Resource
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq

_TEMPLATE = "spec/template/spec"
_RBAC = "rbac.authorization.k8s.io"
_POD_SPECS = {
    "Pod": "spec",
    "PodTemplate": "template/spec",
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": "spec/jobTemplate/spec/template/spec",
}
# PodTemplate and ReplicaSet have no entry for these; ReplicationController has.
_FEW = {
    kind: path for kind, path in _POD_SPECS.items() if kind not in ("PodTemplate", "ReplicaSet")
}
_FEW["ReplicationController"] = _TEMPLATE


def _in_pods(*paths: str, kinds: dict[str, str] = _POD_SPECS) -> tuple[FieldSpec, ...]:
    return tuple(FieldSpec(f"{pod}/{path}", kind) for kind, pod in kinds.items() for path in paths)


def _in_containers(*paths: str) -> tuple[FieldSpec, ...]:
    return _in_pods(
        *(f"{key}/{path}" for key in ("containers", "initContainers") for path in paths)
    )


_WEBHOOKS = tuple(
    FieldSpec("webhooks/clientConfig/service", kind, "admissionregistration.k8s.io")
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)
_RULES = (FieldSpec("rules/resourceNames", "Role"), FieldSpec("rules/resourceNames", "ClusterRole"))
_SUBJECTS = (
    FieldSpec("subjects", "RoleBinding", _RBAC),
    FieldSpec("subjects", "ClusterRoleBinding", _RBAC),
)

REFERENCES: dict[tuple[str, str | None], tuple[FieldSpec, ...]] = {
    **{
        (kind, None): (FieldSpec("spec/scaleTargetRef/name", "HorizontalPodAutoscaler"),)
        for kind in ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
    },
    ("ConfigMap", ""): (
        *_in_pods("volumes/configMap/name", "volumes/projected/sources/configMap/name"),
        *_in_containers("env/valueFrom/configMapKeyRef/name", "envFrom/configMapRef/name"),
        *_RULES,
    ),
    ("Secret", ""): (
        *_in_pods(
            "volumes/secret/secretName",
            "volumes/projected/sources/secret/name",
            "imagePullSecrets/name",
        ),
        *_in_containers("env/valueFrom/secretKeyRef/name", "envFrom/secretRef/name"),
        FieldSpec("spec/tls/secretName", "Ingress"),
        FieldSpec("imagePullSecrets/name", "ServiceAccount"),
        *_RULES,
        FieldSpec(
            f"{_TEMPLATE}/containers/env/valueFrom/secretKeyRef/name",
            "Service",
            "serving.knative.dev",
        ),
    ),
    ("Service", ""): (
        FieldSpec("spec/serviceName", "StatefulSet", "apps"),
        FieldSpec("spec/rules/http/paths/backend/serviceName", "Ingress"),
        FieldSpec("spec/backend/serviceName", "Ingress"),
        FieldSpec("spec/rules/http/paths/backend/service/name", "Ingress"),
        FieldSpec("spec/defaultBackend/service/name", "Ingress"),
        FieldSpec("spec/service/name", "APIService", "apiregistration.k8s.io"),
        *_WEBHOOKS,
    ),
    ("Role", _RBAC): (FieldSpec("roleRef/name", "RoleBinding", _RBAC),),
    ("ClusterRole", _RBAC): (
        FieldSpec("roleRef/name", "RoleBinding", _RBAC),
        FieldSpec("roleRef/name", "ClusterRoleBinding", _RBAC),
    ),
    ("ServiceAccount", ""): (*_SUBJECTS, *_in_pods("serviceAccountName", kinds=_FEW)),
    ("PersistentVolumeClaim", ""): _in_pods("volumes/persistentVolumeClaim/claimName", kinds=_FEW),
    ("PersistentVolume", ""): (
        FieldSpec("spec/volumeName", "PersistentVolumeClaim"),
        FieldSpec("rules/resourceNames", "ClusterRole"),
    ),
    ("StorageClass", "storage.k8s.io"): (
        FieldSpec("spec/storageClassName", "PersistentVolume"),
        FieldSpec("spec/storageClassName", "PersistentVolumeClaim"),
        FieldSpec("spec/volumeClaimTemplates/spec/storageClassName", "StatefulSet"),
    ),
    ("PriorityClass", "scheduling.k8s.io"): _in_pods("priorityClassName", kinds=_FEW),
}


def update_references(resources: Sequence[Resource]) -> None:
    """Update every reference to an object whose name or namespace has changed."""
    # References are never part of an object's own identity, so updating them changes none.
    known = [(one, one.id) for one in resources]
    for (kind, group), fields in REFERENCES.items():
        targets = [
            one
            for one, now in known
            if one.earlier and now.kind == kind and group in (None, now.group)
        ]
        for referrer, now in known if targets else ():
            for field in fields:
                if field.is_for(now):
                    _update(referrer, field, targets)


def _update(referrer: Resource, field: FieldSpec, targets: list[Resource]) -> None:
    wanted_kind = None
    role = referrer.data.get("roleRef")
    if field.path.endswith("roleRef/name") and isinstance(role, BuiltMap):
        wanted_kind = role.get("kind")

    def find(name: Any) -> Resource | None:
        found = [one for one in targets if wanted_kind in (None, one.id.kind)]
        return _referred(referrer, name, found)

    for owner, key in owners_of(referrer.data, field.path, None):
        value = owner[key]
        if isinstance(value, BuiltMap):
            _update_mapping(value, find)
        elif isinstance(value, BuiltSeq):
            for index, item in enumerate(value):
                if isinstance(item, BuiltMap):
                    _update_mapping(item, find)
                elif (target := find(item)) is not None:
                    value[index] = target.id.name
        elif (target := find(value)) is not None:
            owner[key] = target.id.name


def _update_mapping(node: BuiltMap, find: Callable[[Any], Resource | None]) -> None:
    """Update `name` and `namespace` in a mapping such as the subject of a RoleBinding."""
    target = find(node.get("name"))
    if target is None:
        return
    namespace = node.get("namespace")
    if namespace is not None and namespace not in (
        one.namespace or "default" for one in target.ids
    ):
        return
    node["name"] = target.id.name
    if target.id.namespace:
        node.put_scalar("namespace", target.id.namespace, node.origin("name"))


def _referred(referrer: Resource, name: Any, targets: Iterable[Resource]) -> Resource | None:
    """The object that the name refers to, None if that is none of them or not clear."""
    found = [
        one
        for one in targets
        if any(known.name == name for known in one.earlier) and _share_namespace(referrer, one)
    ]
    if len(found) > 1:
        found = [one for one in found if _begins_alike(one.affixes, referrer.affixes)] or found
    if len(found) > 1:
        found = [one for one in found if one.affixes == referrer.affixes] or found
    names = {one.id.name for one in found}
    return found[0] if len(names) == 1 else None


def _begins_alike(one: list[str], other: list[str]) -> bool:
    """Whether the later prefixes and suffixes are the same, which the same overlays added."""
    shared = min(len(one), len(other))
    return one[len(one) - shared :] == other[len(other) - shared :]


def _share_namespace(referrer: Resource, target: Resource) -> bool:
    if referrer.id.is_cluster_scoped or target.id.is_cluster_scoped:
        return True
    if target.id.kind == "ServiceAccount":
        return True
    return (referrer.id.namespace or "default") == (target.id.namespace or "default")
