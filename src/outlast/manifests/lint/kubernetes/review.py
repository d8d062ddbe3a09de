"""Everything that is linted together: files, objects, Pods, node pools and schemas.

Rules use it to look at other objects. It knows nothing about objects that no file defines: they may
exist in the cluster.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from outlast.manifests.lint.kubernetes.placeholders import is_placeholder
from outlast.manifests.lint.kubernetes.placement import (
    Placement,
    class_window,
    find_placement,
    find_window,
)
from outlast.manifests.lint.kubernetes.pod import Pod, pods_of
from outlast.manifests.lint.kubernetes.schemas import SchemaError, Schemas
from outlast.manifests.lint.pools.model import ClusterCapacity, NodePool, NodeTier, joined
from outlast.manifests.lint.scheduling import Requirement
from outlast.manifests.lint.view import Fault, KubernetesObject
from outlast.yamltext.nodes import Map
from outlast.yamltext.reading import BrokenDocument, YamlContent
from outlast.yamltext.source import SourceSpan, SourceText

DEFAULT_CLASS_LABEL = "cloud.google.com/default-compute-class"


class FileFormat(StrEnum):
    """The kind of content of a file."""

    MANIFEST = "manifest"
    SCRIPT = "script"
    TERRAFORM = "terraform"
    HELM = "helm"


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """One file. `reading` is its content, `broken` the documents to report as unreadable.

    `kustomization` is the Kustomization in it. `notice` is for the user: what was skipped and why.
    """

    source: SourceText
    format: FileFormat = FileFormat.MANIFEST
    reading: YamlContent = field(default_factory=YamlContent)
    manifests: tuple[KubernetesObject, ...] = ()
    broken: tuple[BrokenDocument, ...] = ()
    capacity: ClusterCapacity = field(default_factory=ClusterCapacity)
    kustomization: Map | None = None
    notice: str | None = None

    def fault(
        self,
        message: str,
        *,
        start: int,
        end: int,
        hint: str | None = None,
        is_minor: bool = False,
    ) -> Fault:
        place = SourceSpan(source=self.source, start=start, end=end)
        return Fault(message=message, place=place, hint=hint, is_minor=is_minor)


class Review:
    """Objects that are linted together, and what is known about their cluster.

    `subjects` are the objects to report on; the other `manifests` are only looked up. By default,
    these are all objects of the files. `extra` is the capacity, by default that of the files.
    """

    def __init__(
        self, files: Sequence[LoadedFile], *, schemas: Schemas, extra: ClusterCapacity | None = None
    ) -> None:
        self.files = tuple(files)
        self.manifests = tuple(manifest for file in files for manifest in file.manifests)
        self.subjects = self.manifests
        self.capacity = extra or joined(file.capacity for file in files)
        self._schemas = schemas
        # Keyed by identity: all of these live as long as the review.
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._errors: dict[int, tuple[SchemaError, ...]] = {}
        self._placements: dict[int, Placement] = {}
        self._windows: dict[int, int] = {}

    def part(
        self,
        subjects: Sequence[KubernetesObject],
        *,
        others: Iterable[KubernetesObject] = (),
        capacity: ClusterCapacity,
    ) -> "Review":
        """A review of some of the objects, in a cluster of this capacity."""
        part = Review((), schemas=self._schemas, extra=capacity)
        part.files = self.files
        part.subjects = tuple(subjects)
        part.manifests = (*subjects, *others)
        part._pods, part._errors = self._pods, self._errors
        return part

    @property
    def kubernetes_minor(self) -> int:
        """The minor version of Kubernetes that objects are checked against: 35 for 1.35."""
        return int(self._schemas.version.split(".")[1])

    @property
    def pools(self) -> tuple[NodePool, ...]:
        return self.capacity.pools

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Every Pod and Pod template, except in patches."""
        return tuple(
            pod
            for manifest in self.manifests
            if not manifest.is_patch
            for pod in self.pods_in(manifest)
        )

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """The Pods of the objects under review, which run in this cluster, except in patches."""
        return tuple(pod for one in self.subjects if not one.is_patch for pod in self.pods_in(one))

    @cached_property
    def pods_by_label(self) -> dict[tuple[str, str], list[Pod]]:
        """The Pods that have a label in the cluster, by its key and value."""
        found: dict[tuple[str, str], list[Pod]] = {}
        for pod in self.pods:
            for label in pod.cluster_labels.items():
                found.setdefault(label, []).append(pod)
        return found

    def pods_in(self, manifest: KubernetesObject) -> tuple[Pod, ...]:
        """The Pods and Pod templates in one object, which may be a patch."""
        found = self._pods.get(id(manifest))
        if found is None:
            found = self._pods[id(manifest)] = tuple(pods_of(manifest))
        return found

    def of_kind(self, kind: str, *, group: str | None = None) -> Iterator[KubernetesObject]:
        """The objects of a kind, without patches."""
        return (
            manifest
            for manifest in self._by_kind.get(kind, ())
            if group is None or manifest.group == group
        )

    def find(self, kind: str, name: str, *, near: KubernetesObject) -> KubernetesObject | None:
        """The object with this name in the namespace of `near`.

        An object without a namespace may be applied to any, so it matches all of them.
        """
        return next(
            (one for one in self._by_name.get((kind, name), ()) if share_namespace(one, near)),
            None,
        )

    def placement(self, pod: Pod) -> Placement:
        """Where a Pod may run."""
        found = self._placements.get(id(pod))
        if found is None:
            found = self._placements[id(pod)] = find_placement(
                pod.demand,
                self.capacity,
                self._class_tiers,
                default_class=self._default_classes.get(pod.manifest.namespace or ""),
                is_provisioned=pod.provisioning_request is not None,
            )
        return found

    def window_seconds(self, pod: Pod) -> int:
        """How long a Pod can run once its Spot node is reclaimed, regardless of its grace period.

        The shortest window of all nodes it may run on. If the settings of a pool cannot be read,
        the longest that GKE supports.
        """
        if id(pod) not in self._windows:
            self._windows[id(pod)] = find_window(pod.demand, self.pools, self._class_windows)
        return self._windows[id(pod)]

    def schema_errors(self, manifest: KubernetesObject) -> tuple[SchemaError, ...]:
        if id(manifest) not in self._errors:
            found = self._schemas.errors(manifest) if manifest.has_schema else ()
            self._errors[id(manifest)] = tuple(found)
        return self._errors[id(manifest)]

    @cached_property
    def kustomized_images(self) -> frozenset[str]:
        """The images whose tag is set by a Kustomization."""
        return frozenset(
            str(image.get("name"))
            for file in self.files
            if file.kustomization is not None
            for image in _mappings(file.kustomization.get("images"))
            if "newTag" in image or "digest" in image
        )

    @cached_property
    def _by_kind(self) -> dict[str, list[KubernetesObject]]:
        found: dict[str, list[KubernetesObject]] = {}
        for manifest in self.manifests:
            if not manifest.is_patch:
                found.setdefault(manifest.kind, []).append(manifest)
        return found

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[KubernetesObject]]:
        found: dict[tuple[str, str], list[KubernetesObject]] = {}
        for kind, manifests in self._by_kind.items():
            for manifest in manifests:
                found.setdefault((kind, manifest.name), []).append(manifest)
        return found

    @cached_property
    def _class_tiers(self) -> dict[str, frozenset[NodeTier]]:
        pools = {pool.name: pool.tier for pool in self.pools if pool.tier is not None}
        return {one.name: _tiers_of_class(one, pools) for one in self.of_kind("ComputeClass")}

    @cached_property
    def _class_windows(self) -> dict[str, int]:
        return {one.name: class_window(one, self.pools) for one in self.of_kind("ComputeClass")}

    @cached_property
    def _default_classes(self) -> dict[str, str]:
        return {
            one.name: one.labels[DEFAULT_CLASS_LABEL]
            for one in self.of_kind("Namespace")
            if DEFAULT_CLASS_LABEL in one.labels
        }


def folder_of(source: SourceText) -> Path:
    """The folder of a file, the working folder for standard input."""
    return _folder(source.path)


# By files, because a new path for the folder of each would have to be hashed again.
@cache
def _folder(file: Path | None) -> Path:
    return _resolved(file.parent if file else Path())


@cache
def _resolved(folder: Path) -> Path:
    return folder.resolve()


def share_folder(one: KubernetesObject, other: KubernetesObject) -> bool:
    """Whether two objects belong to one project: the same overlay or folder, or one below it."""
    if one.overlay is not None and one.overlay == other.overlay:
        return True
    return one.source is other.source or _are_nested(one.source.path, other.source.path)


@lru_cache(maxsize=100_000)
def _are_nested(file: Path | None, other: Path | None) -> bool:
    """Whether the folder of one file contains the other file."""
    first, second = _folder(file), _folder(other)
    return first.is_relative_to(second) or second.is_relative_to(first)


def share_namespace(one: KubernetesObject, other: KubernetesObject) -> bool:
    """Whether both may be in one namespace; one that is missing or filled in later may be any."""
    first, second = one.namespace, other.namespace
    if first is None or second is None or first == second:
        return True
    return is_placeholder(first) or is_placeholder(second)


def _tiers_of_class(
    manifest: KubernetesObject, pools: Mapping[str, NodeTier]
) -> frozenset[NodeTier]:
    """The tiers that a ComputeClass tries in order."""
    tiers: set[NodeTier] = set()
    for _, priority in manifest.mappings("spec", "priorities"):
        named = priority.get("nodepools")
        if isinstance(named, list):
            tiers |= {pools[name] for name in named if isinstance(name, str) and name in pools}
        elif priority.get("spot") is True:
            tiers.add(NodeTier.SPOT)
        elif isinstance(priority.get("flexStart"), dict):
            tiers.add(NodeTier.FLEX_START)
        else:
            tiers.add(NodeTier.ON_DEMAND)
    return frozenset(tiers)


def _mappings(value: object) -> Iterator[dict[str, object]]:
    items = value if isinstance(value, list) else []
    return (item for item in items if isinstance(item, dict))


def pods_selected(
    selector: Mapping[str, Any],
    by: KubernetesObject,
    review: Review,
    *,
    among: Container[int] | None = None,
) -> Iterator[Pod]:
    """The Pods in the namespace of `by` that match its selector; an empty one matches all.

    With `among`, only those whose identity is in it.
    """
    requirements = list(_label_requirements(selector))
    for pod in _candidates(requirements, review):
        if among is not None and id(pod) not in among:
            continue
        labels = pod.cluster_labels
        if share_namespace(pod.manifest, by) and all(one.accepts(labels) for one in requirements):
            yield pod


def _candidates(requirements: Iterable[Requirement], review: Review) -> Iterable[Pod]:
    """The Pods with a required label, or all Pods if no single value is required."""
    for requirement in requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return review.pods_by_label.get((requirement.key, requirement.values[0]), ())
    return review.pods


def _label_requirements(selector: Mapping[str, Any]) -> Iterator[Requirement]:
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if isinstance(labels, dict):
        for key, value in labels.items():
            values = (value,) if isinstance(value, str) else ()
            yield Requirement(key=key, operator="In", values=values)
    for item in expressions if isinstance(expressions, list) else ():
        if isinstance(item, dict):
            yield _label_requirement(item)


def _label_requirement(item: Mapping[str, Any]) -> Requirement:
    key, operator, listed = (item.get(name) for name in ("key", "operator", "values"))
    return Requirement(
        key=key if isinstance(key, str) else "",
        operator=operator if isinstance(operator, str) else "",
        values=tuple(value for value in listed if isinstance(value, str))
        if isinstance(listed, list)
        else (),
    )
