"""Everything that is looked at together: all objects, all Pods, the node pools, the schemas.

A rule asks it for what stands elsewhere. What it says of an object that was not given is nothing:
a claim that no file defines may well exist in the cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from outlast.manifests.lint.aim import Aim, find_aim
from outlast.manifests.lint.file import File
from outlast.manifests.lint.pod import Pod, pods_of
from outlast.manifests.lint.pools.model import Capacity, NodePool, Tier, joined
from outlast.manifests.lint.schemas import SchemaError, Schemas
from outlast.manifests.lint.view import Manifest
from outlast.manifests.lint.window import class_window, find_window

DEFAULT_CLASS_LABEL = "cloud.google.com/default-compute-class"


class Review:
    """All that one lint looks at. `extra` is what is known of the nodes from outside the files."""

    def __init__(
        self, files: Sequence[File], *, schemas: Schemas, extra: Capacity | None = None
    ) -> None:
        self.files = tuple(files)
        self.capacity = joined([*(file.capacity for file in files), extra or Capacity()])
        self._schemas = schemas
        # By identity: all of these live as long as the review does.
        self._pods: dict[int, tuple[Pod, ...]] = {}
        self._aims: dict[int, Aim] = {}
        self._windows: dict[int, int] = {}
        self._errors: dict[int, tuple[SchemaError, ...]] = {}

    @property
    def kubernetes_minor(self) -> int:
        """The minor version of the Kubernetes that objects are held against: 35 for 1.35."""
        return int(self._schemas.version.split(".")[1])

    @property
    def pools(self) -> tuple[NodePool, ...]:
        return self.capacity.pools

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """Every object, patches too."""
        return tuple(manifest for file in self.files for manifest in file.manifests)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Every Pod and template of Pods, patches left out."""
        return tuple(
            pod
            for manifest in self.manifests
            if not manifest.is_patch
            for pod in self.pods_in(manifest)
        )

    @cached_property
    def pods_by_label(self) -> dict[tuple[str, str], list[Pod]]:
        """The Pods that carry a label in the cluster, by its key and value."""
        found: dict[tuple[str, str], list[Pod]] = {}
        for pod in self.pods:
            for label in pod.cluster_labels.items():
                found.setdefault(label, []).append(pod)
        return found

    def pods_in(self, manifest: Manifest) -> tuple[Pod, ...]:
        """The Pods and templates of Pods in one object, a patch or not."""
        if id(manifest) not in self._pods:
            self._pods[id(manifest)] = tuple(pods_of(manifest))
        return self._pods[id(manifest)]

    def of_kind(self, kind: str, *, group: str | None = None) -> Iterator[Manifest]:
        """The objects of a kind, patches left out."""
        return (
            manifest
            for manifest in self._by_kind.get(kind, ())
            if group is None or manifest.group == group
        )

    def find(self, kind: str, name: str, *, near: Manifest) -> Manifest | None:
        """The object of a name in the namespace of another one.

        Who names no namespace may end up in any, so it is taken to fit.
        """
        return next(
            (
                manifest
                for manifest in self.of_kind(kind)
                if manifest.name == name and share_namespace(manifest, near)
            ),
            None,
        )

    def aim(self, pod: Pod) -> Aim:
        """Which tier a Pod is aimed at, by all that is known here."""
        if id(pod) not in self._aims:
            self._aims[id(pod)] = find_aim(
                pod.demand,
                self.capacity,
                self._class_tiers,
                default_class=self._default_classes.get(pod.manifest.namespace or ""),
            )
        return self._aims[id(pod)]

    def window_seconds(self, pod: Pod) -> int:
        """How long a Pod lives at most once its Spot node is reclaimed, whatever its grace period.

        That is the shortest of all nodes that it may get. Where the settings of a pool cannot be
        read, it is the longest that GKE has.
        """
        if id(pod) not in self._windows:
            self._windows[id(pod)] = find_window(pod.demand, self.pools, self._class_windows)
        return self._windows[id(pod)]

    def schema_errors(self, manifest: Manifest) -> tuple[SchemaError, ...]:
        if id(manifest) not in self._errors:
            self._errors[id(manifest)] = tuple(self._schemas.errors(manifest))
        return self._errors[id(manifest)]

    @cached_property
    def kustomized_images(self) -> frozenset[str]:
        """The images whose tag a Kustomization sets."""
        return frozenset(
            str(image.get("name"))
            for file in self.files
            if file.kustomization is not None
            for image in _mappings(file.kustomization.get("images"))
            if "newTag" in image or "digest" in image
        )

    @cached_property
    def _by_kind(self) -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for manifest in self.manifests:
            if not manifest.is_patch:
                found.setdefault(manifest.kind, []).append(manifest)
        return found

    @cached_property
    def _class_tiers(self) -> dict[str, frozenset[Tier]]:
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


def share_namespace(one: Manifest, other: Manifest) -> bool:
    return one.namespace is None or other.namespace is None or one.namespace == other.namespace


def _tiers_of_class(manifest: Manifest, pools: Mapping[str, Tier]) -> frozenset[Tier]:
    """The tiers that a ComputeClass tries, one after the other."""
    tiers: set[Tier] = set()
    for _, priority in manifest.mappings("spec", "priorities"):
        named = priority.get("nodepools")
        if isinstance(named, list):
            tiers |= {pools[name] for name in named if isinstance(name, str) and name in pools}
        elif priority.get("spot") is True:
            tiers.add(Tier.SPOT)
        elif isinstance(priority.get("flexStart"), dict):
            tiers.add(Tier.FLEX_START)
        else:
            tiers.add(Tier.ON_DEMAND)
    return frozenset(tiers)


def _mappings(value: object) -> Iterator[dict[str, object]]:
    items = value if isinstance(value, list) else []
    return (item for item in items if isinstance(item, dict))
