"""Figures that more than one kind of program exports, under the names that alerts read."""

import time

from outlast.interruption.guard import Guard
from outlast.metrics.exporter import Metric


def expiry_metric(guard: Guard) -> Metric:
    def read() -> float | None:
        left = guard.seconds_until_expiry()
        return None if left is None else time.time() + left

    return Metric(
        name="outlast_expires_timestamp_seconds",
        kind="gauge",
        meaning="When the machine will be taken away.",
        read=read,
    )
