"""Turn measurements of runs into values for the workload file, and those into a diff.

Pure: plain numbers and text in, text out. Only what was observed is reported: without an
interruption there is no time between interruptions, and the file keeps its value.
"""

import difflib
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from outlast._base.durations import format_duration
from outlast._base.interval import (
    Interval,
    IntervalPolicy,
    Observed,
    SaveCost,
    choose_interval,
    typical_cost,
)
from outlast.capacity.simulation.age_shape import measure_age_shape
from outlast.capacity.simulation.policies import CEILING_SAVES
from outlast.capacity.workload.quantities import format_exact_duration
from outlast.capacity.workload.tree import read_yaml
from outlast.yamltext.editing import with_values
from outlast.yamltext.scalars import resolve

ENOUGH_SECONDS = 6 * 3600.0
ENOUGH_INTERRUPTIONS = 5
"""With fewer, the mean time between interruptions can easily be wrong by a factor of two."""

_DURATION_SECONDS_MAX = 3650 * 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class RunMeasurements:
    """Measurements from the journals of one or more runs. Lists have one entry per observation.

    `graces_seconds` are the actual grace periods, from the notice to the end.
    """

    running_seconds: float
    announced: int
    missed: int
    unannounced: int
    costs: Sequence[SaveCost] = ()
    size_bytes: int | None = None
    restarts_seconds: Sequence[float] = ()
    waits_seconds: Sequence[float] = ()
    graces_seconds: Sequence[float] = ()
    lives: Sequence[tuple[float, bool]] = ()
    """How long each attempt ran, and whether an interruption ended it."""
    nodes: int = 1

    @property
    def interruptions(self) -> int:
        return self.announced + self.missed + self.unannounced

    @property
    def doubt(self) -> str | None:
        """Why the values may not hold for the next run; None if there is enough evidence."""
        if self.running_seconds >= ENOUGH_SECONDS and self.interruptions >= ENOUGH_INTERRUPTIONS:
            return None
        many = "interruption" if self.interruptions == 1 else "interruptions"
        return (
            f"These values are based on {format_duration(self.running_seconds)} of running time "
            f"and {self.interruptions} {many}. Before you rely on the time between interruptions, "
            f"learn from at least {format_duration(ENOUGH_SECONDS)} and {ENOUGH_INTERRUPTIONS} "
            "interruptions; several runs can be combined."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedValues:
    """Measured values; None where nothing was observed. `interval` is the suggested interval."""

    save: timedelta | None
    stall: timedelta | None
    restart: timedelta | None
    between_interruptions: timedelta | None
    unannounced: float | None
    grace: timedelta | None
    waiting: timedelta | None
    age_shape: float | None
    size_bytes: int | None
    interval: Interval

    @property
    def measured(self) -> dict[str, str]:
        """As in the section `measured` of a workload file."""
        found = {
            "save": self.save,
            "stall": self.stall,
            "restart": self.restart,
            "between_interruptions": self.between_interruptions,
            "unannounced": self.unannounced,
            "age_shape": self.age_shape,
            "grace": self.grace,
            "waiting": self.waiting,
        }
        return {name: _text(value) for name, value in found.items() if value is not None}

    @property
    def size(self) -> str | None:
        """As in the section `checkpoint` of a workload file."""
        if self.size_bytes is None:
            return None
        return f"{max(1, math.ceil(self.size_bytes / 2**20))}MiB"


def learn(seen: RunMeasurements) -> LearnedValues:
    """The measured values, and the interval that the runtime would choose based on them."""
    cost = typical_cost(list(seen.costs), last=max(1, len(seen.costs)))
    count = seen.interruptions
    mean_seconds = seen.running_seconds * seen.nodes / count if count else None
    observed = Observed(
        running_seconds=seen.running_seconds,
        announced=seen.announced,
        missed=seen.missed,
        unannounced=seen.unannounced,
    )
    return LearnedValues(
        save=_duration(cost.durable_seconds if cost else None),
        stall=_duration(cost.loop_seconds if cost else None),
        restart=_duration(_median(seen.restarts_seconds)),
        between_interruptions=_duration(mean_seconds),
        unannounced=round(seen.unannounced / count, 3) if count else None,
        grace=_duration(min(seen.graces_seconds, default=None)),
        age_shape=measure_age_shape(seen.lives) if seen.nodes == 1 else None,
        waiting=_duration(_mean(seen.waits_seconds)),
        size_bytes=seen.size_bytes,
        interval=choose_interval(_policy(cost), cost=cost, observed=observed),
    )


def changed_text(text: str, learned: LearnedValues, *, name: str) -> str | None:
    """The text of a workload file updated with the measured values; comments are kept.

    None if the file uses YAML that has to be edited by hand.
    """
    changes = {"measured": learned.measured} if learned.measured else {}
    checkpoint, _ = read_yaml(text, source=name).find(("checkpoint",))
    if learned.size is not None and checkpoint is not None:
        changes["checkpoint"] = {"size": learned.size}
    resolved = {
        part: {key: resolve(value) for key, value in values.items()}
        for part, values in changes.items()
    }
    return with_values(text, resolved)


def workload_diff(text: str, changed: str, *, name: str) -> str:
    """The changes to a workload file as a unified diff for `patch`; empty if there are none."""
    diff = difflib.unified_diff(
        # Split lines only where `patch` does.
        list(io.StringIO(text, newline="\n")),
        list(io.StringIO(changed, newline="\n")),
        fromfile=name,
        tofile=name,
        # The tab before the date marks the end of a name with spaces.
        fromfiledate="current",
        tofiledate="measured",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    )


def _policy(cost: SaveCost | None) -> IntervalPolicy:
    default = IntervalPolicy()
    if cost is None:
        return default
    ceiling = max(default.ceiling_seconds, CEILING_SAVES * cost.loop_seconds)
    return IntervalPolicy(ceiling_seconds=ceiling)


def _duration(seconds: float | None) -> timedelta | None:
    """Rounded to the millisecond, within the range of a workload file: above 0, up to ten years."""
    if seconds is None or not seconds <= _DURATION_SECONDS_MAX:
        return None
    digits = 0 if seconds >= 100 else 1 if seconds >= 1 else 3
    return max(timedelta(milliseconds=1), timedelta(seconds=round(seconds, digits)))


def _text(value: timedelta | float) -> str:
    if isinstance(value, timedelta):
        milliseconds = round(value / timedelta(milliseconds=1))
        return format_exact_duration(timedelta(milliseconds=milliseconds))
    return f"{value:g}"


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
