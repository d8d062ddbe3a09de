"""The settings of a guard: their names, what they take and what they mean."""

import re
import signal
from collections.abc import Iterable
from datetime import UTC, datetime
from signal import Signals

from outlast._base.settings import Setting, positive_seconds, seconds_from_zero, whole_number_to


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
        raise ValueError(f"{given!r} is not the name or number of a named signal.") from None
    if number in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"{number.name} cannot be caught by any process.")
    if number in _OF_OUR_OWN_MAKING:
        raise ValueError(f"{number.name} tells what the program does itself, and is no notice.")
    return number


_OF_OUR_OWN_MAKING = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGCHLD)


def _parse_instant(given: object) -> datetime:
    """An aware instant from RFC 3339, Unix seconds (as SLURM gives them) or a datetime."""
    instant = given
    if isinstance(given, str):
        instant = _unix_or_iso(given)
    if not isinstance(instant, datetime):
        raise ValueError("A point in time is expected.")
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
        raise ValueError("This cannot be read as a point in time.") from None


def _parse_name(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", given):
        raise ValueError("A node name has small letters, digits, '-' and '.' only.")
    return given


def _parse_host(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", given):
        raise ValueError("A host is expected, with a port or without.")
    return given


GRACE = Setting(
    keyword="grace_seconds",
    variable="OUTLAST_GRACE_SECONDS",
    default=15.0,
    default_text="15",
    parse=positive_seconds,
    meaning="Time from a notice to the kill.",
    hint="Give the seconds that the platform really waits, for example 15.",
)
RESERVE = Setting(
    keyword="reserve_seconds",
    variable="OUTLAST_RESERVE_SECONDS",
    default=2.0,
    default_text="2",
    parse=seconds_from_zero,
    meaning="The end of the grace period, kept for leaving. Work has grace less reserve.",
    hint="Give a number of seconds smaller than the grace period, for example 2.",
)
SIGNALS: Setting[tuple[Signals, ...]] = Setting(
    keyword="signals",
    variable="OUTLAST_SIGNALS",
    default=(signal.SIGTERM, signal.SIGINT),
    default_text="SIGTERM,SIGINT",
    parse=_parse_signals,
    meaning="The signals that are a notice.",
    hint="Give names with commas between them, for example SIGTERM,SIGINT,SIGUSR1.",
)
EXIT_CODE: Setting[int | None] = Setting(
    keyword="exit_code",
    variable="OUTLAST_EXIT_CODE",
    default=None,
    default_text="75 in a Pod, 130 after Ctrl-C, else 0",
    parse=whole_number_to(255, "An exit code"),
    meaning="The code of a process that was interrupted.",
    hint="Give the code that the Job's podFailurePolicy ignores, for example 75.",
)
EXPIRES_AT: Setting[datetime | None] = Setting(
    keyword="expires_at",
    variable="OUTLAST_EXPIRES_AT",
    default=None,
    default_text="the node's annotation, where it can be read",
    parse=_parse_instant,
    meaning="When the machine will be taken away. Notice comes one grace period before.",
    hint="Give RFC 3339 such as 2026-11-15T18:30:00Z, or Unix seconds.",
)
MAX_RUN: Setting[float | None] = Setting(
    keyword="max_run_seconds",
    variable="OUTLAST_MAX_RUN_SECONDS",
    default=None,
    default_text="unknown",
    parse=positive_seconds,
    meaning="How long the machine lives from its boot, where no better clock is known.",
    hint="Give the node pool's maximum run duration in seconds, for example 604800.",
)
NODE_NAME: Setting[str | None] = Setting(
    keyword="node_name",
    variable="OUTLAST_NODE_NAME",
    default=None,
    default_text="unknown",
    parse=_parse_name,
    meaning="The node whose expiry annotation is read in a cluster.",
    hint="Let the manifest fill it from spec.nodeName.",
)
METADATA_HOST: Setting[str | None] = Setting(
    keyword="metadata_host",
    variable="GCE_METADATA_HOST",
    default=None,
    default_text="169.254.169.254 on Compute Engine, else none",
    parse=_parse_host,
    meaning="The metadata server that announces preemption and maintenance.",
    hint="Give a host such as metadata.google.internal, or leave it out.",
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
