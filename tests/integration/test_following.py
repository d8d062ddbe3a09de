"""The client on a real control plane: following across its absence, logs, and dead connections."""

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from outlast.cluster.connection.api import Update, UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.feed import Feed
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link
from outlast.cluster.errors import ApiRefusal, ClusterUnreachable
from outlast.cluster.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Object,
    Query,
    name_of,
)
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers.certificates import make_certificate
from tests.servers.control_plane import ControlPlane
from tests.servers.cutting import wire_to
from tests.servers.node_agent import running_node

ROOT = Path(__file__).parent.parent.parent


def _next(feed: Feed, *kinds: UpdateKind) -> Update[Any]:
    while True:
        update = feed.next(PATIENCE_SECONDS)
        assert update is not None, f"none of {kinds} came"
        if update.kind in kinds:
            return update


def _account(name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


@pytest.mark.needs("control-plane")
def test_following_goes_on_when_the_api_server_is_back(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    port = urlsplit(control_plane.server).port
    assert port is not None
    query = Query(resource=SERVICE_ACCOUNTS, namespace=namespace)
    with wire_to(port) as wire:
        server = f"https://127.0.0.1:{wire.port}"
        file = control_plane.kubeconfig(tmp_path / "kubeconfig", server=server)
        client = ClusterClient(Link(find_access(kubeconfig=file)))
        feed = Feed(client, {query: name_of}, cut_streams=client.cut_streams)
        feed.__enter__()
        assert _next(feed, UpdateKind.LISTED).objects == ("default",)
        _next(feed, UpdateKind.CURRENT)
        wire.close()
        lost = _next(feed, UpdateKind.LOST)
        admin.apply(SERVICE_ACCOUNTS, _account("meanwhile", namespace))

        with wire_to(port, at=wire.port):
            found = _next(feed, UpdateKind.CHANGED, UpdateKind.LISTED)
            feed.close()
            client.close()

    assert "cannot be reached" in str(lost.problem)
    # Not listed again: the watch continued where it was.
    assert (found.kind, found.objects) == (UpdateKind.CHANGED, ("meanwhile",))


@pytest.mark.needs("control-plane")
def test_many_kinds_at_once_from_a_cold_start(control_plane: ControlPlane, namespace: str) -> None:
    kinds = (PODS, EVENTS, JOBS, NODES, DEPLOYMENTS, SERVICE_ACCOUNTS)
    for _ in range(20):
        with control_plane.client() as client:
            queries = {
                Query(resource=one, namespace=namespace if one.is_namespaced else None): name_of
                for one in kinds
            }
            with Feed(client, queries, cut_streams=client.cut_streams) as feed:
                seen = {_next(feed, UpdateKind.LISTED).query.resource for _ in kinds}
        assert seen == set(kinds)


PRINTING = """
import sys, time, os
print("first \\x1b[31mred\\u2028same line", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print("last", flush=True)
"""


@pytest.mark.needs("control-plane")
def test_logs_are_followed_to_the_end(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    finish = tmp_path / "finish"
    main = {
        "name": "main",
        "image": "example.com/x:1",
        "command": [sys.executable, "-c", PRINTING, str(finish)],
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"pool": namespace},
        "containers": [main],
    }
    metadata = {"name": "printing", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    environ = {"PYTHONIOENCODING": "utf-8"}
    labels = {"pool": namespace}
    with running_node(control_plane, namespace, labels=labels, environ=environ) as agent:
        admin.apply(PODS, pod)
        eventually(lambda: agent.running() == ["printing"], "the Pod runs")
        eventually(lambda: "first" in agent.log_of("printing"), "it prints")
        lines = admin.logs("printing", namespace, follow=True)
        first = next(lines)
        finish.touch()
        rest = list(lines)
        eventually(lambda: not agent.running(), "the program has ended")
        again = list(admin.logs("printing", namespace, tail=1))

    assert first == "first \x1b[31mred\u2028same line".encode()
    assert rest == [b"last"]
    assert again == [b"last"]
    with pytest.raises(ApiRefusal, match="not found"):
        list(admin.logs("nosuch", namespace))


@pytest.mark.needs("control-plane")
def test_credentials_that_are_refused_are_one_error(control_plane: ControlPlane) -> None:
    expired = make_certificate(control_plane.authority, "admin", is_expired=True)
    pem = {"certificate": expired.certificate, "key": expired.key}
    given = {f"client-{name}-data": base64.b64encode(data).decode() for name, data in pem.items()}
    for credentials in ({"token": "expired"}, given):
        with (
            control_plane.client(credentials=credentials) as client,
            pytest.raises(ClusterUnreachable, match="does not accept the credentials") as caught,
        ):
            list(client.list(Query(resource=PODS)))

        assert caught.value.exit_code == 3
        assert caught.value.hint


# The loopback device of a network of our own goes down: packets vanish, and nothing is closed.
HALF_OPEN = """
import fcntl, socket, struct, sys, tempfile, json, threading
from pathlib import Path

def loopback(is_up):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0x49 if is_up else 0x48)
        fcntl.ioctl(control, 0x8914, request)

loopback(True)

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from outlast.cluster.connection.api import UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.kubeconfig import ClusterAccess
from outlast.cluster.connection.link import Link
from outlast.cluster.resources import PODS, Query

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if "watch" in self.path:
            self.wfile.flush()
            threading.Event().wait()
        self.wfile.write(json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode())

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
access = ClusterAccess(context="c", server=f"http://127.0.0.1:{server.server_port}")
seen = []
for update in ClusterClient(Link(access)).follow(Query(resource=PODS), lambda item: item):
    seen.append(update.kind.value)
    if seen == ["listed", "current"]:
        loopback(False)
    elif update.kind is UpdateKind.LOST:
        loopback(True)
    elif "lost" in seen:
        break
print(seen[:3], seen[-1])
"""


@pytest.mark.needs("net-namespace")
def test_a_connection_whose_other_end_has_vanished_is_noticed() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", HALF_OPEN],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_SECONDS,
    )

    assert done.stdout.strip() == "['listed', 'current', 'lost'] current", done.stderr
