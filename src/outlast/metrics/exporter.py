"""Serve metrics in the text format of Prometheus, from a background thread.

One read-only page without dependencies. If it cannot be served, this is only logged: metrics must
not stop a training run. Neither can clients: two threads serve all of them, connections are limited
in number and each has a deadline, so idle or hostile ones use a bounded amount of memory.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from outlast._base.logs import get_logger
from outlast._base.settings import Setting, setting, text_of, whole_number_to

if TYPE_CHECKING:
    from outlast.interruption.guard import Guard
    from outlast.metrics.server import PageServer

log = get_logger(__name__)


METRICS_PORT: Setting[int | None] = setting(
    "metrics_port",
    whole_number_to(65535, "A port"),
    None,
    default_text="none (no metrics page)",
    meaning="Port of the metrics page for Prometheus.",
    hint="Use a free port, for example 9464.",
)
METRICS_HOST = setting(
    "metrics_host",
    text_of("A host name or an address"),
    "127.0.0.1",
    meaning="Address on which the metrics page listens. Use 0.0.0.0 in a Pod, so that Prometheus "
    "can reach it.",
    hint="Use 127.0.0.1, or 0.0.0.0 for all networks.",
)

METRICS_SETTINGS: tuple[Setting[object], ...] = (METRICS_PORT, METRICS_HOST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric. `read` is called for each request, in another thread; None omits the metric."""

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
        self._server: PageServer | None = None
        self.url: str | None = None
        """The URL of the page, while it is served."""

    def __enter__(self) -> Self:
        if self._port is not None:
            try:
                self._serve(self._port)
            except OSError as error:
                log.warning("Cannot serve metrics at %s:%d: %s.", self._host, self._port, error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()

    def page(self) -> str:
        """The current metrics."""
        return "".join(map(_lines, self._metrics))

    def _serve(self, port: int) -> None:
        # Imported only here, because few programs serve metrics.
        from outlast.metrics.server import PageServer

        self._server = PageServer(self._host, port, self.page)
        self.url = f"http://{self._host}:{self._server.port}/metrics"


def _lines(metric: Metric) -> str:
    try:
        value = metric.read()
    except Exception as error:  # it may call something that is gone by now, such as a queue
        log.debug("Could not read the metric %s: %s", metric.name, error)
        value = None
    if value is None or not math.isfinite(value):
        return ""
    return (
        f"# HELP {metric.name} {metric.meaning}\n"
        f"# TYPE {metric.name} {metric.kind}\n"
        f"{metric.name} {value!r}\n"
    )


def expiry_metric(guard: "Guard") -> Metric:
    """The metric that all kinds of programs export, under the name that alerts use."""

    def read() -> float | None:
        left = guard.seconds_until_expiry()
        return None if left is None else time.time() + left

    return Metric(
        name="outlast_expires_timestamp_seconds",
        kind="gauge",
        meaning="Time at which the machine will be taken away.",
        read=read,
    )
