"""Listens to the Compute Engine metadata server for preemption and maintenance.

Each event has its own long poll in its own thread. Nothing the server does ends more than that:
it is asked again after a pause that grows, and a server that never answered is given up.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote, urlencode

log = logging.getLogger(__name__)

PREEMPTED = "instance/preempted"
MAINTENANCE = "instance/maintenance-event"

_POLL_SECONDS = 60
_ANSWER_SECONDS_MAX = 5.0
_BODY_BYTES_MAX = 1024
_PAUSE_SECONDS_MIN = 1.0
_PAUSE_SECONDS_MAX = 30.0
_TRIES_BEFORE_FIRST_ANSWER = 6
_JOIN_SECONDS_MAX = 1.0


class NoSuchPath(Exception):
    """The server answers, but does not serve this path (as GKE's own server may not)."""


class MetadataPoll:
    """Calls `on_value` with each new value of one path, from a thread of its own."""

    def __init__(self, host: str, path: str, on_value: Callable[[str], object]) -> None:
        self._host = host
        self._path = path
        self._on_value = on_value
        self._stop = threading.Event()
        self._connection: HTTPConnection | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"outlast-metadata-{path}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop asking. A request under way is cut off."""
        self._stop.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        etag: str | None = None
        failures = 0
        value: str | None = None
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                new_value, etag = self._ask(etag)
            except NoSuchPath:
                log.debug("The metadata server at %s has no %s.", self._host, self._path)
                return
            except (OSError, HTTPException, ValueError) as error:
                failures += 1
                log.debug("Asking %s for %s failed: %r", self._host, self._path, error)
                if value is None and failures >= _TRIES_BEFORE_FIRST_ANSWER:
                    log.info("No metadata server at %s: %s is not watched.", self._host, self._path)
                    return
                etag = None
            else:
                failures = 0
                if new_value != value:
                    value = new_value
                    self._on_value(value)
            # A server that does not wait must not be asked in a tight circle.
            pause = pause_seconds(failures) - (time.monotonic() - started)
            self._stop.wait(max(0.0, pause))

    def _ask(self, etag: str | None) -> tuple[str, str | None]:
        """The value now, or, given the tag of the last one, once it has changed."""
        query = ""
        answer_seconds = _ANSWER_SECONDS_MAX
        if etag is not None:
            answer_seconds += _POLL_SECONDS
            query = "?" + urlencode(
                {"wait_for_change": "true", "last_etag": etag, "timeout_sec": _POLL_SECONDS}
            )
        connection = HTTPConnection(self._host, timeout=_ANSWER_SECONDS_MAX)
        self._connection = connection
        try:
            connection.connect()
            connection.sock.settimeout(answer_seconds)
            if self._stop.is_set():
                raise OSError("closed")
            path = f"/computeMetadata/v1/{quote(self._path)}{query}"
            connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
            response = connection.getresponse()
            body = response.read(_BODY_BYTES_MAX + 1)
            return _checked(response.status, response.getheader, body)
        finally:
            self._connection = None
            connection.close()


def pause_seconds(failures: int) -> float:
    """The least time between two questions, doubling with each failure in a row."""
    return min(_PAUSE_SECONDS_MIN * 2.0 ** min(failures, 16), _PAUSE_SECONDS_MAX)


def _checked(
    status: int, header: Callable[[str], str | None], body: bytes
) -> tuple[str, str | None]:
    if header("Metadata-Flavor") != "Google":
        raise ValueError("the answer is not a metadata server's")
    if status == 404:
        raise NoSuchPath
    if status != 200:
        raise ValueError(f"status {status}")
    if len(body) > _BODY_BYTES_MAX:
        raise ValueError("the answer is too long")
    return body.decode("ascii").strip(), header("ETag")
