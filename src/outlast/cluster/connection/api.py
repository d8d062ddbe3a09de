"""What commands need of a cluster, as Protocols. `client.ClusterClient` implements both.

Objects are plain dicts, decoded from JSON. Every method raises `ClusterUnreachable` if the API
server does not answer and `ApiRefusal` if it answers with an error; both are `ClusterError`.

    with connect(context="gke_p_us-central1_ml") as cluster:
        for job in cluster.list(Query(resource=JOBS, namespace="team-a")):
            ...
        for update in cluster.follow(Query(resource=PODS, namespace="team-a"), pod_fact):
            ...
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import Object, Query, Resource

T = TypeVar("T")

FIELD_MANAGER = "outlast"
"""Who has applied a field, as the API server records it."""


class UpdateKind(StrEnum):
    """What an update says about the objects that are followed."""

    LISTED = "listed"
    """These are all objects, and replace what was known."""
    CHANGED = "changed"
    """This object is new or changed."""
    DELETED = "deleted"
    """This object is gone; this was its last state."""
    CURRENT = "current"
    """Nothing changed: the picture is up to date at this moment."""
    LOST = "lost"
    """The connection was lost: the picture gets old. It is retried by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Update(Generic[T]):
    """News of the objects of a query. `problem` is set for LOST only."""

    kind: UpdateKind
    query: Query
    objects: tuple[T, ...] = ()
    problem: ClusterError | None = None


class ClusterReader(Protocol):
    """Looks at a cluster and changes nothing."""

    @property
    def namespace(self) -> str:
        """The namespace to use unless another one is given."""

    def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind by discovery, None if the API server does not serve it."""

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, None if it does not exist."""

    def list(self, query: Query) -> Iterator[Object]:
        """All objects of a query, requested in pages of 500."""

    def follow(
        self, query: Query, read: Callable[[Object], T], *, stop: threading.Event | None = None
    ) -> Iterator[Update[T]]:
        """First all objects, then every change, until `stop` is set or a permission is missing.

        `read` makes of each object what is kept of it, so that few complete objects are in memory.
        Interruptions of any length are reported as LOST and bridged; nothing is polled.
        """

    def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        since_time: str = "",
        tail: int | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """The lines of a container's log, without their line breaks."""

    def can_i(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None = None,
        *,
        subresource: str = "",
        name: str = "",
    ) -> bool:
        """Whether these credentials have a permission, by SelfSubjectAccessReview."""


class Cluster(ClusterReader, Protocol):
    """Looks at a cluster and changes it. Every change may be repeated without harm."""

    def apply(self, resource: Resource, item: Object, *, dry_run: bool = False) -> Object:
        """Apply an object on the server as field manager `outlast`, never by force."""

    def patch(
        self, resource: Resource, name: str, changes: Object, namespace: str | None = None
    ) -> Object:
        """Merge changes into an object. With metadata.resourceVersion, only if it has that one."""

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str
    ) -> None:
        """Delete the object with this UID and, before it, what it owns. Does not wait for that."""
