"""The client of an API server: what the Protocols in `api.py` promise, over one `Link`.

Every request may be repeated without harm: reading changes nothing, server-side apply and deletion
by UID have the same effect twice. So each is retried for a few seconds while the server is away or
overloaded, and as long as `Retry-After` says, up to a minute in all.
"""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from outlast._base.backoff import backoff_seconds
from outlast.cluster.connection.api import FIELD_MANAGER, Update
from outlast.cluster.connection.following import Page, follow
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link, Request, Response
from outlast.cluster.errors import ApiRefusal, ClusterUnreachable, shown
from outlast.cluster.resources import (
    ACCESS_REVIEWS,
    PODS,
    Object,
    Query,
    Resource,
    name_of,
    namespace_of,
    title_of,
)

T = TypeVar("T")

PAGE_OBJECTS = 500
WATCH_SECONDS = 300
WATCH_SILENCE_SECONDS_MAX = 100.0
"""The API server sends a bookmark about every minute, so a longer silence is a dead stream."""

_TRIES_MAX = 4
_AWAY_SECONDS_MAX = 7.0
_WAIT_SECONDS_MAX = 60.0


def connect(*, context: str | None = None, kubeconfig: Path | None = None) -> "ClusterClient":
    """A client for a context of the kubeconfig. Nothing is sent yet.

    Raises `ClusterError` if the kubeconfig has no such context.
    """
    return ClusterClient(Link(find_access(context=context, kubeconfig=kubeconfig)))


class ClusterClient:
    """A client for one context. Close it, or use it in a `with`. Safe for several threads."""

    def __init__(self, link: Link, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._link = link
        self._sleep = sleep
        self._known: dict[str, tuple[Resource, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    def cut_streams(self) -> None:
        """End the streams of all threads, so that none waits for the next line."""
        self._link.cut_streams()

    @property
    def namespace(self) -> str:
        return self._link.access.namespace

    @property
    def context(self) -> str:
        return self._link.access.context

    @property
    def server(self) -> str:
        return self._link.access.server

    @property
    def skew(self) -> timedelta:
        """How far the clock of the API server is ahead of this machine's; small ones count as 0."""
        return self._link.skew

    def now(self) -> datetime:
        """The time as the API server has it: the times of its objects are compared with this."""
        return datetime.now(UTC) + self.skew

    def version(self) -> str:
        """The version of the API server, such as v1.35.6-gke.12."""
        answer = self._ask("Could not read the version", Request(method="GET", path="/version"))
        return str(answer.get("gitVersion") or "unknown")

    def find(self, api_version: str, kind: str) -> Resource | None:
        if api_version not in self._known:
            self._known[api_version] = tuple(self._discovered(api_version))
        return next((one for one in self._known[api_version] if one.kind == kind), None)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        what = f"Could not read {resource.kind} {name!r}"
        return self._ask_if_there(what, Request(method="GET", path=resource.path(namespace, name)))

    def list(self, query: Query) -> Iterator[Object]:
        for _, objects in self.pages(query):
            yield from objects

    def pages(self, query: Query) -> Iterator[Page]:
        """The objects in pages, each with the resource version that the list was made at."""
        token = ""
        while True:
            params = {"limit": str(PAGE_OBJECTS), **query.selectors}
            if token:
                params["continue"] = token
            request = Request(method="GET", path=query.path, params=params)
            answer = self._ask(f"Could not list {query.resource}", request)
            found = answer.get("metadata") or {}
            yield str(found.get("resourceVersion") or ""), answer.get("items") or []
            token = found.get("continue") or ""
            if not token:
                return

    def watch(self, query: Query, version: str) -> Iterator[dict[str, Any]]:
        """The raw events after a resource version, until the server ends the stream.

        Yields an empty event first, once the server has accepted the request.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
            **query.selectors,
        }
        request = Request(
            method="GET",
            path=query.path,
            params=params,
            silence_seconds_max=WATCH_SILENCE_SECONDS_MAX,
        )
        with self._link.stream(request) as opened:
            if isinstance(opened, Response):
                raise _refusal(f"Could not watch {query.resource}", opened)
            yield {}
            for line in opened.lines:
                yield _decoded(line, self.server)

    def follow(
        self, query: Query, read: Callable[[Object], T], *, stop: threading.Event | None = None
    ) -> Iterator[Update[T]]:
        return follow(self, query, read, stop=stop or threading.Event())

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
        given = {
            "container": container,
            "follow": "true" if follow else "",
            "previous": "true" if previous else "",
            "sinceTime": since_time,
            "tailLines": "" if tail is None else str(tail),
            "timestamps": "true" if timestamps else "",
        }
        request = Request(
            method="GET",
            path=PODS.path(namespace, pod, "log"),
            params={key: value for key, value in given.items() if value},
            accept="*/*",
            # A program may print nothing for hours; keep-alive notices a connection that is gone.
            silence_seconds_max=24 * 3600.0 if follow else 30.0,
        )
        with self._link.stream(request) as opened:
            if isinstance(opened, Response):
                raise _refusal(f"Could not read the log of Pod {pod!r}", opened)
            yield from opened.lines

    def can_i(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None = None,
        *,
        subresource: str = "",
        name: str = "",
    ) -> bool:
        asked = {
            "verb": verb,
            "group": resource.group,
            "version": resource.api_version.rpartition("/")[2],
            "resource": resource.plural,
            "subresource": subresource,
            "name": name,
            "namespace": namespace or "",
        }
        attributes = {key: value for key, value in asked.items() if value or key == "group"}
        body = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": attributes},
        }
        request = Request(method="POST", path=ACCESS_REVIEWS.path(), body=_encoded(body))
        answer = self._ask("Could not ask for permissions", request)
        return (answer.get("status") or {}).get("allowed") is True

    def apply(self, resource: Resource, item: Object, *, dry_run: bool = False) -> Object:
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": "false"}
        if dry_run:
            params["dryRun"] = "All"
        request = Request(
            method="PATCH",
            path=resource.path(namespace_of(item), name_of(item)),
            params=params,
            body=_encoded(item),
            content_type="application/apply-patch+yaml",
        )
        return self._ask(f"The API server refused {title_of(item)}", request)

    def patch(
        self, resource: Resource, name: str, changes: Object, namespace: str | None = None
    ) -> Object:
        request = Request(
            method="PATCH",
            path=resource.path(namespace, name),
            params={"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"},
            body=_encoded(changes),
            content_type="application/merge-patch+json",
        )
        return self._ask(f"Could not change {resource.kind} {name!r}", request)

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str
    ) -> None:
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        request = Request(
            method="DELETE", path=resource.path(namespace, name), body=_encoded(options)
        )
        self._ask_if_there(f"Could not delete {resource.kind} {name!r}", request)

    def _discovered(self, api_version: str) -> Iterator[Resource]:
        root = "apis" if "/" in api_version else "api"
        request = Request(method="GET", path=f"/{root}/{api_version}")
        found = self._ask_if_there(f"Could not discover {api_version!r}", request) or {}
        for one in found.get("resources") or ():
            if "/" not in one.get("name", "/"):
                yield Resource(
                    api_version=api_version,
                    kind=one["kind"],
                    plural=one["name"],
                    is_namespaced=one.get("namespaced") is True,
                )

    def _ask_if_there(self, what: str, request: Request) -> Object | None:
        try:
            return self._ask(what, request)
        except ApiRefusal as refusal:
            if refusal.status == 404:
                return None
            raise

    def _ask(self, what: str, request: Request) -> Object:
        """The decoded answer; retries while the server is away or overloaded."""
        started, waited = time.monotonic(), 0.0
        for tries in itertools.count():
            try:
                return self._ask_once(what, request)
            except ClusterUnreachable as problem:
                is_late = time.monotonic() - started > _AWAY_SECONDS_MAX
                if problem.is_final or is_late or tries >= _TRIES_MAX:
                    raise
                seconds = backoff_seconds(tries, 0.5, 2.0)
            except ApiRefusal as problem:
                seconds = problem.retry_after or backoff_seconds(tries, 0.5, 4.0)
                waited += seconds
                if not problem.is_overload or waited > _WAIT_SECONDS_MAX or tries >= _TRIES_MAX:
                    raise
            self._sleep(seconds)
        raise AssertionError("the loop has no end")

    def _ask_once(self, what: str, request: Request) -> Object:
        response = self._link.send(request)
        if response.status >= 300:
            raise _refusal(what, response)
        return _decoded(response.body, self.server)


def _refusal(what: str, response: Response) -> ApiRefusal | ClusterUnreachable:
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        text = " ".join(response.body[:2000].decode(errors="replace").split())
        # Kubernetes itself answers with plain text only to unknown paths and when overloaded.
        if response.status not in (404, 429):
            return ClusterUnreachable(
                f"{what}: HTTP {response.status}, and not from Kubernetes: "
                f"{shown(text, characters_max=200)!r}.",
                hint="A proxy or load balancer answered for the API server. Check the network.",
            )
        answer = {"message": text}
    return ApiRefusal(what, status=response.status, answer=answer, retry_after=response.retry_after)


def _decoded(body: bytes, server: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ClusterUnreachable(
            f"{server} answered with something that is not JSON: {shown(repr(body[:80]))}.",
            hint="Check that the address is that of a Kubernetes API server.",
        ) from error
    if not isinstance(answer, dict):
        raise ClusterUnreachable(
            f"{server} answered with JSON that is not an object.",
            hint="Check that the address is that of a Kubernetes API server.",
        )
    return answer


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
