"""The settings of a guard. Standard library only, and quick to import."""

import os
import re
import signal
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from signal import Signals
from typing import NamedTuple, Self

from outlast._base.settings import (
    Setting,
    flag,
    positive_seconds,
    read_settings,
    setting,
)
from outlast.errors import SettingError
from outlast.interruption.exec_settings import (
    EXIT_CODE,
    GRACE,
    NOTES,
    NOTICE_SIGNALS,
    RESERVE,
    SIGNALS_VARIABLE,
)
from outlast.interruption.machine import google_metadata_host


class GuardSettings(NamedTuple):
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
        values = cls(**read_settings(GUARD_SETTINGS, given, environ))
        if values.grace_seconds < values.reserve_seconds:
            grace = GRACE.read(given.get(GRACE.keyword), environ)
            reserve = RESERVE.read(given.get(RESERVE.keyword), environ)
            raise SettingError(
                f"The grace period of {grace.value:g} s ({grace.source}) is shorter than the "
                f"{reserve.value:g} s ({reserve.source}) reserved for exiting.",
                hint=f"Raise {GRACE.variable} or lower {RESERVE.variable}.",
                source=grace.source,
            )
        return values._replace(metadata_host=values.metadata_host or google_metadata_host())


def _parse_signals(given: object) -> tuple[Signals, ...]:
    if isinstance(given, str):
        given = [name for name in given.replace(",", " ").split() if name]
    if not isinstance(given, Iterable):
        given = [given]
    return tuple(dict.fromkeys(_parse_signal(one) for one in given))


def _parse_signal(given: object) -> Signals:
    try:
        if isinstance(given, str) and not given.isdigit():
            name = given.upper()
            number = Signals[name if name.startswith("SIG") else f"SIG{name}"]
        elif isinstance(given, int | str):
            number = Signals(int(given))
        else:
            raise KeyError
    except (KeyError, ValueError):
        raise ValueError(f"{given!r} is not the name or number of a signal.") from None
    if number in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"No process can catch {number.name}.")
    if number in _CAUSED_BY_PROGRAM:
        raise ValueError(f"{number.name} is caused by the program itself and cannot be a notice.")
    return number


_CAUSED_BY_PROGRAM = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGCHLD)


def _parse_instant(given: object) -> datetime:
    """An aware time from RFC 3339, Unix seconds (as SLURM gives them) or a datetime."""
    instant = given
    if isinstance(given, str):
        instant = _unix_or_iso(given)
    if not isinstance(instant, datetime):
        raise ValueError("Expected a date and time.")
    if instant.tzinfo is None:
        raise ValueError("The time has no time zone.")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("The time is out of range.") from None


def _unix_or_iso(text: str) -> datetime:
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text), tz=UTC)
        return datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError("Expected a date and time.") from None


def _parse_name(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", given):
        raise ValueError("A node name may contain only lowercase letters, digits, '-' and '.'.")
    return given


def _parse_host(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", given):
        raise ValueError("Expected a host, with or without a port.")
    return given


SIGNALS: Setting[tuple[Signals, ...]] = setting(
    "signals",
    _parse_signals,
    tuple(Signals[name] for name in NOTICE_SIGNALS),
    variable=SIGNALS_VARIABLE,
    default_text=",".join(NOTICE_SIGNALS),
    meaning="Signals that count as a notice.",
    hint="Separate names by commas, for example SIGTERM,SIGINT,SIGUSR1.",
)
EXPIRES_AT: Setting[datetime | None] = setting(
    "expires_at",
    _parse_instant,
    None,
    default_text="the node's annotation, if it can be read",
    meaning="When the machine will be taken away. The notice comes one grace period before.",
    hint="Use RFC 3339, such as 2026-11-15T18:30:00Z, or Unix seconds.",
)
MAX_RUN: Setting[float | None] = setting(
    "max_run_seconds",
    positive_seconds,
    None,
    default_text="unknown",
    meaning="Maximum lifetime of the machine, counted from its boot. Used if the exact time is "
    "unknown.",
    hint="Set it to the maximum run duration of the node pool in seconds, for example 604800.",
)
NODE_NAME: Setting[str | None] = setting(
    "node_name",
    _parse_name,
    None,
    default_text="unknown",
    meaning="Name of this Pod's node, whose expiry annotation is read.",
    hint="Fill it from spec.nodeName in the manifest.",
)
METADATA_HOST: Setting[str | None] = setting(
    "metadata_host",
    _parse_host,
    None,
    variable="GCE_METADATA_HOST",
    default_text="169.254.169.254 on Compute Engine, else none",
    meaning="The metadata server that announces preemption and maintenance.",
    hint="Use a host such as metadata.google.internal, or leave it unset.",
)

GUARD_SETTINGS: tuple[Setting[object], ...] = (
    GRACE,
    RESERVE,
    SIGNALS,
    EXIT_CODE,
    EXPIRES_AT,
    MAX_RUN,
    NODE_NAME,
    METADATA_HOST,
)

STAY_UNTIL_SHUTDOWN: Setting[bool] = setting(
    "",
    flag,
    False,
    variable="OUTLAST_STAY_UNTIL_SHUTDOWN",
    meaning="After saving at the end of the node's lease, wait for the shutdown signal before "
    "exiting, so that a Job does not start its next Pod on the same node.",
    hint="Set it to 1 in a Job on flex-start nodes, otherwise leave it unset.",
)

LEASE_SETTINGS: tuple[Setting[object], ...] = (STAY_UNTIL_SHUTDOWN,)

EXEC_SETTINGS: tuple[Setting[object], ...] = (NOTES,)
