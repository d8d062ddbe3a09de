"""One HTTP GET request with limits. Does not follow redirects and does not use proxies.

For the few requests that Outlast makes itself: to metadata servers, the Kubernetes API and Cloud
Storage. Imported only by code that needs it, because HTTP and TLS are slow to import.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from email.message import Message

CONNECT_SECONDS_MAX = 5.0

RequestErrors = (OSError, HTTPException, ValueError)
"""What a failed request may raise."""


class Response(NamedTuple):
    status: int
    headers: "Message"
    body: bytes


def connection_to(
    host: str, port: int | None = None, *, tls: "ssl.SSLContext | None" = None
) -> HTTPConnection:
    """A connection that is not open yet. Encrypted only with `tls`."""
    if tls is None:
        return HTTPConnection(host, port, timeout=CONNECT_SECONDS_MAX)
    # Always with an explicit context, because programs replace the default one.
    return HTTPSConnection(host, port, timeout=CONNECT_SECONDS_MAX, context=tls)


def get(
    connection: HTTPConnection,
    path: str,
    headers: Mapping[str, str],
    *,
    silence_seconds_max: float,
    body_bytes_max: int,
    total_seconds_max: float | None = None,
    on_connected: Callable[[], object] | None = None,
) -> Response:
    """The response to one request; the connection is closed. Raises one of `RequestErrors`.

    `silence_seconds_max` limits the time without data, and `total_seconds_max` the entire response.
    """
    # A program that debugs HTTP would print the headers, with their tokens.
    connection.set_debuglevel(0)
    try:
        connection.connect()
        connection.sock.settimeout(silence_seconds_max)
        if on_connected is not None:
            on_connected()
        with _cut_off_after(connection.sock, total_seconds_max):
            connection.request("GET", path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(body_bytes_max + 1)
    finally:
        connection.close()
    if len(body) > body_bytes_max:
        raise ValueError("the response is too long")
    return Response(response.status, response.headers, body)


def cut_off(connection: HTTPConnection | None) -> None:
    """Abort a request, from any thread."""
    if connection is not None and connection.sock is not None:
        _shut_down(connection.sock)


@contextlib.contextmanager
def _cut_off_after(sock: socket.socket, seconds: float | None) -> Iterator[None]:
    """Abort the request after this time: the socket's own timeout restarts with each byte."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, _shut_down, [sock])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the method of a TLS socket, which for a moment would let plain text through.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
