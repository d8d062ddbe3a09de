"""What a Kustomization sets in all its objects: namespace, names, labels, images, replicas."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.kustomize.fields import FieldSpec, owners_of
from outlast.manifests.lint.kustomize.resources import Resource
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin
from outlast.yamltext.nodes import Map

_WORKLOADS = ("Deployment", "ReplicaSet", "DaemonSet")
_KEEP_NAMES = ("CustomResourceDefinition", "Namespace")

_TEMPLATES = (
    *(FieldSpec("spec/template/metadata", kind, is_created=True) for kind in _WORKLOADS),
    FieldSpec("spec/template/metadata", "StatefulSet", "apps", is_created=True),
    FieldSpec("spec/template/metadata", "ReplicationController", "", "v1", is_created=True),
    FieldSpec("spec/template/metadata", "Job", "batch", is_created=True),
    FieldSpec("spec/jobTemplate/metadata", "CronJob", "batch", is_created=True),
    FieldSpec("spec/jobTemplate/spec/template/metadata", "CronJob", "batch", is_created=True),
)
_METADATA = FieldSpec("metadata", is_created=True)
_CLAIMS = FieldSpec("spec/volumeClaimTemplates[]/metadata", "StatefulSet", "apps", is_created=True)

_AFFINITY = "spec/template/spec/affinity"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SELECTORS = (
    FieldSpec("spec/selector", "Service", version="v1", is_created=True),
    FieldSpec("spec/selector", "ReplicationController", version="v1", is_created=True),
    *(FieldSpec("spec/selector/matchLabels", kind, is_created=True) for kind in _WORKLOADS),
    FieldSpec("spec/selector/matchLabels", "StatefulSet", "apps", is_created=True),
    *(
        FieldSpec(f"{_AFFINITY}/{side}/{term}/labelSelector/matchLabels", kind, "apps")
        for kind in ("Deployment", "StatefulSet")
        for side in ("podAffinity", "podAntiAffinity")
        for term in (_PREFERRED, _REQUIRED)
    ),
    *(
        FieldSpec(
            "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels", kind, "apps"
        )
        for kind in ("Deployment", "StatefulSet")
    ),
    FieldSpec("spec/selector/matchLabels", "Job", "batch"),
    FieldSpec("spec/jobTemplate/spec/selector/matchLabels", "CronJob", "batch"),
    FieldSpec("spec/selector/matchLabels", "PodDisruptionBudget", "policy"),
    FieldSpec("spec/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
    FieldSpec("spec/ingress/from/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
    FieldSpec("spec/egress/to/podSelector/matchLabels", "NetworkPolicy", "networking.k8s.io"),
)
_REPLICAS = ("Deployment", "ReplicationController", "ReplicaSet", "StatefulSet")
_NAMESPACES = (
    FieldSpec("spec/service/namespace", "APIService", "apiregistration.k8s.io", is_created=True),
    FieldSpec(
        "spec/conversion/webhook/clientConfig/service/namespace",
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
    ),
)
_IMAGES = tuple(
    f"{pod}/{field}"
    for pod in ("spec", "spec/template/spec")
    for field in ("containers[]/image", "initContainers[]/image", "volumes[]/image/reference")
)


def set_namespace(resources: Iterable[Resource], namespace: str, origin: Origin) -> None:
    for one in resources:
        known = one.id
        if known.kind == "Namespace" and known.group == "":
            _rename(one, namespace, origin)
            continue
        if not known.is_cluster_scoped:
            one.remember()
            metadata = one.data.child("metadata", origin)
            if metadata is not None:
                metadata.put_scalar("namespace", namespace, origin)
        for owner, key in _namespace_fields(one, origin):
            owner.put_scalar(key, namespace, origin)


def _namespace_fields(one: Resource, origin: Origin) -> Iterator[tuple[BuiltMap, str]]:
    """The fields besides the metadata of an object that contain a namespace."""
    if one.id.kind in ("RoleBinding", "ClusterRoleBinding"):
        for subject in _mappings(one.data.get("subjects")):
            if subject.get("name") == "default":
                yield subject, "namespace"
    for field in _NAMESPACES:
        if field.is_for(one.id):
            yield from owners_of(one.data, field.path, origin if field.is_created else None)


def add_affixes(resources: Iterable[Resource], prefix: str, suffix: str, origin: Origin) -> None:
    for one in resources:
        first = one.first_id
        is_service = first.kind == "APIService" and first.group == "apiregistration.k8s.io"
        if first.kind not in _KEEP_NAMES and not is_service:
            _rename(one, f"{prefix}{one.id.name}{suffix}", origin)
            one.affixes.append(f"{prefix}*{suffix}")


def _rename(one: Resource, name: str, origin: Origin) -> None:
    one.remember()
    metadata = one.data.child("metadata", origin)
    if metadata is not None:
        metadata.put_scalar("name", name, origin)


def add_labels(resources: Iterable[Resource], entry: Map, origin: Origin) -> None:
    """One entry of `labels`."""
    custom = [*_custom_fields(entry.get("fields"))]
    if entry.get("includeSelectors") is True:
        fields = [*_SELECTORS, *_below("labels", _METADATA, *_TEMPLATES, _CLAIMS)]
    else:
        fields = [*_below("labels", _METADATA)]
        if entry.get("includeTemplates") is True:
            fields += _below("labels", *_TEMPLATES)
        if entry.get("includeVolumeClaimTemplates") is True:
            fields += _below("labels", _CLAIMS)
    _set_pairs(resources, entry.get("pairs"), [*custom, *fields], origin)


def add_common_labels(resources: Iterable[Resource], pairs: Any, origin: Origin) -> None:
    fields = [*_SELECTORS, *_below("labels", _METADATA, *_TEMPLATES, _CLAIMS)]
    _set_pairs(resources, pairs, fields, origin)


def add_annotations(resources: Iterable[Resource], pairs: Any, origin: Origin) -> None:
    _set_pairs(resources, pairs, [*_below("annotations", _METADATA, *_TEMPLATES)], origin)


def _below(name: str, *fields: FieldSpec) -> Iterator[FieldSpec]:
    for field in fields:
        yield FieldSpec(
            f"{field.path}/{name}", field.kind, field.group, field.version, field.is_created
        )


def _custom_fields(listed: Any) -> Iterator[FieldSpec]:
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, Map) and isinstance(item.get("path"), str):
            yield FieldSpec(
                item["path"],
                str(item.get("kind") or ""),
                item.get("group"),
                str(item.get("version") or ""),
                is_created=item.get("create") is True,
            )


def _set_pairs(
    resources: Iterable[Resource], pairs: Any, fields: Iterable[FieldSpec], origin: Origin
) -> None:
    if not isinstance(pairs, Map):
        return
    listed = list(fields)
    for one in resources:
        now = one.id
        for field in listed:
            if not field.is_for(now):
                continue
            created = origin if field.is_created else None
            for owner, key in owners_of(one.data, field.path, created):
                found = owner.child(key, origin)
                for name in pairs if found is not None else ():
                    assert found is not None
                    found.put(name, pairs[name], Origin.of_key(pairs, name, origin.source))


def set_image(resources: Iterable[Resource], entry: Map, origin: Origin) -> None:
    """One entry of `images`."""
    name = str(entry.get("name"))
    try:
        pattern = re.compile(rf"{name}(:[\w.{{}}-]*)?(@sha256:[\w.{{}}-]*)?", re.ASCII)
    except re.error as error:
        raise CannotBuild(f"the image name {name!r} is not a valid pattern: {error}") from error
    for one in resources:
        if one.id.kind == "CustomResourceDefinition":
            continue
        for owner, key in _image_fields(one.data):
            value = owner[key]
            if isinstance(value, str) and pattern.fullmatch(value):
                owner.put(key, _image(value, entry), origin)


def _image_fields(root: BuiltMap) -> Iterator[tuple[BuiltMap, str]]:
    seen = set()
    for path in _IMAGES:
        for owner, key in owners_of(root, path, None):
            seen.add(id(owner))
            yield owner, key
    for owner in _containers(root):
        if id(owner) not in seen and "image" in owner:
            yield owner, "image"


def _containers(node: Any) -> Iterator[BuiltMap]:
    """The items of every list called containers or initContainers."""
    if isinstance(node, BuiltMap):
        for key, value in node.items():
            if key in ("containers", "initContainers"):
                yield from _mappings(value)
            yield from _containers(value)
    elif isinstance(node, BuiltSeq):
        for item in node:
            yield from _containers(item)


def _image(value: str, entry: Map) -> str:
    name, _, digest = value.partition("@")
    tag = ""
    if ":" in name.rpartition("/")[2]:
        name, _, tag = name.rpartition(":")
    new_tag, new_digest = entry.get("newTag"), entry.get("digest")
    if new_tag or new_digest:
        tag, digest = str(new_tag or ""), str(new_digest or "")
    elif entry.get("tagSuffix"):
        tag, digest = f"{tag}{entry['tagSuffix']}", ""
    name = str(entry.get("newName") or name)
    return f"{name}{':' + tag if tag else ''}{'@' + digest if digest else ''}"


def set_replicas(resources: Iterable[Resource], entry: Map, origin: Origin) -> None:
    """One entry of `replicas`."""
    name = entry.get("name")
    found = [
        one
        for one in resources
        if one.id.kind in _REPLICAS and any(known.name == name for known in one.ids)
    ]
    if not found:
        raise CannotBuild(f"no resource with replicas is named {name!r}")
    for one in found:
        spec = one.data.child("spec", origin)
        if spec is not None:
            spec.put("replicas", entry.get("count"), origin)


def _mappings(value: Any) -> Iterator[BuiltMap]:
    return (item for item in value if isinstance(item, BuiltMap)) if value else iter(())
