"""A cluster in memory with the methods that finding, stopping and following runs use."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.errors import ClusterUnreachable
from outlast.cluster.resources import Object, Query, Resource, name_of

WORKLOADS = Resource(api_version="kueue.x-k8s.io/v1beta1", kind="Workload", plural="workloads")


class FakeCluster:
    """Objects by kind. `patches` has what was changed; `logs_of` what each read of a log gives."""

    namespace = "team-a"

    def __init__(self, *objects: Object, served: tuple[Resource, ...] = ()) -> None:
        self.objects = {(one["kind"], one["metadata"]["uid"]): one for one in objects}
        self.served = served
        self.patches: list[tuple[str, str, Object]] = []
        self.logs_of: dict[str, list[list[bytes | Exception]]] = {}
        self.since: list[str] = []
        self._changed = threading.Condition()
        self._news: list[Object] = []
        self.is_listed = False

    def find(self, api_version: str, kind: str) -> Resource | None:
        wanted = (api_version, kind)
        return next((one for one in self.served if (one.api_version, one.kind) == wanted), None)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        found = (one for one in self._all(resource.kind) if name_of(one) == name)
        return next(found, None)

    def list(self, query: Query) -> Iterator[Object]:
        for item in self._all(query.resource.kind):
            if query.fields in ("", f"metadata.name={name_of(item)}") and _has(item, query.labels):
                yield dict(item)

    def patch(
        self, resource: Resource, name: str, changes: Object, namespace: str | None = None
    ) -> Object:
        item = self.get(resource, name, namespace)
        assert item is not None
        assert changes["metadata"]["uid"] == item["metadata"]["uid"]
        item["spec"] = {**item.get("spec", {}), **changes["spec"]}
        self.patches.append((resource.kind, name, changes["spec"]))
        return item

    def change(self, item: Object) -> None:
        """Replace an object, and report it to those who follow it."""
        with self._changed:
            self.objects[item["kind"], item["metadata"]["uid"]] = item
            self._news.append(item)
            self._changed.notify_all()

    def follow(
        self,
        query: Query,
        read: Callable[[Object], Any],
        *,
        stop: threading.Event | None = None,
    ) -> Iterator[Update[Any]]:
        seen = len(self._news)
        found = tuple(read(one) for one in self.list(query))
        yield Update(kind=UpdateKind.LISTED, query=query, objects=found)
        self.is_listed = True
        while stop is None or not stop.is_set():
            with self._changed:
                if len(self._news) == seen:
                    self._changed.wait(0.05)
                news, seen = self._news[seen:], len(self._news)
            for item in news:
                if item["kind"] == query.resource.kind:
                    yield Update(kind=UpdateKind.CHANGED, query=query, objects=(read(item),))

    def logs(self, pod: str, namespace: str, *, since_time: str = "", **_: Any) -> Iterator[bytes]:
        self.since.append(since_time)
        answers = self.logs_of.get(pod) or []
        for line in answers.pop(0) if answers else []:
            if isinstance(line, Exception):
                raise line
            yield line

    def _all(self, kind: str) -> Sequence[Object]:
        return [one for (of, _), one in self.objects.items() if of == kind]


def _has(item: Object, labels: str) -> bool:
    own = item["metadata"].get("labels") or {}
    pairs = [part.partition("=") for part in labels.split(",") if part]
    return all(own.get(key) == value if mark else key in own for key, mark, value in pairs)


def cut_off() -> ClusterUnreachable:
    return ClusterUnreachable("The connection was cut.")
