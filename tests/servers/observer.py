"""What the client reads of a namespace, all the time, and what the diagnosis makes of it.

It follows the cluster as a user's command does. Of a Pod that is gone it keeps the last state, if
that was an end: most evicted Pods are deleted within a second.
"""

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from outlast.cluster.connection.api import UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.feed import Feed
from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.diagnosis.engine import PodEnding, endings, why_waiting
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.resources import EVENTS, JOBS, NODES, PODS, Object, Query, Resource
from tests.unit.cluster.snapshots import READERS

KINDS = (JOBS, PODS, EVENTS, NODES)


class ClusterObserver:
    """The objects of a namespace, and all Nodes, as the feed reports them. Thread-safe."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._objects: dict[Resource, dict[str, Object]] = {}
        self._ended: dict[str, Object] = {}
        self._lock = threading.Lock()

    def objects(self) -> list[Object]:
        with self._lock:
            for update in self._feed.drain():
                self._take(update.kind, update.query.resource, update.objects)
            known = [item for found in self._objects.values() for item in found.values()]
            uids = {item["metadata"]["uid"] for item in known}
            return known + [pod for uid, pod in self._ended.items() if uid not in uids]

    def snapshot(self, **more: Any) -> Snapshot:
        facts: dict[str, list[Any]] = {}
        for item in self.objects():
            field, read = READERS[item["kind"]]
            facts.setdefault(field, []).append(read(item))
        given: dict[str, Any] = {field: tuple(found) for field, found in facts.items()}
        return Snapshot(now=datetime.now(UTC), **given, **more)

    def waiting(self, **more: Any) -> Diagnosis | None:
        return why_waiting(self.snapshot(**more))

    def endings(self) -> tuple[PodEnding, ...]:
        return endings(self.snapshot())

    def _take(self, kind: UpdateKind, resource: Resource, found: tuple[Object, ...]) -> None:
        known = self._objects.setdefault(resource, {})
        if kind is UpdateKind.LISTED:
            known.clear()
        for item in found:
            uid = item["metadata"]["uid"]
            if kind is UpdateKind.DELETED:
                known.pop(uid, None)
            elif kind in (UpdateKind.LISTED, UpdateKind.CHANGED):
                known[uid] = item
            if item["kind"] == "Pod" and item["status"].get("phase") in ("Failed", "Succeeded"):
                self._ended[uid] = item


@contextlib.contextmanager
def observing(client: ClusterClient, namespace: str, *more: Resource) -> Iterator[ClusterObserver]:
    """Follow Jobs, Pods, events and Nodes, and the kinds of `more`."""
    queries = {
        Query(resource=one, namespace=namespace if one.is_namespaced else None): _itself
        for one in (*KINDS, *more)
    }
    with Feed(client, queries, cut_streams=client.cut_streams) as feed:
        yield ClusterObserver(feed)


def _itself(item: Object) -> Object:
    return item
