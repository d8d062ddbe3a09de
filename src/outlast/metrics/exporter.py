"""Serve figures in the text format of Prometheus, from a thread that nothing waits for.

Read-only, one page, no dependency. A page that cannot be served is logged and no more: figures are
no reason for a training to end.
"""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from outlast.metrics.settings import METRICS_HOST, METRICS_PORT

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A figure. `read` is called for each request, in another thread; None leaves it out."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    read: Callable[[], float | None]


class Exporter:
    """Serves the metrics while it is open, if `OUTLAST_METRICS_PORT` is set."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self._port = METRICS_PORT.read().value
        self._host = METRICS_HOST.read().value
        self._close: Callable[[], object] = lambda: None
        self.url: str | None = None
        """Where the page is, while it is served."""

    def __enter__(self) -> Self:
        if self._port is not None:
            try:
                self._serve(self._port)
            except OSError as error:
                log.warning(
                    "There is no page of metrics at %s:%d: %s.", self._host, self._port, error
                )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def page(self) -> str:
        """The figures as they are now."""
        return "".join(map(_lines, self._metrics))

    def _serve(self, port: int) -> None:
        # Loaded only here: few programs serve a page, and all of them start.
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        exporter = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_SECONDS

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] in ("/", "/metrics")
                body = exporter.page().encode() if found else b"See /metrics.\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        server = ThreadingHTTPServer((self._host, port), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(
            target=server.serve_forever, args=(0.1,), name="outlast-metrics", daemon=True
        )
        thread.start()
        self.url = f"http://{self._host}:{server.server_port}/metrics"

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._close = close


def _lines(metric: Metric) -> str:
    try:
        value = metric.read()
    except Exception as error:  # it calls what may be gone by now, such as a queue
        log.debug("The metric %s could not be read: %s", metric.name, error)
        value = None
    if value is None or not math.isfinite(value):
        return ""
    return (
        f"# HELP {metric.name} {metric.meaning}\n"
        f"# TYPE {metric.name} {metric.kind}\n"
        f"{metric.name} {value!r}\n"
    )
