"""The credentials of a connection: fixed, from a file that is rotated, or printed by a plugin.

Safe to use from several threads. A token is read again when the server answers 401, and a plugin
also runs again shortly before its credentials expire.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from outlast.cluster.connection.kubeconfig import ClusterAccess, ExecPlugin
from outlast.cluster.errors import ClusterError, ClusterUnreachable, shown

_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_PLUGIN_SECONDS_MAX = 60.0
_EXPIRY_LEAD_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """What a request is sent with. Certificate and key are PEM; `expires` is a Unix time."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: float | None = None


class CredentialSource:
    """Gives the present credential, and a new one if the server refused it."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._present: Credential | None = None

    def current(self) -> Credential:
        with self._lock:
            if self._present is None or _is_expired(self._present):
                self._present = self._read()
            return self._present

    def renew(self, refused: Credential) -> bool:
        """Read the credential again unless that has happened meanwhile. Whether it is another."""
        with self._lock:
            if self._present is refused:
                self._present = self._read()
            return self._present != refused

    def _read(self) -> Credential:
        user = self._access.user
        if user.token_file is not None:
            return Credential(authorization=f"Bearer {_token_in(user.token_file)}")
        if user.token:
            authorization = f"Bearer {user.token}"
        elif user.username:
            pair = f"{user.username}:{user.password}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode()}"
        elif user.plugin is not None and not user.certificate:
            return run_plugin(user.plugin, self._access)
        else:
            authorization = ""
        return Credential(authorization=authorization, certificate=user.certificate, key=user.key)


def run_plugin(plugin: ExecPlugin, access: ClusterAccess) -> Credential:
    """Run a credential plugin. Raises `ClusterError` if it is missing, and otherwise
    `ClusterUnreachable` if it gives no credential."""
    _check_version(plugin)
    command = _command_of(plugin)
    is_interactive = plugin.interactive_mode != "Never" and sys.stdin is not None
    is_interactive = is_interactive and sys.stdin.isatty()
    environ = {
        **os.environ,
        **plugin.variables,
        "KUBERNETES_EXEC_INFO": json.dumps(_exec_info(plugin, access, is_interactive)),
    }
    name = Path(plugin.command).name
    try:
        done = subprocess.run(
            [command, *plugin.arguments],
            env=environ,
            stdin=None if is_interactive else subprocess.DEVNULL,
            # Someone who has to log in must see what the plugin asks for.
            stderr=None if is_interactive else subprocess.PIPE,
            stdout=subprocess.PIPE,
            timeout=None if is_interactive else _PLUGIN_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_credential(name, str(error), plugin) from error
    if done.returncode != 0:
        said = _said((done.stderr or b"").decode(errors="replace"))
        raise _no_credential(name, f"exit code {done.returncode}, {said}", plugin)
    return _credential_in(done.stdout, plugin)


def _said(text: str) -> str:
    """The line that says what went wrong: gcloud's own error, else the last one with words."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalpha, line))]
    errors = [line[line.index("ERROR:") :] for line in lines if "ERROR:" in line]
    return [*errors, *lines[-1:], "no message"][0].rstrip(".")


def _check_version(plugin: ExecPlugin) -> None:
    if plugin.api_version not in _VERSIONS:
        raise ClusterError(
            f"The credential plugin {plugin.command!r} uses {shown(plugin.api_version)!r}, which "
            "is not supported.",
            hint=f"Get new credentials; supported are: {', '.join(_VERSIONS)}.",
        )


def _command_of(plugin: ExecPlugin) -> str:
    """The program. A path with a slash is relative to the kubeconfig, as for kubectl."""
    given = plugin.command
    found = shutil.which(str(plugin.folder / given) if "/" in given else given)
    if found is None:
        known = {
            "gke-gcloud-auth-plugin": "Run: gcloud components install gke-gcloud-auth-plugin",
        }
        raise ClusterError(
            f"The credential plugin {given!r} is not installed.",
            hint=known.get(Path(given).name)
            or shown(" ".join(plugin.install_hint.split()), characters_max=300)
            or f"Install {given} and make sure that it is on the PATH.",
        )
    return found


def _exec_info(plugin: ExecPlugin, access: ClusterAccess, is_interactive: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": is_interactive}
    if plugin.provides_cluster_info:
        spec["cluster"] = {
            "server": access.server,
            "tls-server-name": access.tls_server_name,
            "insecure-skip-tls-verify": not access.is_verified,
            "certificate-authority-data": base64.b64encode(access.authority).decode(),
            "proxy-url": access.proxy_url,
        }
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _credential_in(output: bytes, plugin: ExecPlugin) -> Credential:
    name = Path(plugin.command).name
    try:
        answer = json.loads(output)
        status = answer["status"]
        token, certificate, key, expires = (
            status.get(field) or ""
            for field in (
                "token",
                "clientCertificateData",
                "clientKeyData",
                "expirationTimestamp",
            )
        )
        expiry = datetime.fromisoformat(expires).timestamp() if expires else None
        if expiry is not None and expiry - _EXPIRY_LEAD_SECONDS < time.time():
            # The clock here is wrong, or the plugin's is. The server's 401 decides.
            expiry = None
        version = answer["apiVersion"]
        pem = (certificate.encode(), key.encode())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Not chained into the message: the output may have a token.
        raise _no_credential(name, "its output is not an ExecCredential", plugin) from error
    if version != plugin.api_version:
        raise _no_credential(
            name, f"it answered as {version!r} instead of {plugin.api_version!r}", plugin
        )
    if not token and not certificate:
        raise _no_credential(name, "its output has neither a token nor a certificate", plugin)
    return Credential(
        authorization=f"Bearer {token}" if token else "",
        certificate=pem[0],
        key=pem[1],
        expires=expiry,
    )


def _no_credential(name: str, why: str, plugin: ExecPlugin) -> ClusterUnreachable:
    login = "Run: gcloud auth login" if "gcloud" in name else f"Run it by hand: {plugin.command}"
    return ClusterUnreachable(
        f"The credential plugin {name!r} gave no credential: {shown(why, characters_max=300)}.",
        hint=login,
        is_final=True,
    )


def _is_expired(credential: Credential) -> bool:
    return (
        credential.expires is not None and time.time() > credential.expires - _EXPIRY_LEAD_SECONDS
    )


def _token_in(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(
            f"Could not read the token file {str(path)!r}.", hint="Check the kubeconfig."
        ) from error
