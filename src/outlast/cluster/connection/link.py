"""The connection to an API server: HTTP and TLS. The only file that imports httpx2.

One attempt per call; `client.py` decides what to repeat. Connections are probed by TCP keep-alive,
so that one whose other end has vanished is noticed within seconds. Safe for several threads.
"""

import contextlib
import ipaddress
import socket
import ssl
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from outlast._base.version import __version__
from outlast.cluster.connection.credentials import Credential, CredentialSource
from outlast.cluster.connection.kubeconfig import ClusterAccess
from outlast.cluster.errors import ClusterError, ClusterUnreachable, shown
from outlast.errors import MissingExtra

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("cluster", needed_for="A connection to a cluster") from error

CONNECT_SECONDS_MAX = 4.0
SILENCE_SECONDS_MAX = 30.0
BODY_BYTES_MAX = 512 * 1024**2
LINE_BYTES_MAX = 16 * 1024**2
"""No object is larger than 3 MiB; a line of a log is cut at this length."""

_SKEW_MIN = timedelta(seconds=30)
_KEEPALIVE = (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 2))


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request. `silence_seconds_max` limits the time without a byte of the answer."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    silence_seconds_max: float = SILENCE_SECONDS_MAX


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """An answer, of any status. `retry_after` is in seconds."""

    status: int
    body: bytes
    content_type: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStream:
    """An answer that is read line by line while it arrives."""

    lines: Iterator[bytes]


class Link:
    """A connection to the API server of one context. Close it, or use it in a `with`."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self.skew = timedelta(0)
        """How far the clock of the API server is ahead of this machine's."""
        self._credentials = CredentialSource(access)
        self._tls = _tls_context(access)
        self._certificate = b""
        self._certificate_lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._client = _make_client(access, self._tls)

    def send(self, request: Request) -> Response:
        """Send a request and read the answer, of any status.

        Renews the credentials once if they are refused. Raises `ClusterUnreachable`.
        """
        with self._opened(request) as response:
            body = _read_body(response, self.access)
            return _response(response, body)

    @contextlib.contextmanager
    def stream(self, request: Request) -> Iterator[OpenStream | Response]:
        """Send a request; a successful answer is a stream, any other is read."""
        with self._opened(request) as response:
            if response.status_code != 200:
                yield _response(response, _read_body(response, self.access))
                return
            connection = response.extensions["network_stream"].get_extra_info("socket")
            self._sockets.add(connection)
            try:
                yield OpenStream(lines=_lines(response, self.access))
            finally:
                self._sockets.discard(connection)

    def cut_streams(self) -> None:
        """End all open streams, from any thread."""
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut_streams()
        self._client.close()

    @contextlib.contextmanager
    def _opened(self, request: Request) -> Iterator["httpx2.Response"]:
        for is_last in (False, True):
            credential = self._credentials.current()
            self._load_certificate(credential)
            with _translated(self.access):
                response = self._client.send(self._built(request, credential), stream=True)
            try:
                skew = _skew(response.headers.get("Date", ""), datetime.now(UTC))
                self.skew = self.skew if skew is None else skew
                if response.status_code == 401:
                    if not is_last and self._credentials.renew(credential):
                        continue
                    raise _refused_credentials(self.access)
                yield response
                return
            finally:
                with contextlib.suppress(httpx2.HTTPError):
                    response.close()

    def _built(self, request: Request, credential: Credential) -> "httpx2.Request":
        headers = [("Accept", request.accept)]
        if credential.authorization:
            headers.append(("Authorization", credential.authorization))
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        for name, values in self.access.user.impersonated.items():
            headers += [(name, value) for value in values]
        name = self.access.tls_server_name
        return self._client.build_request(
            request.method,
            self.access.server + request.path,
            params=dict(request.params),
            content=request.body,
            headers=headers,
            timeout=_timeout(request.silence_seconds_max),
            extensions={"sni_hostname": name} if name else {},
        )

    def _load_certificate(self, credential: Credential) -> None:
        """Use a client certificate for new connections, and drop those with another one."""
        with self._certificate_lock:
            pem = credential.certificate
            if not pem or pem == self._certificate:
                return
            _load_pem(self._tls, credential, self.access)
            if self._certificate:
                old, self._client = self._client, _make_client(self.access, self._tls)
                old.close()
            self._certificate = pem


def _skew(date: str, now: datetime) -> timedelta | None:
    """How far the server's clock is ahead of this machine's, None if it does not say.

    The header has whole seconds and took a while to arrive, so a small difference counts as none.
    """
    try:
        found = parsedate_to_datetime(date).astimezone(UTC) - now
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) >= _SKEW_MIN else timedelta(0)


def _make_client(access: ClusterAccess, tls: ssl.SSLContext) -> "httpx2.Client":
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Keep-alive probes only idle connections; this covers a request that is not acknowledged.
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8000))
    proxy = access.proxy_url or _proxy_from_environment(access.server)
    with _proxy_refused(proxy):
        transport = httpx2.HTTPTransport(
            verify=tls, socket_options=options, proxy=proxy or None, trust_env=False
        )
    return httpx2.Client(
        transport=transport,
        timeout=_timeout(SILENCE_SECONDS_MAX),
        headers={"User-Agent": f"outlast/{__version__}"},
        trust_env=False,
    )


def _timeout(silence_seconds: float) -> "httpx2.Timeout":
    return httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS_MAX)


def _proxy_from_environment(server: str) -> str:
    """The proxy of HTTPS_PROXY, unless NO_PROXY or loopback excludes the server."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass(host) or _is_excluded(host, proxies.get("no", "")):
        return ""
    return proxies.get(parts.scheme, "")


def _is_excluded(host: str, excluded: str) -> bool:
    """Whether the host is loopback or in an excluded network, as for kubectl."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for word in excluded.split(","):
        with contextlib.suppress(ValueError):
            if "/" in word and address in ipaddress.ip_network(word.strip(), strict=False):
                return True
    return address.is_loopback


@contextlib.contextmanager
def _proxy_refused(proxy: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise ClusterError(
            f"The proxy {proxy!r} cannot be used: {shown(str(error), characters_max=200)}",
            hint="Check proxy-url in the kubeconfig and HTTPS_PROXY. For SOCKS: pip install "
            "socksio.",
        ) from error


def _tls_context(access: ClusterAccess) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not access.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if access.authority:
        # Only the cluster's own authority is trusted, not those of this machine.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=access.authority.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ClusterError(
                f"The certificate authority of context {access.context!r} is not valid PEM.",
                hint="Get new credentials for the cluster.",
            ) from error
    return context


def _load_pem(tls: ssl.SSLContext, credential: Credential, access: ClusterAccess) -> None:
    """Load a client certificate. OpenSSL takes files only; they are private and gone at once."""
    with tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        certificate, key = Path(folder) / "certificate", Path(folder) / "key"
        for path, data in ((certificate, credential.certificate), (key, credential.key)):
            path.touch(mode=0o600)
            path.write_bytes(data)
        try:
            tls.load_cert_chain(certificate, key)
        except (ssl.SSLError, OSError) as error:
            raise ClusterError(
                f"The client certificate of context {access.context!r} or its key is not valid.",
                hint="Get new credentials for the cluster.",
            ) from error


def _read_body(response: "httpx2.Response", access: ClusterAccess) -> bytes:
    parts, size = [], 0
    with _translated(access):
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > BODY_BYTES_MAX:
                raise ClusterError(
                    f"An answer of {access.server} is larger than {BODY_BYTES_MAX:,} bytes.",
                    hint="Check that this is a Kubernetes API server.",
                )
    return b"".join(parts)


def _lines(response: "httpx2.Response", access: ClusterAccess) -> Iterator[bytes]:
    """The lines of an answer. Only a line feed ends one: JSON and logs may have any other sign."""
    rest = b""
    with _translated(access):
        for part in response.iter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            yield from lines
            if len(rest) > LINE_BYTES_MAX:
                yield rest
                rest = b""
    if rest:
        yield rest


def _response(response: "httpx2.Response", body: bytes) -> Response:
    try:
        retry_after = max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        retry_after = None
    return Response(
        status=response.status_code,
        body=body,
        content_type=response.headers.get("Content-Type", ""),
        retry_after=retry_after,
    )


def _refused_credentials(access: ClusterAccess) -> ClusterUnreachable:
    plugin = access.user.plugin
    login = "Run: gcloud auth login" if plugin and "gcloud" in plugin.command else ""
    return ClusterUnreachable(
        f"The API server of context {access.context!r} does not accept the credentials (401).",
        hint=login or "Get new credentials for the cluster; they may have expired.",
        is_final=True,
    )


@contextlib.contextmanager
def _translated(access: ClusterAccess) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ssl.SSLError) as error:
        raise _unreachable(error, access) from error


def _unreachable(error: Exception, access: ClusterAccess) -> ClusterUnreachable:
    said = shown(str(error), characters_max=300) or type(error).__name__
    where = f"The API server {access.server} of context {access.context!r}"
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return ClusterUnreachable(
            f"{where} has a certificate that is not valid here: {said}.",
            hint="Get new credentials for the cluster. If it has expired, check the clock here.",
            is_final=True,
        )
    if "alert" in said and ("certificate" in said or "unknown ca" in said.lower()):
        return ClusterUnreachable(
            f"{where} does not accept the client certificate: {said}.",
            hint="Get new credentials for the cluster; the certificate may have expired.",
            is_final=True,
        )
    what = (
        "did not answer in time"
        if isinstance(error, httpx2.TimeoutException)
        else "cannot be reached"
    )
    return ClusterUnreachable(
        f"{where} {what}: {said}.",
        hint="Check the network and VPN, and that the cluster runs: kubectl cluster-info",
    )
