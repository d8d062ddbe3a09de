"""Follow the objects of a query: list once, then watch, for as long as it takes.

Interruptions are bridged: a stream that ends is opened again where it was, a resource version that
the server has forgotten (410) leads to a new list, and a server that is away or overloaded is
tried again with growing pauses of at most 5 s, or as long as it asks for. Missing permissions and
kinds that do not exist end it with their error. Knows nothing of HTTP.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from outlast._base.backoff import backoff_seconds
from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.errors import ApiRefusal, ClusterUnreachable
from outlast.cluster.resources import Object, Query, version_of

T = TypeVar("T")

_PAUSE_SECONDS_MAX = 5.0
_RETRY_AFTER_SECONDS_MAX = 60.0
_SHORT_STREAM_SECONDS = 1.0

Page = tuple[str, list[Object]]
"""Objects of a list, and the resource version that the list was made at."""


class Watchable(Protocol):
    """The two requests that following consists of."""

    def pages(self, query: Query) -> Iterator[Page]: ...

    def watch(self, query: Query, version: str) -> Iterator[dict[str, Any]]: ...


def follow(
    source: Watchable,
    query: Query,
    read: Callable[[Object], T],
    *,
    stop: threading.Event,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Update[T]]:
    """All objects, then every change, until `stop` is set. Raises `ApiRefusal` if it cannot."""
    position = _Position()
    tries = 0
    while not stop.is_set():
        opened = now()
        pause: float | None = None
        try:
            for update in _once(source, query, read, position):
                yield update
                if stop.is_set():
                    return
        except _Forgotten:
            pass
        except (ClusterUnreachable, ApiRefusal) as problem:
            pause = _pause_after(problem, tries)
            yield Update(kind=UpdateKind.LOST, query=query, problem=problem)
        # A server that ends every stream at once must not be asked in a tight loop.
        is_short = now() - opened < _SHORT_STREAM_SECONDS
        tries = tries + 1 if is_short or pause else 0
        stop.wait(_pause(tries - 1) if pause is None and tries else pause or 0.0)


class _Position:
    """Where the watch continues: None before the first list, or when the server has forgotten."""

    def __init__(self) -> None:
        self.version: str | None = None


class _Forgotten(Exception):
    """The server no longer knows the changes after the resource version."""


def _once(
    source: Watchable, query: Query, read: Callable[[Object], T], position: _Position
) -> Iterator[Update[T]]:
    """List if needed, then watch until the stream ends."""
    if position.version is None:
        found: list[T] = []
        version = ""
        for made_at, page in _unless_forgotten(source.pages(query), position):
            found += [read(_completed(item, query)) for item in page]
            version = made_at
        position.version = version
        yield Update(kind=UpdateKind.LISTED, query=query, objects=tuple(found))
    for event in _unless_forgotten(source.watch(query, position.version), position):
        yield _update(event, query, read, position)


def _unless_forgotten(items: Iterator[T], position: _Position) -> Iterator[T]:
    try:
        yield from items
    except ApiRefusal as refusal:
        if refusal.status == 410:
            position.version = None
            raise _Forgotten from refusal
        raise


def _update(
    event: dict[str, Any], query: Query, read: Callable[[Object], T], position: _Position
) -> Update[T]:
    item = event.get("object") or {}
    kind = event.get("type")
    if kind == "ERROR":
        if item.get("code") == 410:
            position.version = None
            raise _Forgotten
        what = f"The watch of {query.resource} was ended"
        raise ApiRefusal(what, status=int(item.get("code") or 500), answer=item)
    position.version = version_of(item) or position.version
    if kind == "DELETED":
        return Update(kind=UpdateKind.DELETED, query=query, objects=(read(item),))
    if kind in ("ADDED", "MODIFIED"):
        return Update(kind=UpdateKind.CHANGED, query=query, objects=(read(item),))
    # A bookmark, the stream's beginning, or an event of a kind that is not known yet.
    return Update(kind=UpdateKind.CURRENT, query=query)


def _completed(item: Object, query: Query) -> Object:
    """Items of a list have no kind of their own."""
    item.setdefault("kind", query.resource.kind)
    item.setdefault("apiVersion", query.resource.api_version)
    return item


def _pause_after(problem: ClusterUnreachable | ApiRefusal, tries: int) -> float:
    if isinstance(problem, ApiRefusal):
        if not problem.is_transient:
            raise problem
        if problem.retry_after is not None:
            return min(problem.retry_after, _RETRY_AFTER_SECONDS_MAX)
    return _pause(tries)


def _pause(tries: int) -> float:
    return backoff_seconds(tries, 0.25, _PAUSE_SECONDS_MAX)
