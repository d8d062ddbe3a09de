"""The kinds of objects of a cluster, and their addresses in its API. Pure."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Object = dict[str, Any]
"""An object as JSON. No models: nothing is lost, and nothing unknown can fail to decode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A kind of object that an API server serves, such as jobs of batch/v1."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool = True

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of a collection, or with a name that of one object.

        Without a namespace, a namespaced resource is that of all namespaces.
        """
        parts = ["apis" if self.group else "api", self.api_version]
        if self.is_namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/" + "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which objects to list or follow. `namespace` is None for all namespaces."""

    resource: Resource
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def selectors(self) -> dict[str, str]:
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in given.items() if value}


def _core(kind: str, plural: str, *, is_namespaced: bool = True) -> Resource:
    return Resource(api_version="v1", kind=kind, plural=plural, is_namespaced=is_namespaced)


NAMESPACES = _core("Namespace", "namespaces", is_namespaced=False)
NODES = _core("Node", "nodes", is_namespaced=False)
PODS = _core("Pod", "pods")
EVENTS = _core("Event", "events")
SERVICE_ACCOUNTS = _core("ServiceAccount", "serviceaccounts")
JOBS = Resource(api_version="batch/v1", kind="Job", plural="jobs")
DEPLOYMENTS = Resource(api_version="apps/v1", kind="Deployment", plural="deployments")
JOBSETS = Resource(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", plural="jobsets")
PRIORITY_CLASSES = Resource(
    api_version="scheduling.k8s.io/v1",
    kind="PriorityClass",
    plural="priorityclasses",
    is_namespaced=False,
)
CSI_DRIVERS = Resource(
    api_version="storage.k8s.io/v1", kind="CSIDriver", plural="csidrivers", is_namespaced=False
)
ACCESS_REVIEWS = Resource(
    api_version="authorization.k8s.io/v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    is_namespaced=False,
)


def name_of(item: Object) -> str:
    return str((item.get("metadata") or {}).get("name") or "")


def namespace_of(item: Object) -> str | None:
    return (item.get("metadata") or {}).get("namespace")


def version_of(item: Object) -> str:
    """The resource version, which changes whenever the object does."""
    return str((item.get("metadata") or {}).get("resourceVersion") or "")


def title_of(item: Object) -> str:
    """The object as messages name it: Job 'tiny'."""
    return f"{item.get('kind')} {name_of(item)!r}"
