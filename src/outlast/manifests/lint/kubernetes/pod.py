"""Pods as rules see them, in any kind of object, with their Job and containers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from outlast.manifests.conventions import (
    CLASS_ANNOTATIONS,
    CONSUME_ANNOTATIONS,
    GPU,
    QUEUED_CLASS,
)
from outlast.manifests.lint.kubernetes.script import waits_forever
from outlast.manifests.lint.kubernetes.templates import SLOTS, TemplateSlot, expand
from outlast.manifests.lint.scheduling import NodeDemand, Toleration, node_demand
from outlast.manifests.lint.view import KubernetesObject, ObjectView
from outlast.yamltext.nodes import Map, Path, get

GRACE_SECONDS_DEFAULT = 30
TPU = "google.com/tpu"

_SERVERS = ("Deployment", "ReplicaSet", "ReplicationController", "Rollout", "Service")


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvVariable:
    """An environment variable. `value` is None if it comes from elsewhere; `at` is its path."""

    name: str
    value: str | None
    at: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A volume mount of a container. `at` is its path in the container."""

    volume: str
    folder: str
    is_read_only: bool
    at: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """A volume of a Pod. `kind` is the key of its type, such as `emptyDir`.

    `at` is its path in the Pod; claims that a StatefulSet creates for its Pods have none.
    """

    name: str
    kind: str
    data: Mapping[str, Any]
    at: Path | None


class Container(ObjectView):
    """A container of a Pod. `is_init`: it is an init container."""

    def __init__(self, pod: "Pod", path: Path, data: Map, *, is_init: bool) -> None:
        super().__init__(pod.manifest, path, data)
        self.pod = pod
        self.is_init = is_init
        self.name = self.text("name") or ""
        self.image = self.text("image")

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that keeps running next to the main containers."""
        return self.is_init and self.text("restartPolicy") == "Always"

    @property
    def is_pause(self) -> bool:
        """Whether it only holds room for other Pods."""
        return (self.image or "").partition(":")[0].endswith("/pause")

    @property
    def is_network_daemon(self) -> bool:
        """Whether it is the daemon of GPUDirect, which keeps nothing."""
        return "/tcpgpudmarxd" in (self.image or "")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The command and its arguments, as far as the manifest sets them."""
        words = [*self.listed("command"), *self.listed("args")]
        return tuple(word for word in words if isinstance(word, str))

    @cached_property
    def variables(self) -> dict[str, EnvVariable]:
        found = {}
        for index, item in self.mappings("env"):
            name, value = item.get("name"), item.get("value")
            if isinstance(name, str):
                at: Path = ("env", index, "value") if "value" in item else ("env", index)
                text = value if isinstance(value, str) else None
                found[name] = EnvVariable(name=name, value=text, at=at)
        return found

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(
            Mount(
                volume=item["name"],
                folder=item["mountPath"],
                is_read_only=item.get("readOnly") is True,
                at=("volumeMounts", index),
            )
            for index, item in self.mappings("volumeMounts")
            if isinstance(item.get("name"), str) and isinstance(item.get("mountPath"), str)
        )

    def mount_of(self, folder: str) -> Mount | None:
        """The mount that contains a folder: the deepest one."""
        around = [m for m in self.mounts if is_within(folder, m.folder)]
        return max(around, key=lambda mount: len(_clean(mount.folder)), default=None)

    def amount(self, resource: str) -> int:
        """How many of a resource such as GPUs it requests. Limits take precedence over requests."""
        for kind in ("limits", "requests"):
            given = self.get("resources", kind, resource)
            if isinstance(given, int) and not isinstance(given, bool):
                return max(0, given)
            if isinstance(given, str) and given.isdecimal() and len(given) < 10:
                return int(given)
        return 0


class Job(ObjectView):
    """A Job, or the template of one in a CronJob or JobSet.

    Paths are relative to the parent of its `spec`.
    """

    @property
    def owner_kind(self) -> str:
        return self.manifest.kind

    @property
    def backoff_limit(self) -> int | None:
        return self.integer("spec", "backoffLimit")

    @property
    def failure_rules(self) -> list[tuple[int, Map]]:
        """The rules of its podFailurePolicy, with their index."""
        return list(self.mappings("spec", "podFailurePolicy", "rules"))

    @property
    def is_indexed(self) -> bool:
        return self.text("spec", "completionMode") == "Indexed"


class Pod(ObjectView):
    """A Pod, or the Pod template in an object of `owner_kind`.

    Paths are relative to the parent of its `metadata` and `spec`. `role` is a word such as `head`
    or `worker` if the object has several templates.
    """

    def __init__(
        self, manifest: KubernetesObject, path: Path, data: Map, slot: TemplateSlot
    ) -> None:
        super().__init__(manifest, path, data)
        self.role = slot.role
        self.job: Job | None = None
        if slot.job is not None:
            # The Job's path is the template's, without the ("spec", "template") at its end.
            job_path = path[: len(slot.job)]
            self.job = Job(manifest, job_path, get(manifest.data, job_path))

    @property
    def owner_kind(self) -> str:
        return self.manifest.kind

    @property
    def is_server(self) -> bool:
        """Whether it is one of several that keep nothing: when it is lost, the next one answers."""
        return self.owner_kind in _SERVERS

    @property
    def labels(self) -> dict[str, str]:
        return self.strings("metadata", "labels")

    @cached_property
    def cluster_labels(self) -> dict[str, str]:
        """The labels it has in the cluster: its own and those that its controller adds."""
        name = self.manifest.name
        if self.owner_kind == "Job":
            return {"job-name": name, "batch.kubernetes.io/job-name": name, **self.labels}
        if self.owner_kind == "JobSet":
            return {"jobset.sigs.k8s.io/jobset-name": name, **self.labels}
        return self.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.strings("metadata", "annotations")

    @property
    def provisioning_request(self) -> str | None:
        """The request for queued provisioning whose nodes it waits for."""
        given = self.annotations
        classes = {given[key] for key in CLASS_ANNOTATIONS if key in given}
        names = [given[key] for key in CONSUME_ANNOTATIONS if key in given]
        return names[0] if names and classes <= {QUEUED_CLASS} else None

    @property
    def grace_seconds(self) -> int | None:
        """The configured grace period. None if not set; the default is `GRACE_SECONDS_DEFAULT`."""
        return self.integer("spec", "terminationGracePeriodSeconds")

    @property
    def restart_policy(self) -> str | None:
        return self.text("spec", "restartPolicy")

    @cached_property
    def demand(self) -> NodeDemand:
        """What it demands of its node."""
        return node_demand(self.mapping("spec"))

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.demand.tolerations

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """The main containers."""
        return tuple(self._containers("containers"))

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        return tuple(self._containers("initContainers"))

    @property
    def all_containers(self) -> tuple[Container, ...]:
        return (*self.init_containers, *self.containers)

    @cached_property
    def volumes(self) -> dict[str, Volume]:
        """The volumes by name, including the claims that a StatefulSet creates for each Pod."""
        found = {}
        for index, item in self.mappings("spec", "volumes"):
            name = item.get("name")
            kind = next((key for key in item if key != "name"), "emptyDir")
            if isinstance(name, str):
                data = item.get(kind)
                found[name] = Volume(
                    name=name,
                    kind=kind,
                    data=data if isinstance(data, dict) else {},
                    at=("spec", "volumes", index),
                )
        if self.owner_kind == "StatefulSet":
            for _, item in self.manifest.mappings("spec", "volumeClaimTemplates"):
                name = get(item, ("metadata", "name"))
                if isinstance(name, str):
                    found[name] = Volume(name=name, kind="volumeClaimTemplate", data=item, at=None)
        return found

    def amount(self, resource: str) -> int:
        """How many of a resource its main containers request in total."""
        return sum(container.amount(resource) for container in self.containers)

    @property
    def accelerators(self) -> int:
        return self.amount(GPU) + self.amount(TPU)

    @property
    def only_waits(self) -> bool:
        """Whether it has nothing to save: its containers wait, so that people can log in."""
        working = [one for one in self.containers if not one.is_network_daemon]
        return bool(working) and all(one.is_pause or waits_forever(one) for one in working)

    def _containers(self, key: str) -> Iterator[Container]:
        for index, item in self.mappings("spec", key):
            path: Path = (*self.path, "spec", key, index)
            yield Container(self, path, item, is_init=key == "initContainers")


def pods_of(manifest: KubernetesObject) -> Iterator[Pod]:
    """The Pods in an object, empty for kinds without Pods."""
    for slot in SLOTS.get((manifest.group, manifest.kind), ()):
        for path in expand(manifest.data, slot.template):
            data = get(manifest.data, path)
            if isinstance(data, Map):
                yield Pod(manifest, path, data, slot)


def is_within(folder: str, around: str) -> bool:
    """Whether a folder is the same as another one or below it."""
    inner, outer = _clean(folder), _clean(around)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _clean(folder: str) -> str:
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)
