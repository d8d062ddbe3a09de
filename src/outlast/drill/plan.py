"""What a drill is to do: every option, checked before anything starts. Plain values."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path

from outlast.drill.controller import BACKOFF_LIMIT, JobRules
from outlast.drill.schedule import EVICTIONS_MAX, Mix
from outlast.errors import SettingError
from outlast.interruption.settings import GRACE

EVICTIONS = 3
"""How many evictions, if neither a number, a rate nor a trace says so."""

_SHARES = ("no_notice", "hostile", "duplicates")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to drill a command. Durations are `timedelta`; None for `grace` means the setting's.

    Raises `SettingError` for what cannot work.
    """

    command: tuple[str, ...]
    evictions: int | None = None
    every: timedelta | None = None
    trace: Path | None = None
    seed: int = 0
    grace: timedelta | None = None
    no_notice: float = 0.3
    hostile: float = 0.5
    duplicates: float = 0.0
    workers: int = 1
    expect: tuple[str, ...] = ()
    key: str | None = None
    tolerance: float = 0.0
    finished_when: str | None = None
    baseline: bool = True
    recording: Path | None = None
    workdir: Path | None = None
    reset: str | None = None
    replace_after: timedelta = timedelta(seconds=0.1)
    job_backoff: bool = False
    backoff_limit: int = BACKOFF_LIMIT
    timeout: timedelta = timedelta(hours=1)
    keep: Path | None = None

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise SettingError(
                "There is no command to drill.",
                hint="Write it after two dashes: outlast drill -- python train.py",
                source="command line",
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _SHARES and not 0 <= value <= 1:
                raise _wrong(field.name, value, "A share from 0 to 1 is expected.")
            if isinstance(value, timedelta) and value.total_seconds() <= 0:
                if field.name != "replace_after" or value.total_seconds() < 0:
                    given = f"{value.total_seconds():g}s"
                    raise _wrong(field.name, given, "A duration above 0 is expected.")
        self._check_numbers()
        if self.every is not None and self.trace is not None:
            raise _wrong("every", str(self.every), "A trace sets the times already.")
        if not self.baseline and self.recording is not None:
            raise _wrong("recording", str(self.recording), "It is for a baseline.")
        if self.recording is not None and self.recording.is_file():
            raise _wrong("recording", str(self.recording), "A folder is expected.")

    def _check_numbers(self) -> None:
        if self.evictions is not None and not 1 <= self.evictions <= EVICTIONS_MAX:
            said = f"A whole number from 1 to {EVICTIONS_MAX} is expected."
            raise _wrong("evictions", self.evictions, said)
        if not 1 <= self.workers <= 64:
            raise _wrong("workers", self.workers, "A whole number from 1 to 64 is expected.")
        if self.backoff_limit < 0:
            raise _wrong("backoff_limit", self.backoff_limit, "A number from 0 is expected.")
        if not 0 <= self.tolerance < math.inf:
            raise _wrong("tolerance", self.tolerance, "A number from 0 is expected, such as 1e-6.")

    def grace_seconds(self, environ: Mapping[str, str] = os.environ) -> float:
        given = None if self.grace is None else self.grace.total_seconds()
        return GRACE.read(given, environ, given_as="option grace").value

    @property
    def mix(self) -> Mix:
        return Mix(no_notice=self.no_notice, hostile=self.hostile, duplicates=self.duplicates)

    @property
    def rules(self) -> JobRules:
        return JobRules(
            replacement_seconds=self.replace_after.total_seconds(),
            backoff=self.job_backoff,
            backoff_limit=self.backoff_limit,
        )


def _wrong(name: str, value: object, sentence: str) -> SettingError:
    option = f"--{name.replace('_', '-')}"
    return SettingError(
        f"The option {option} is {value!r}. {sentence}",
        hint="See `outlast drill --help`.",
        source=f"option {option}",
    )
