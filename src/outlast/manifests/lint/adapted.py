"""Objects that contain Pods in a form of their own, with Pod templates as other kinds have them.

The templates of an Argo Workflow, and Terraform's `kubernetes_job_v1` and similar resources. Each
value keeps its position in the file, and no fix changes such an object.
"""

import re
from collections.abc import Iterator
from typing import Any

from outlast.manifests.lint.pools.hcl import UNKNOWN, HclAttribute, HclBlock, read_hcl_file
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin, copied, place_at
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Map, Path, get
from outlast.yamltext.source import SourceSpan, SourceText

POD_TEMPLATES = "podTemplates"
"""The key under which the Pod templates of a Workflow are found."""

_WORKFLOWS = {
    "ClusterWorkflowTemplate": ("spec",),
    "CronWorkflow": ("spec", "workflowSpec"),
    "Workflow": ("spec",),
    "WorkflowTemplate": ("spec",),
}
_POD_FIELDS = ("affinity", "nodeSelector", "securityContext", "serviceAccountName", "tolerations")

_RESOURCE = re.compile(r'\bresource\s+"?kubernetes_')
_RESOURCES = {
    "kubernetes_cron_job": ("batch/v1", "CronJob"),
    "kubernetes_daemonset": ("apps/v1", "DaemonSet"),
    "kubernetes_daemon_set": ("apps/v1", "DaemonSet"),
    "kubernetes_deployment": ("apps/v1", "Deployment"),
    "kubernetes_job": ("batch/v1", "Job"),
    "kubernetes_pod": ("v1", "Pod"),
    "kubernetes_stateful_set": ("apps/v1", "StatefulSet"),
}
# Terraform repeats a block for each item of a list, and calls it by the singular.
_LISTS = {
    "container": "containers",
    "env": "env",
    "env_from": "envFrom",
    "image_pull_secrets": "imagePullSecrets",
    "init_container": "initContainers",
    "match_expressions": "matchExpressions",
    "node_selector_term": "nodeSelectorTerms",
    "on_pod_condition": "onPodConditions",
    "port": "ports",
    "preferred_during_scheduling_ignored_during_execution": (
        "preferredDuringSchedulingIgnoredDuringExecution"
    ),
    "rule": "rules",
    "toleration": "tolerations",
    "topology_spread_constraint": "topologySpreadConstraints",
    "volume": "volumes",
    "volume_mount": "volumeMounts",
}
# Terraform's provider takes the text "80" as the number.
_NUMBERS = frozenset(("max_surge", "max_unavailable", "port", "target_port"))
_PLACEHOLDER = "${...}"


class AdaptedObject(KubernetesObject):
    """An object in the form of another tool. Its schema is not that of Kubernetes."""

    def __init__(self, source: SourceText, root: BuiltMap) -> None:
        super().__init__(source, root, is_base=True)
        self._root = root

    @property
    def has_schema(self) -> bool:
        return False

    def is_as_written(self, path: Path) -> bool:
        return False

    def place(self, path: Path, *, of_key: bool = False) -> SourceSpan:
        return place_at(self._root, self.source, path, of_key=of_key)


def workflow(source: SourceText, item: Map) -> AdaptedObject | None:
    """An Argo Workflow with its Pod templates, None for any other object."""
    where = _WORKFLOWS.get(str(item.get("kind")))
    if where is None or not str(item.get("apiVersion")).startswith("argoproj.io/"):
        return None
    root = copied(item, source)
    spec = get(root, where)
    if not isinstance(spec, BuiltMap) or not isinstance(spec.get("templates"), BuiltSeq):
        return None
    templates = spec["templates"]
    pods = BuiltSeq(templates.start)
    for index, template in enumerate(templates):
        pod = _workflow_pod(spec, template) if isinstance(template, BuiltMap) else None
        if pod is not None:
            pods.put(len(pods), pod, templates.spans[index], source)
    root.put(POD_TEMPLATES, pods, spec.origin("templates"))
    return AdaptedObject(source, root)


def _workflow_pod(workflow: BuiltMap, template: BuiltMap) -> BuiltMap | None:
    """The Pod of a template; None for a template that only calls others."""
    kind = next(
        (key for key in ("container", "script") if isinstance(template.get(key), Map)), None
    )
    if kind is None:
        return None
    origin = template.origin(kind)
    pod, spec = BuiltMap(template.start), BuiltMap(template.start)
    if isinstance(template.get("metadata"), BuiltMap):
        pod.put("metadata", template["metadata"], template.origin("metadata"))
    pod.put("spec", spec, origin)
    main = template[kind]
    if "name" not in main:
        main.put("name", "main", origin)
    containers = BuiltSeq(main.start)
    containers.put(0, main, origin.span[2:], origin.source)
    spec.put("containers", containers, origin)
    for key in _POD_FIELDS:
        owner = template if key in template else workflow
        if key in owner:
            spec.put(key, owner[key], owner.origin(key))
    _add_volumes(spec, workflow, template)
    return pod


def _add_volumes(spec: BuiltMap, workflow: BuiltMap, template: BuiltMap) -> None:
    volumes = BuiltSeq(template.start)
    for owner in (template, workflow):
        listed = owner.get("volumes")
        if isinstance(listed, BuiltSeq):
            for index in range(len(listed)):
                volumes.take(listed, index)
            spec.put("volumes", volumes, owner.origin("volumes"))


def terraform_objects(source: SourceText) -> Iterator[AdaptedObject]:
    """The objects that Terraform's provider for Kubernetes creates."""
    if not _RESOURCE.search(source.text):
        return
    for block in read_hcl_file(source).all_blocks("resource"):
        if len(block.labels) != 2:
            continue
        kind = _RESOURCES.get(re.sub(r"_v\d\w*$", "", block.labels[0]))
        if kind is not None:
            yield _resource(source, block, *kind)
        elif block.labels[0] == "kubernetes_manifest":
            attribute = block.attributes.get("manifest")
            if attribute is not None and isinstance(attribute.value, dict):
                root = _value(attribute.value, _origin(source, attribute))
                if isinstance(root.get("kind"), str):
                    yield AdaptedObject(source, root)


def _resource(source: SourceText, block: HclBlock, version: str, kind: str) -> AdaptedObject:
    root = BuiltMap(block.start)
    origin = _origin(source, block)
    root.put("apiVersion", version, origin)
    root.put("kind", kind, origin)
    for name in ("metadata", "spec"):
        inner = block.block(name)
        if inner is not None:
            root.put(name, _mapping(source, inner), _origin(source, inner))
    return AdaptedObject(source, root)


def _mapping(source: SourceText, block: HclBlock) -> BuiltMap:
    found = BuiltMap(block.start)
    for name, attribute in block.attributes.items():
        origin = _origin(source, attribute)
        value = attribute.value
        if name in _NUMBERS and isinstance(value, str) and value.isdecimal():
            value = int(value)
        found.put(_camel(name), _value(value, origin), origin)
    for inner in block.blocks:
        origin = _origin(source, inner)
        if inner.type == "dynamic":
            continue
        content = _mapping(source, inner)
        plural = _LISTS.get(inner.type)
        if plural is None:
            found.put(_camel(inner.type), content, origin)
            continue
        if plural not in found:
            found.put(plural, BuiltSeq(inner.start), origin)
        listed = found[plural]
        if isinstance(listed, BuiltSeq):
            listed.put(len(listed), content, origin.span[2:], source)
    return found


def _value(value: Any, origin: Origin) -> Any:
    """A literal of Terraform; its parts are at the name of the attribute."""
    if value is UNKNOWN:
        return _PLACEHOLDER
    if isinstance(value, dict):
        mapping = BuiltMap(origin.span[0])
        for key, item in value.items():
            mapping.put(key, _value(item, origin), origin)
        return mapping
    if isinstance(value, list):
        items = BuiltSeq(origin.span[0])
        for item in value:
            items.put(len(items), _value(item, origin), origin.span[2:], origin.source)
        return items
    return value


def _origin(source: SourceText, found: HclAttribute | HclBlock) -> Origin:
    return Origin(source=source, span=(found.start, found.end, found.start, found.end))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
