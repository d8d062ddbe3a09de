"""The settings of a worker: their names, what they take and what they mean."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from outlast._base.settings import Setting, count_of, positive_seconds, seconds_from_zero, text_of
from outlast.interruption.settings import EXIT_CODE

QUEUE_URL = Setting(
    keyword="queue",
    variable="OUTLAST_QUEUE_URL",
    default="",
    default_text="none",
    parse=text_of("A URL"),
    meaning="The queue a worker pulls from. A password belongs here, not into a command.",
    hint="Give a URL such as sqlite:///jobs.db or postgresql://host/database.",
)
SINK_URL = Setting(
    keyword="sink",
    variable="OUTLAST_SINK_URL",
    default="",
    default_text="none",
    parse=text_of("A URL"),
    meaning="Where a worker stores its results.",
    hint="Give a URL such as sqlite:///jobs.db or gs://bucket/results, or a folder.",
)
LEASE_SECONDS = Setting(
    keyword="lease_seconds",
    variable="OUTLAST_LEASE_SECONDS",
    default=60.0,
    default_text="60",
    parse=positive_seconds,
    meaning="How long the items of a worker that vanished stay with it. It holds on to its lease "
    "by itself, so this need not cover the work.",
    hint="Give a number of seconds, for example 60.",
)
VERSION = Setting(
    keyword="version",
    variable="OUTLAST_VERSION",
    default="",
    default_text="none",
    parse=text_of("Text"),
    meaning="What results depend on besides the item, such as the model. Results of another "
    "version do not count as done.",
    hint="Give a short text, for example resnet50-2.",
)
FAILURES_MAX = Setting(
    keyword="failures_max",
    variable="OUTLAST_FAILURES_MAX",
    default=5,
    default_text="5",
    parse=count_of("A whole number"),
    meaning="After so many failures an item is a dead letter. Evictions do not count.",
    hint="Give a whole number from 1, for example 5.",
)
RETRY_SECONDS = Setting(
    keyword="retry_seconds",
    variable="OUTLAST_RETRY_SECONDS",
    default=1.0,
    default_text="1",
    parse=seconds_from_zero,
    meaning="How long a failed item waits for its next turn; doubled each time, up to 5 minutes.",
    hint="Give a number of seconds, for example 1.",
)
TIMEOUT_SECONDS: Setting[float | None] = Setting(
    keyword="timeout_seconds",
    variable="OUTLAST_TIMEOUT_SECONDS",
    default=None,
    default_text="none",
    parse=positive_seconds,
    meaning="A call of the function that takes longer is the item's failure, and the worker ends.",
    hint="Give a number of seconds well above what an item takes, for example 600.",
)
PATIENCE_SECONDS = Setting(
    keyword="patience_seconds",
    variable="OUTLAST_PATIENCE_SECONDS",
    default=300.0,
    default_text="300",
    parse=seconds_from_zero,
    meaning="How long a worker waits for a queue or a sink that does not answer.",
    hint="Give a number of seconds, for example 300.",
)

WORKER_SETTINGS: tuple[Setting[object], ...] = (
    QUEUE_URL,
    SINK_URL,
    LEASE_SECONDS,
    VERSION,
    FAILURES_MAX,
    RETRY_SECONDS,
    TIMEOUT_SECONDS,
    PATIENCE_SECONDS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """The settings of one worker, checked."""

    lease_seconds: float
    version: str
    failures_max: int
    retry_seconds: float
    timeout_seconds: float | None
    patience_seconds: float
    exit_code: int | None

    @classmethod
    def read(cls, given: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Self:
        return cls(
            lease_seconds=LEASE_SECONDS.read(given.get("lease_seconds"), environ).value,
            version=VERSION.read(given.get("version"), environ).value,
            failures_max=FAILURES_MAX.read(given.get("failures_max"), environ).value,
            retry_seconds=RETRY_SECONDS.read(given.get("retry_seconds"), environ).value,
            timeout_seconds=TIMEOUT_SECONDS.read(given.get("timeout_seconds"), environ).value,
            patience_seconds=PATIENCE_SECONDS.read(given.get("patience_seconds"), environ).value,
            exit_code=EXIT_CODE.read(given.get("exit_code"), environ).value,
        )
