"""The settings of one guard, read together and checked against each other."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from signal import Signals
from typing import Self

from outlast.errors import SettingError
from outlast.interruption.machine import google_metadata_host
from outlast.interruption.settings import (
    EXIT_CODE,
    EXPIRES_AT,
    GRACE,
    MAX_RUN,
    METADATA_HOST,
    NODE_NAME,
    RESERVE,
    SIGNALS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardSettings:
    """The settings of one guard, checked."""

    grace_seconds: float
    reserve_seconds: float
    signals: tuple[Signals, ...]
    exit_code: int | None
    expires_at: datetime | None
    max_run_seconds: float | None
    node_name: str | None
    metadata_host: str | None

    @classmethod
    def read(cls, given: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Self:
        grace = GRACE.read(given.get("grace_seconds"), environ)
        reserve = RESERVE.read(given.get("reserve_seconds"), environ)
        if grace.value < reserve.value:
            raise SettingError(
                f"The grace period of {grace.value:g} s ({grace.source}) is shorter than the "
                f"reserve of {reserve.value:g} s ({reserve.source}) that is kept for leaving.",
                hint=f"Raise {GRACE.variable} or lower {RESERVE.variable}.",
                source=grace.source,
            )
        return cls(
            grace_seconds=grace.value,
            reserve_seconds=reserve.value,
            signals=SIGNALS.read(given.get("signals"), environ).value,
            exit_code=EXIT_CODE.read(given.get("exit_code"), environ).value,
            expires_at=EXPIRES_AT.read(given.get("expires_at"), environ).value,
            max_run_seconds=MAX_RUN.read(given.get("max_run_seconds"), environ).value,
            node_name=NODE_NAME.read(given.get("node_name"), environ).value,
            metadata_host=METADATA_HOST.read(given.get("metadata_host"), environ).value
            or google_metadata_host(),
        )
