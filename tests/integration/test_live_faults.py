"""Following a real API server that is killed, forgets, goes silent, or distrusts us."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.feed import Feed
from outlast.cluster.connection.following import Page, follow
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link, Request
from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import SERVICE_ACCOUNTS, Object, Query, name_of
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers.control_plane import ControlPlane, OwnApiServer, grant
from tests.servers.cutting import wire_to
from tests.servers.node_agent import SECRETS

pytestmark = pytest.mark.needs("control-plane")

READ_ACCOUNTS = [
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list", "watch"]}
]


def _until(feed: Feed, *kinds: UpdateKind) -> Update[Any]:
    """The next update of one of these kinds."""
    while True:
        update = feed.next(PATIENCE_SECONDS)
        assert update is not None, f"none of {kinds} came"
        if update.kind in kinds:
            return update


def _until_seen(feed: Feed, name: str) -> list[UpdateKind]:
    """The kinds of updates until an object shows up."""
    seen = []
    while True:
        update = _until(feed, *UpdateKind)
        seen.append(update.kind)
        if name in update.objects:
            return seen


def _account(name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _feed(client: ClusterClient, namespace: str) -> Feed:
    query = Query(resource=SERVICE_ACCOUNTS, namespace=namespace)
    return Feed(client, {query: name_of}, cut_streams=client.cut_streams)


def test_an_api_server_that_is_killed_and_started_again(tmp_path: Path) -> None:
    with closing(OwnApiServer(tmp_path)) as server, server.plane.client() as client:
        client.apply(SERVICE_ACCOUNTS, _account("before", "default"))
        with _feed(client, "default") as feed:
            assert _until(feed, UpdateKind.LISTED).objects == ("before",)
            _until(feed, UpdateKind.CURRENT)
            server.kill()
            problems = [_until(feed, UpdateKind.LOST).problem for _ in range(4)]
            server.start()
            _until(feed, UpdateKind.CURRENT, UpdateKind.LISTED)
            client.apply(SERVICE_ACCOUNTS, _account("after", "default"))
            _until_seen(feed, "after")
        _check_forgotten_versions(client)

    assert all("cannot be reached" in str(problem) for problem in problems), problems


class _Forgetful:
    """Lists as the client does, but the first time says that this was long ago."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.lists = 0

    def pages(self, query: Query) -> Iterator[Page]:
        self.lists += 1
        for version, items in self._client.pages(query):
            yield "1" if self.lists == 1 else version, items

    def watch(self, query: Query, version: str) -> Iterator[dict[str, Any]]:
        return self._client.watch(query, version)


def _check_forgotten_versions(client: ClusterClient) -> None:
    """A server knows nothing of the changes before it was started: 410, and a new list."""
    query = Query(resource=SERVICE_ACCOUNTS, namespace="default")
    events = client.watch(query, "1")
    codes = [event["object"].get("code") for event in events if event.get("type") == "ERROR"]
    source, seen = _Forgetful(client), []

    for update in follow(source, query, name_of, stop=threading.Event()):
        seen.append(update.kind)
        if update.kind is UpdateKind.CURRENT and source.lists > 1:
            break

    assert codes == [410]
    assert seen.count(UpdateKind.LISTED) == 2
    assert UpdateKind.LOST not in seen


def test_a_stream_that_stays_open_and_silent(
    control_plane: ControlPlane,
    admin: ClusterClient,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server sends a bookmark each minute; without one the stream counts as dead."""
    module = "outlast.cluster.connection.client"
    port = urlsplit(control_plane.server).port
    assert port is not None
    with wire_to(port) as wire:
        server = f"https://127.0.0.1:{wire.port}"
        file = control_plane.kubeconfig(tmp_path / "kubeconfig", server=server)
        with ClusterClient(Link(find_access(kubeconfig=file))) as client:
            monkeypatch.setattr(f"{module}.WATCH_SILENCE_SECONDS_MAX", 5.0)
            with _feed(client, namespace) as feed:
                _until(feed, UpdateKind.LISTED)
                _until(feed, UpdateKind.CURRENT)
                wire.hold()
                admin.apply(SERVICE_ACCOUNTS, _account("meanwhile", namespace))
                lost = _until(feed, UpdateKind.LOST)
                wire.close()
                with wire_to(port, at=wire.port):
                    seen = _until_seen(feed, "meanwhile")
                    feed.close()

    assert "did not answer in time" in str(lost.problem)
    # Not listed again: the watch continued where it was, and nothing is missing.
    assert UpdateKind.LISTED not in seen


PLUGIN = """
import json, sys
status = {"token": open(sys.argv[1]).read()}
kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
print(json.dumps({**kind, "status": status}))
"""


def test_a_token_that_is_no_longer_valid(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    """A token that is bound to a Secret ends with it. A plugin gives the next one."""
    grant_to_account = f"system:serviceaccount:{namespace}:reader"
    admin.apply(SERVICE_ACCOUNTS, _account("reader", namespace))
    grant(admin, grant_to_account, namespace, READ_ACCOUNTS)
    token, plugin = tmp_path / "token", tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    token.write_text(_token(admin, namespace, "first"))
    version = "client.authentication.k8s.io/v1"
    command = {
        "apiVersion": version,
        "command": sys.executable,
        "args": [str(plugin), str(token)],
        "interactiveMode": "Never",
    }
    port = urlsplit(control_plane.server).port
    assert port is not None
    with wire_to(port) as wire:
        server = f"https://127.0.0.1:{wire.port}"
        credentials = {"exec": command}
        file = control_plane.kubeconfig(
            tmp_path / "kubeconfig", server=server, credentials=credentials
        )
        with ClusterClient(Link(find_access(kubeconfig=file))) as client:
            eventually(lambda: _may_list(client, namespace), "the rules are in force")
            with _feed(client, namespace) as feed:
                _until(feed, UpdateKind.CURRENT)
                admin.delete(SECRETS, "first", namespace, uid=_secret_uid(admin, namespace))
                eventually(lambda: not _may_list(client, namespace), "the token is not valid")
                wire.close()
                with wire_to(port, at=wire.port):
                    problem = _until(feed, UpdateKind.LOST).problem
                    while "401" not in str(problem):
                        problem = _until(feed, UpdateKind.LOST).problem
                    admin.apply(SERVICE_ACCOUNTS, _account("meanwhile", namespace))
                    token.write_text(_token(admin, namespace, "second"))
                    _until_seen(feed, "meanwhile")
                    feed.close()

    assert "does not accept the credentials" in str(problem)
    assert problem is not None and problem.hint


def _token(admin: ClusterClient, namespace: str, secret: str) -> str:
    metadata = {"name": secret, "namespace": namespace}
    made = admin.apply(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    bound = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": secret,
        "uid": made["metadata"]["uid"],
    }
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 3600, "boundObjectRef": bound},
    }
    path = SERVICE_ACCOUNTS.path(namespace, "reader", "token")
    response = admin._link.send(Request(method="POST", path=path, body=json.dumps(body).encode()))
    assert response.status == 201, response.body
    return str(json.loads(response.body)["status"]["token"])


def _secret_uid(admin: ClusterClient, namespace: str) -> str:
    found = admin.get(SECRETS, "first", namespace)
    assert found is not None
    return str(found["metadata"]["uid"])


def _may_list(client: ClusterClient, namespace: str) -> bool:
    try:
        list(client.list(Query(resource=SERVICE_ACCOUNTS, namespace=namespace)))
        return True
    except ClusterError:
        return False
