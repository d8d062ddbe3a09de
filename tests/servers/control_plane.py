"""A real control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

One for all processes of a test session: the first that needs it starts a keeper, which ends with
the session, however that ends, and its servers with it. Tests get namespaces and users of their
own. There are no nodes but those of `tests.servers.node_agent`.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.kubeconfig import find_access
from outlast.cluster.connection.link import Link
from outlast.cluster.resources import NAMESPACES, SERVICE_ACCOUNTS, Object, Resource
from tests.parts import control_plane_folder
from tests.patience import eventually
from tests.servers.certificates import KeyPair, make_authority, make_certificate
from tests.servers.ports import free_port

USERS = 40
"""Users without any permission, user-0 and up; each test takes one that nobody else has."""

ROLES = Resource(api_version="rbac.authorization.k8s.io/v1", kind="Role", plural="roles")
CLUSTER_ROLES = Resource(
    api_version=ROLES.api_version, kind="ClusterRole", plural="clusterroles", is_namespaced=False
)
BINDINGS = Resource(api_version=ROLES.api_version, kind="RoleBinding", plural="rolebindings")
CLUSTER_BINDINGS = Resource(
    api_version=ROLES.api_version,
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    is_namespaced=False,
)

_keepers: list["subprocess.Popen[bytes]"] = []


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """A running control plane, as tests see it. `folder` has its certificates and logs."""

    folder: Path
    server: str

    @property
    def authority(self) -> KeyPair:
        return KeyPair(
            certificate=(self.folder / "authority.crt").read_bytes(),
            key=(self.folder / "authority.key").read_bytes(),
        )

    def kubeconfig(
        self,
        path: Path,
        user: str = "admin",
        *,
        namespace: str = "default",
        server: str = "",
        credentials: dict[str, Any] | None = None,
    ) -> Path:
        """A kubeconfig for a user, written to a path. YAML includes JSON."""
        given = credentials or {"token": _token_of(user)}
        authority = base64.b64encode(self.authority.certificate).decode()
        cluster = {"server": server or self.server, "certificate-authority-data": authority}
        content = {
            "current-context": user,
            "contexts": [
                {"name": user, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
            ],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": given}],
        }
        path.write_text(json.dumps(content))
        return path

    @contextlib.contextmanager
    def client(
        self, user: str = "admin", *, credentials: dict[str, Any] | None = None
    ) -> Iterator[ClusterClient]:
        with tempfile.TemporaryDirectory() as folder:
            file = self.kubeconfig(Path(folder) / "config", user, credentials=credentials)
            client = ClusterClient(Link(find_access(kubeconfig=file)))
        with client:
            yield client

    def new_namespace(self, admin: ClusterClient) -> str:
        """A fresh namespace in which Pods can be created."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        admin.apply(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        eventually(
            lambda: admin.get(SERVICE_ACCOUNTS, "default", name),
            f"the controller manager makes the service account of namespace {name}",
        )
        return name

    def new_user(self) -> str:
        """A user without permissions that no other test of the session has."""
        with (self.folder / "users").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = len(file.read())
            assert number < USERS, "all users are taken: raise USERS"
            file.write("x")
        return f"user-{number}"


def grant(admin: ClusterClient, user: str, namespace: str, rules: list[dict[str, Any]]) -> None:
    """Give a user exactly these permissions in a namespace."""
    metadata = {"name": user, "namespace": namespace}
    admin.apply(ROLES, _rbac("Role", metadata, rules=rules))
    admin.apply(BINDINGS, _rbac("RoleBinding", metadata, **_bound("Role", user)))


def grant_everywhere(admin: ClusterClient, user: str, rules: list[dict[str, Any]]) -> None:
    """Give a user exactly these permissions in the cluster."""
    admin.apply(CLUSTER_ROLES, _rbac("ClusterRole", {"name": user}, rules=rules))
    admin.apply(
        CLUSTER_BINDINGS,
        _rbac("ClusterRoleBinding", {"name": user}, **_bound("ClusterRole", user)),
    )


def _rbac(kind: str, metadata: dict[str, str], **body: Any) -> Object:
    return {"apiVersion": ROLES.api_version, "kind": kind, "metadata": metadata, **body}


def _bound(role_kind: str, user: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "roleRef": {"apiGroup": group, "kind": role_kind, "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def shared_control_plane(folder: Path) -> ControlPlane:
    """The control plane of the test session, whose processes share a folder."""
    folder.mkdir(exist_ok=True)
    ready = folder / "ready"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            _start_keeper(folder)
            eventually(ready.exists, f"the control plane gets ready; see {folder}/*.log")
    return ControlPlane(folder=folder, server=ready.read_text())


def _start_keeper(folder: Path) -> None:
    # Processes of pytest-xdist are children of the one that the session ends with.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.control_plane", str(folder), str(owner)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # It outlives this process on purpose; without a reference Python would warn of that.
    _keepers.append(keeper)


def _keep(folder: Path, owner: int) -> None:
    """Run the servers until the owner ends."""
    session = os.pidfd_open(owner)
    servers = _start_servers(folder)
    while not select.select([session], [], [], 1.0)[0]:
        assert all(server.poll() is None for server in servers), "a server has ended"
    for server in reversed(servers):
        server.kill()
        server.wait()


class OwnApiServer:
    """An API server of one test alone, without controllers, which can be killed and started."""

    def __init__(self, folder: Path) -> None:
        self._store, self._port = free_port(), free_port()
        _write_credentials(folder)
        self.plane = ControlPlane(folder=folder, server=f"https://127.0.0.1:{self._port}")
        self._etcd = _start(folder, "etcd", _etcd(folder, self._store, free_port()))
        self._server: subprocess.Popen[bytes] | None = None
        self.start()
        with self.plane.client() as client:
            eventually(lambda: _is_ready(client), "the API server gets ready")

    def start(self) -> None:
        """Start it. It takes a while until it answers."""
        options = _api_server(self.plane.folder, self._store, self._port)
        self._server = _start(self.plane.folder, "kube-apiserver", options)

    def kill(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.wait()

    def close(self) -> None:
        self.kill()
        self._etcd.kill()
        self._etcd.wait()


def _start_servers(folder: Path) -> list["subprocess.Popen[bytes]"]:
    _write_credentials(folder)
    store, peers, port = free_port(), free_port(), free_port()
    plane = ControlPlane(folder=folder, server=f"https://127.0.0.1:{port}")
    admin = plane.kubeconfig(folder / "admin")
    started = [_start(folder, "etcd", _etcd(folder, store, peers))]
    started.append(_start(folder, "kube-apiserver", _api_server(folder, store, port)))
    with plane.client() as client:
        eventually(lambda: _is_ready(client), "the API server gets ready")
    started.append(_start(folder, "kube-controller-manager", _controllers(folder, admin)))
    started.append(
        _start(
            folder,
            "kube-scheduler",
            [f"--kubeconfig={admin}", "--leader-elect=false", "--secure-port=0"],
        )
    )
    written = folder / "ready.new"
    written.write_text(plane.server)
    written.rename(folder / "ready")
    return started


def _write_credentials(folder: Path) -> None:
    authority = make_authority()
    authority.write(folder, "authority")
    make_certificate(authority, "kube-apiserver").write(folder, "server")
    make_certificate(authority, "service accounts").write(folder, "accounts")
    make_certificate(authority, "kubelet-client", organization="system:masters").write(
        folder, "kubelet-client"
    )
    names = ["admin", *(f"user-{number}" for number in range(USERS))]
    (folder / "tokens").write_text(
        "".join(
            f"{_token_of(name)},{name},{name},{'system:masters' if name == 'admin' else ''}\n"
            for name in names
        )
    )


def _is_ready(client: ClusterClient) -> bool:
    from outlast.cluster.errors import ClusterError
    from outlast.cluster.resources import PRIORITY_CLASSES

    try:
        # Made by a hook that runs after the API server has started.
        return client.get(PRIORITY_CLASSES, "system-node-critical") is not None
    except ClusterError:
        return False


def _start(folder: Path, name: str, options: list[str]) -> "subprocess.Popen[bytes]":
    binaries = control_plane_folder()
    assert binaries is not None
    # It must not outlive the keeper, even if that is killed.
    keeper = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*keeper, str(binaries / name), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )


def _etcd(folder: Path, port: int, peers: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    return [
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _api_server(folder: Path, store: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{store}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder}/server.crt",
        f"--tls-private-key-file={folder}/server.key",
        f"--client-ca-file={folder}/authority.crt",
        f"--token-auth-file={folder}/tokens",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder}/accounts.crt",
        f"--service-account-signing-key-file={folder}/accounts.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={folder}/kubelet-client.crt",
        f"--kubelet-client-key={folder}/kubelet-client.key",
    ]


def _controllers(folder: Path, admin: Path) -> list[str]:
    return [
        f"--kubeconfig={admin}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={folder}/accounts.key",
        f"--root-ca-file={folder}/authority.crt",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=10s",
        # A node of a test that nothing reports for stays as it is.
        "--node-startup-grace-period=1h",
    ]


def _token_of(user: str) -> str:
    return f"secret-of-{user}"


if __name__ == "__main__":
    # The thread that starts the servers must be the main one: they end with it.
    assert threading.current_thread() is threading.main_thread()
    _keep(Path(sys.argv[1]), int(sys.argv[2]))
