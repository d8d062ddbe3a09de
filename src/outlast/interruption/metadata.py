"""Poll the Compute Engine metadata server for preemption and maintenance.

Each event has its own long poll in its own thread. After a failure the poll is repeated with
exponential backoff. A server that never answers is given up.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from outlast._base.http import RequestErrors, Response, connection_to, cut_off, get
from outlast._base.logs import get_logger

if TYPE_CHECKING:
    from http.client import HTTPConnection

log = get_logger(__name__)

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
    """The server answers, but does not have this path (such as GKE's metadata server)."""


class MetadataPoll:
    """Calls `on_value` with each new value of one path, from its own thread."""

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
        """Stop polling. A pending request is aborted."""
        self._stop.set()
        cut_off(self._connection)
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
                log.debug("The metadata server at %s does not have %s.", self._host, self._path)
                return
            except RequestErrors as error:
                failures += 1
                log.debug("Requesting %s from %s failed: %r", self._path, self._host, error)
                if value is None and failures >= _TRIES_BEFORE_FIRST_ANSWER:
                    log.info("No metadata server at %s; not watching %s.", self._host, self._path)
                    return
                etag = None
            else:
                failures = 0
                if new_value != value:
                    value = new_value
                    self._on_value(value)
            # Do not poll in a tight loop if the server answers immediately.
            pause = pause_seconds(failures) - (time.monotonic() - started)
            self._stop.wait(max(0.0, pause))

    def _ask(self, etag: str | None) -> tuple[str, str | None]:
        """The current value; with the ETag of the last one, the next different value."""
        query = ""
        answer_seconds = _ANSWER_SECONDS_MAX
        if etag is not None:
            answer_seconds += _POLL_SECONDS
            query = "?" + urlencode(
                {"wait_for_change": "true", "last_etag": etag, "timeout_sec": _POLL_SECONDS}
            )
        connection = self._connection = connection_to(self._host)
        try:
            response = get(
                connection,
                f"/computeMetadata/v1/{quote(self._path)}{query}",
                {"Metadata-Flavor": "Google"},
                silence_seconds_max=answer_seconds,
                body_bytes_max=_BODY_BYTES_MAX,
                on_connected=self._check_open,
            )
        finally:
            self._connection = None
        return _checked(response)

    def _check_open(self) -> None:
        if self._stop.is_set():
            raise OSError("closed")


def pause_seconds(failures: int) -> float:
    """The minimum time between two requests, doubled with each failure in a row."""
    return min(_PAUSE_SECONDS_MIN * 2.0 ** min(failures, 16), _PAUSE_SECONDS_MAX)


def _checked(response: Response) -> tuple[str, str | None]:
    if response.headers["Metadata-Flavor"] != "Google":
        raise ValueError("the response is not from a metadata server")
    if response.status == 404:
        raise NoSuchPath
    if response.status != 200:
        raise ValueError(f"status {response.status}")
    return response.body.decode("ascii").strip(), response.headers["ETag"]
