"""Read the kubeconfig: files are merged as kubectl does, then one context is chosen.

The order: `--kubeconfig`, the files in KUBECONFIG, `~/.kube/config`, and in a Pod its service
account. Of several files, the first that has an entry of a name counts. Paths in a file are
relative to its folder. Nothing is written, and no plugin is run.
"""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from outlast.cluster.errors import ClusterError, shown
from outlast.errors import MissingExtra

try:
    import yaml
except ImportError as error:
    raise MissingExtra("cluster", needed_for="A connection to a cluster") from error

FILE_BYTES_MAX = 16 * 1024**2
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecPlugin:
    """A program that prints credentials. `folder` is that of the file that names it."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provides_cluster_info: bool = False
    folder: Path = Path()


@dataclass(frozen=True, kw_only=True, slots=True)
class UserEntry:
    """The credentials of a context. Certificate and key are PEM."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None
    impersonated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAccess:
    """One context, with everything it refers to. `source` names where it came from."""

    context: str
    server: str
    namespace: str = "default"
    authority: bytes = b""
    is_verified: bool = True
    tls_server_name: str = ""
    proxy_url: str = ""
    user: UserEntry = field(default_factory=UserEntry)
    source: str = ""


def find_access(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = _SERVICE_ACCOUNT,
) -> ClusterAccess:
    """The access to the chosen context. Raises `ClusterError` if there is none."""
    files = list(_read_files(_paths(kubeconfig, environ), is_explicit=kubeconfig is not None))
    if not files:
        access = _in_cluster(environ, service_account)
        if access is None or context is not None:
            raise ClusterError(
                "No kubeconfig was found, and this is not a Pod of a cluster.",
                hint="Run: gcloud container clusters get-credentials CLUSTER --location LOCATION. "
                "Or pass --kubeconfig FILE.",
            )
        return access
    return _choose(_merged(files), context)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: Path
    content: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Merged:
    """The entries of all files by name, each with the file it came from."""

    source: str
    current: str
    contexts: Mapping[str, tuple[_File, Mapping[str, Any]]]
    clusters: Mapping[str, tuple[_File, Mapping[str, Any]]]
    users: Mapping[str, tuple[_File, Mapping[str, Any]]]


def _paths(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    if listed := environ.get("KUBECONFIG"):
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    home = environ.get("HOME")
    return [Path(home) / ".kube" / "config"] if home else []


def _read_files(paths: list[Path], *, is_explicit: bool) -> Iterator[_File]:
    for path in paths:
        try:
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            if is_explicit:
                raise ClusterError(
                    f"There is no kubeconfig {str(path)!r}.", hint="Check --kubeconfig."
                ) from None
            continue
        except OSError as error:
            raise ClusterError(
                f"Could not read the kubeconfig {str(path)!r}: {error.strerror}.",
                hint="Check its permissions, or pass --kubeconfig FILE.",
            ) from error
        content = _parsed(data, path)
        if content:
            yield _File(path=path, content=content)


def _parsed(data: bytes, path: Path) -> Mapping[str, Any]:
    hint = "Check the file with `kubectl config view`."
    if len(data) > FILE_BYTES_MAX:
        raise ClusterError(f"The kubeconfig {str(path)!r} is larger than 16 MiB.", hint=hint)
    try:
        content = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        # The error of the parser would quote the line, which may have a token.
        raise ClusterError(f"The kubeconfig {str(path)!r} is not YAML.", hint=hint) from error
    if content is not None and not isinstance(content, dict):
        raise ClusterError(f"The kubeconfig {str(path)!r} has no mapping of keys.", hint=hint)
    return content or {}


def _merged(files: list[_File]) -> _Merged:
    current = (file.content.get("current-context") for file in files)
    return _Merged(
        source=os.pathsep.join(str(file.path) for file in files),
        current=next((name for name in current if isinstance(name, str) and name), ""),
        contexts=_entries(files, "contexts", "context"),
        clusters=_entries(files, "clusters", "cluster"),
        users=_entries(files, "users", "user"),
    )


def _entries(
    files: list[_File], key: str, inner: str
) -> dict[str, tuple[_File, Mapping[str, Any]]]:
    found: dict[str, tuple[_File, Mapping[str, Any]]] = {}
    for file in files:
        listed = file.content.get(key)
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                body = entry.get(inner)
                found.setdefault(entry["name"], (file, body if isinstance(body, dict) else {}))
    return found


def _choose(merged: _Merged, context: str | None) -> ClusterAccess:
    name = context or merged.current
    if not name:
        raise ClusterError(
            f"The kubeconfig {merged.source!r} has no current context.",
            hint=f"Pass --context. {_known(merged.contexts)}",
        )
    _, chosen = _entry(merged.contexts, name, "context", merged)
    cluster_file, cluster = _entry(
        merged.clusters, _text(chosen, "cluster"), f"cluster of context {name!r}", merged
    )
    server = _text(cluster, "server")
    if not server.startswith(("https://", "http://")):
        raise ClusterError(
            f"Context {name!r} has no valid server address: {shown(server)!r}.",
            hint="Check the file with `kubectl config view`.",
        )
    return ClusterAccess(
        context=name,
        server=server.rstrip("/"),
        namespace=_text(chosen, "namespace") or "default",
        authority=_content(cluster, "certificate-authority", cluster_file),
        is_verified=cluster.get("insecure-skip-tls-verify") is not True,
        tls_server_name=_text(cluster, "tls-server-name"),
        proxy_url=_text(cluster, "proxy-url"),
        user=_user(merged, _text(chosen, "user"), name),
        source=merged.source,
    )


def _entry(
    entries: Mapping[str, tuple[_File, Mapping[str, Any]]], name: str, what: str, merged: _Merged
) -> tuple[_File, Mapping[str, Any]]:
    if name not in entries:
        similar = get_close_matches(name, entries, n=1)
        meant = f"Did you mean {similar[0]!r}? " if similar else ""
        raise ClusterError(
            f"The kubeconfig {merged.source!r} has no {what}"
            + (f": {name!r}." if what != "context" else f" {name!r}."),
            hint=f"{meant}{_known(entries)}",
        )
    return entries[name]


def _known(entries: Mapping[str, object]) -> str:
    names = sorted(entries)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"It has: {', '.join(names[:5])}{more}." if names else "It has none."


def _user(merged: _Merged, name: str, context: str) -> UserEntry:
    if not name:
        return UserEntry()
    file, user = _entry(merged.users, name, f"user of context {context!r}", merged)
    if "auth-provider" in user:
        raise ClusterError(
            f"User {name!r} uses an auth-provider, which Kubernetes removed in 1.26.",
            hint="Get new credentials: gcloud container clusters get-credentials CLUSTER.",
        )
    token_file = _text(user, "tokenFile")
    return UserEntry(
        token=_text(user, "token"),
        token_file=file.path.parent / token_file if token_file else None,
        certificate=_content(user, "client-certificate", file),
        key=_content(user, "client-key", file),
        username=_text(user, "username"),
        password=_text(user, "password"),
        plugin=_plugin(user.get("exec"), file),
        impersonated=_impersonated(user),
    )


def _plugin(given: object, file: _File) -> ExecPlugin | None:
    if not isinstance(given, dict):
        return None
    variables = [one for one in given.get("env") or () if isinstance(one, dict)]
    return ExecPlugin(
        api_version=_text(given, "apiVersion"),
        command=_text(given, "command"),
        arguments=tuple(map(str, given.get("args") or ())),
        variables={_text(one, "name"): _text(one, "value") for one in variables},
        install_hint=_text(given, "installHint"),
        interactive_mode=_text(given, "interactiveMode") or "IfAvailable",
        provides_cluster_info=given.get("provideClusterInfo") is True,
        folder=file.path.parent.absolute(),
    )


def _impersonated(user: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The headers of impersonation. To ignore it would act with more rights than asked for."""
    headers: dict[str, tuple[str, ...]] = {}
    for key, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if value := _text(user, key):
            headers[header] = (value,)
    if groups := user.get("as-groups"):
        headers["Impersonate-Group"] = tuple(map(str, groups))
    for key, values in (user.get("as-user-extra") or {}).items():
        headers[f"Impersonate-Extra-{key}"] = tuple(map(str, values))
    return headers


def _content(entry: Mapping[str, Any], key: str, file: _File) -> bytes:
    """PEM data that is in the entry, or in a file that it names."""
    if data := _text(entry, f"{key}-data"):
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise ClusterError(
                f"{key}-data in {str(file.path)!r} is not base64.",
                hint="Get new credentials for the cluster.",
            ) from error
    if not (name := _text(entry, key)):
        return b""
    path = file.path.parent / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise ClusterError(
            f"Could not read {str(path)!r}, the {key} in {str(file.path)!r}: {error.strerror}.",
            hint="Get new credentials for the cluster.",
        ) from error


def _in_cluster(environ: Mapping[str, str], folder: Path) -> ClusterAccess | None:
    host, port = (environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    token = folder / "token"
    if not host or not port or not token.is_file():
        return None
    namespace, authority = folder / "namespace", folder / "ca.crt"
    return ClusterAccess(
        context="in-cluster",
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        authority=authority.read_bytes() if authority.is_file() else b"",
        user=UserEntry(token_file=token),
        source=str(folder),
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
