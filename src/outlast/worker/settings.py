"""The options of a worker: each with its type, environment variable and meaning."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Self, TypedDict

from outlast._base.options import settings_of
from outlast._base.settings import (
    Setting,
    count_of,
    positive_seconds,
    read_settings,
    seconds_from_zero,
    setting,
    text_of,
)
from outlast.errors import SettingError
from outlast.interruption.exec_settings import EXIT_CODE, GRACE
from outlast.interruption.settings import GUARD_SETTINGS

QUEUE_URL = setting(
    "queue",
    text_of("A URL"),
    "",
    variable="OUTLAST_QUEUE_URL",
    meaning="The queue a worker pulls from. Put a password here rather than on a command line.",
    hint="Use a URL such as sqlite:///jobs.db or postgresql://host/database.",
)
SINK_URL = setting(
    "sink",
    text_of("A URL"),
    "",
    variable="OUTLAST_SINK_URL",
    meaning="Where a worker stores its results.",
    hint="Use a URL such as sqlite:///jobs.db or gs://bucket/results, or a folder.",
)


class WorkerOptions(TypedDict, total=False):
    """The options of `Worker`. None means the variable or else the default."""

    lease_seconds: Annotated[
        float | None,
        setting(
            "lease_seconds",
            positive_seconds,
            60.0,
            meaning="How long a dead worker's items stay reserved before another worker may take "
            "them. A live worker keeps extending its lease, so items may take longer than this.",
            hint="Use a number of seconds, for example 60.",
        ),
    ]
    result_version: Annotated[
        str | None,
        setting(
            "result_version",
            text_of("Text"),
            "",
            meaning="Version of what the results depend on besides the item, such as the model. "
            "Items with a result of another version are computed again.",
            hint="Use a short string, for example resnet50-2.",
        ),
    ]
    failures_max: Annotated[
        int | None,
        setting(
            "failures_max",
            count_of("A whole number"),
            5,
            meaning="After this many failures, an item becomes a dead letter. Evictions do not "
            "count.",
            hint="Use a whole number of at least 1, for example 5.",
        ),
    ]
    retry_seconds: Annotated[
        float | None,
        setting(
            "retry_seconds",
            seconds_from_zero,
            1.0,
            meaning="Delay before a failed item is retried. Doubles with each failure, up to 5 "
            "minutes.",
            hint="Use a number of seconds, for example 1.",
        ),
    ]
    timeout_seconds: Annotated[
        float | None,
        setting(
            "timeout_seconds",
            positive_seconds,
            None,
            meaning="A function call that takes longer than this fails its item and ends the "
            "worker.",
            hint="Use a number of seconds well above what an item takes, for example 600.",
        ),
    ]
    patience_seconds: Annotated[
        float | None,
        setting(
            "patience_seconds",
            seconds_from_zero,
            300.0,
            meaning="How long a worker keeps retrying while its queue or sink is unavailable, "
            "including at startup.",
            hint="Use a number of seconds, for example 300.",
        ),
    ]
    stall_seconds: Annotated[
        float | None,
        setting(
            "stall_seconds",
            positive_seconds,
            1800.0,
            meaning="With Pub/Sub and a ledger: how long a worker waits for a message before it "
            "reports lost messages, while published items have no result and no worker stores any. "
            "Set it longer than your slowest item takes.",
            hint="Use a number of seconds, for example 1800.",
        ),
    ]
    grace_seconds: Annotated[float | None, GRACE]
    exit_code: Annotated[int | None, EXIT_CODE]


_SETTINGS = settings_of(WorkerOptions)

WORKER_SETTINGS: tuple[Setting[object], ...] = (
    QUEUE_URL,
    SINK_URL,
    *(one for one in _SETTINGS.values() if one not in GUARD_SETTINGS),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """The options of one worker, read and checked. The guard reads its own."""

    lease_seconds: float
    result_version: str
    failures_max: int
    retry_seconds: float
    timeout_seconds: float | None
    patience_seconds: float
    stall_seconds: float
    exit_code: int | None

    @classmethod
    def read(cls, given: WorkerOptions, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the options. Raises `SettingError`."""
        _refuse_old_variable(environ)
        own = [_SETTINGS[field.name] for field in fields(cls)]
        return cls(**read_settings(own, given, environ))


def _refuse_old_variable(environ: Mapping[str, str]) -> None:
    """Refuse the former name: ignoring it would mix the results of two models."""
    if environ.get("OUTLAST_VERSION"):
        raise SettingError(
            "OUTLAST_VERSION has been renamed to OUTLAST_RESULT_VERSION.",
            hint="Set OUTLAST_RESULT_VERSION instead, and unset OUTLAST_VERSION.",
            source="variable OUTLAST_VERSION",
        )
