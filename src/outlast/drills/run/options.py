"""The options of a drill, checked before anything starts. Plain values."""

import math
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Self, TypedDict, Unpack

from outlast.drills.run.controller import BACKOFF_LIMIT, JobRules
from outlast.drills.run.launching import WorldSize
from outlast.drills.run.schedule import EVICTIONS_MAX, EvictionMix
from outlast.errors import SettingError
from outlast.interruption.exec_settings import GRACE
from outlast.worker.settings import QUEUE_URL, SINK_URL

EVICTIONS = 3
"""The number of evictions, unless a number, a rate or a trace is given."""

DROPPED = (QUEUE_URL.variable, SINK_URL.variable)
"""Variables that the command does not get by default: a drill must not consume a real queue."""

_SEEDS = 100_000
_SHARES = ("no_notice", "hostile", "overlap")
_WORKERS_MAX = 64
_NODES_MAX = 16
_RANKS_MAX = 64


class DrillKeywords(TypedDict, total=False):
    """The options of `outlast.drill`. `DrillOptions` has their defaults."""

    evictions: int | None
    every: timedelta | None
    trace: str | os.PathLike[str] | None
    seed: int | None
    grace: timedelta | None
    no_notice: float
    hostile: float
    overlap: float
    workers: int
    nodes: int | None
    ranks: int | None
    expect: Sequence[str]
    key: str | None
    tolerance: float
    finished_when: str | None
    skip_baseline: bool
    recording: str | os.PathLike[str] | None
    workdir: str | os.PathLike[str] | None
    reset: str | None
    replace_after: timedelta
    job_backoff: bool
    backoff_limit: int
    timeout: timedelta
    keep: str | os.PathLike[str] | None
    keep_env: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillOptions:
    """How to drill a command. If `grace` is None, the setting decides.

    With `nodes` or `ranks`, the command runs on several nodes as one program.

    Raises `SettingError` for options that cannot work.
    """

    command: tuple[str, ...]
    evictions: int | None = None
    every: timedelta | None = None
    trace: Path | None = None
    seed: int = 0
    grace: timedelta | None = None
    no_notice: float = 0.3
    hostile: float = 0.5
    overlap: float = 0.0
    workers: int = 1
    nodes: int | None = None
    ranks: int | None = None
    expect: tuple[str, ...] = ()
    key: str | None = None
    tolerance: float = 0.0
    finished_when: str | None = None
    skip_baseline: bool = False
    recording: Path | None = None
    workdir: Path | None = None
    reset: str | None = None
    replace_after: timedelta = timedelta(seconds=0.1)
    job_backoff: bool = False
    backoff_limit: int = BACKOFF_LIMIT
    timeout: timedelta = timedelta(hours=1)
    keep: Path | None = None
    keep_env: tuple[str, ...] = ()

    @classmethod
    def of(cls, command: Sequence[str], **keywords: Unpack[DrillKeywords]) -> Self:
        """The options for a command, with a random seed if none is given."""
        given: dict[str, object] = {**keywords}
        for name in ("trace", "recording", "workdir", "keep"):
            if (path := given.get(name)) is not None:
                assert isinstance(path, str | os.PathLike)
                given[name] = Path(path)
        for name in ("expect", "keep_env"):
            if name in given:
                given[name] = tuple(keywords[name])  # type: ignore[literal-required]  # see above
        if given.get("seed") is None:
            given["seed"] = random.SystemRandom().randrange(_SEEDS)
        return cls(command=tuple(command), **given)  # type: ignore[arg-type]  # converted above

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise SettingError(
                "No command was given.",
                hint="Add it after two dashes: outlast drill -- python train.py",
                source="command line",
            )
        self._check_shares_and_durations()
        self._check_numbers()
        self._check_world()
        for name in self.keep_env:
            if name not in DROPPED:
                raise _wrong("keep_env", name, f"Expected {' or '.join(DROPPED)}.")
        if self.every is not None and self.trace is not None:
            raise _wrong("every", str(self.every), "It cannot be combined with --trace.")
        if self.skip_baseline and self.recording is not None:
            said = "It cannot be combined with --skip-baseline."
            raise _wrong("recording", str(self.recording), said)
        if self.recording is not None and self.recording.is_file():
            raise _wrong("recording", str(self.recording), "Expected a folder.")

    def _check_shares_and_durations(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _SHARES and not 0 <= value <= 1:
                raise _wrong(field.name, value, "Expected a share from 0 to 1.")
            if isinstance(value, timedelta) and value.total_seconds() <= 0:
                if field.name != "replace_after" or value.total_seconds() < 0:
                    given = f"{value.total_seconds():g}s"
                    raise _wrong(field.name, given, "Expected a duration above 0.")

    def _check_numbers(self) -> None:
        if self.evictions is not None and not 1 <= self.evictions <= EVICTIONS_MAX:
            raise _wrong(
                "evictions", self.evictions, f"Expected a number from 1 to {EVICTIONS_MAX}."
            )
        if not 1 <= self.workers <= _WORKERS_MAX:
            raise _wrong("workers", self.workers, f"Expected a number from 1 to {_WORKERS_MAX}.")
        if self.backoff_limit < 0:
            raise _wrong("backoff_limit", self.backoff_limit, "Expected a number from 0.")
        if not 0 <= self.tolerance < math.inf:
            raise _wrong("tolerance", self.tolerance, "Expected a number from 0, such as 1e-6.")

    def _check_world(self) -> None:
        for name, most in (("nodes", _NODES_MAX), ("ranks", _RANKS_MAX)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise _wrong(name, value, f"Expected a number from 1 to {most}.")
        given = "--nodes" if self.nodes is not None else "--ranks"
        if self.world is not None and self.workers > 1:
            said = f"It cannot be combined with {given}: workers are independent of each other."
            raise _wrong("workers", self.workers, said)
        if self.world is not None and self.overlap > 0:
            said = f"It cannot be combined with {given}: all nodes end before they restart."
            raise _wrong("overlap", self.overlap, said)

    @property
    def world(self) -> WorldSize | None:
        """The nodes and ranks that run the command as one program; None for independent nodes."""
        if self.nodes is None and self.ranks is None:
            return None
        return WorldSize(nodes=self.nodes or 1, ranks=self.ranks or 1)

    @property
    def recorded_command(self) -> tuple[str, ...]:
        """The command by which a recorded baseline is recognized."""
        world = self.world
        size = () if world is None else (f"{world.nodes} nodes", f"{world.ranks} ranks")
        return (*self.command, *size)

    def grace_seconds(self, environ: Mapping[str, str] = os.environ) -> float:
        given = None if self.grace is None else self.grace.total_seconds()
        return GRACE.read(given, environ, given_as="option grace").value

    def dropped_variables(self, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
        """The variables that are set here but not passed to the command."""
        return tuple(one for one in DROPPED if environ.get(one) and one not in self.keep_env)

    @property
    def mix(self) -> EvictionMix:
        return EvictionMix(no_notice=self.no_notice, hostile=self.hostile, overlap=self.overlap)

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
