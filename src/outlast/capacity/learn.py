"""Turn what runs have shown into figures for the workload file, and those into a diff of it.

Pure: plain numbers and a text in, a text out. What was not seen is not claimed: without an
interruption there is no time between them, and the file keeps what it says.
"""

import difflib
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from outlast._base.interval import (
    Interval,
    IntervalPolicy,
    Observed,
    SaveCost,
    choose_interval,
    typical_cost,
)
from outlast.capacity.policies import CEILING_SAVES
from outlast.capacity.quantities import format_exact_duration
from outlast.capacity.reading import Node, read_yaml

_SCALAR = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s,}\]#]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the journals of one or more runs tell. Lists hold one entry for each time it was seen.

    `graces_seconds` are what was really given, from the notice to the end.
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
    nodes: int = 1

    @property
    def interruptions(self) -> int:
        return self.announced + self.missed + self.unannounced


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """Measured figures; None where nothing was seen. `interval` is what they suggest."""

    save: timedelta | None
    stall: timedelta | None
    restart: timedelta | None
    between_interruptions: timedelta | None
    unannounced: float | None
    grace: timedelta | None
    waiting: timedelta | None
    size_bytes: int | None
    interval: Interval

    @property
    def measured(self) -> dict[str, str]:
        """As the part `measured` of a workload file holds it."""
        found = {
            "save": self.save,
            "stall": self.stall,
            "restart": self.restart,
            "between_interruptions": self.between_interruptions,
            "unannounced": self.unannounced,
            "grace": self.grace,
            "waiting": self.waiting,
        }
        return {name: _text(value) for name, value in found.items() if value is not None}


def learn(seen: Seen) -> Learned:
    """The figures, and the interval that the runtime would choose knowing them."""
    cost = typical_cost(list(seen.costs), last=max(1, len(seen.costs)))
    count = seen.interruptions
    mean_seconds = seen.running_seconds * seen.nodes / count if count else None
    observed = Observed(
        running_seconds=seen.running_seconds,
        announced=seen.announced,
        missed=seen.missed,
        unannounced=seen.unannounced,
    )
    return Learned(
        save=_duration(cost.durable_seconds if cost else None),
        stall=_duration(cost.loop_seconds if cost else None),
        restart=_duration(_median(seen.restarts_seconds)),
        between_interruptions=_duration(mean_seconds),
        unannounced=round(seen.unannounced / count, 3) if count else None,
        grace=_duration(min(seen.graces_seconds, default=None)),
        waiting=_duration(_mean(seen.waits_seconds)),
        size_bytes=seen.size_bytes,
        interval=choose_interval(_policy(cost), cost=cost, observed=observed),
    )


def changed_text(text: str, learned: Learned, *, name: str) -> str:
    """The text of a workload file with the measured figures in it, its comments kept."""
    tree = read_yaml(text, source=name)
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    entries = tree.value if isinstance(tree.value, dict) else {}
    kept = _kept_measured(entries["measured"].node) if "measured" in entries else {}
    block = ["measured:\n"] + [
        f"  {key}: {value}\n" for key, value in {**kept, **learned.measured}.items()
    ]
    if learned.size_bytes is not None:
        _set_size(tree, lines, learned.size_bytes)
    if len(block) == 1:
        return "".join(lines)
    if "measured" not in entries:
        return "".join([*lines, *block])
    first = (entries["measured"].mark.line or 1) - 1
    last = first + 1
    while last < len(lines) and (lines[last][:1] in " \t" or not lines[last].strip()):
        last += 1
    while not lines[last - 1].strip():
        last -= 1
    return "".join([*lines[:first], *block, *lines[last:]])


def workload_diff(text: str, learned: Learned, *, name: str) -> str:
    """What would change in a workload file, as a unified diff; empty if nothing would."""
    changed = changed_text(text, learned, name=name)
    return "".join(
        difflib.unified_diff(
            text.splitlines(keepends=True),
            changed.splitlines(keepends=True),
            fromfile=name,
            tofile=f"{name}, as measured",
        )
    )


def _kept_measured(node: Node) -> dict[str, str]:
    if not isinstance(node.value, dict):
        return {}
    return {key: str(entry.node.value) for key, entry in node.value.items()}


def _set_size(tree: Node, lines: list[str], size_bytes: int) -> None:
    """Replace the size of the checkpoint where it stands; a file without one gets none."""
    checkpoint = tree.value.get("checkpoint") if isinstance(tree.value, dict) else None
    if checkpoint is None or not isinstance(checkpoint.node.value, dict):
        return
    entry = checkpoint.node.value.get("size")
    if entry is None or entry.node.mark.line is None or entry.node.mark.column is None:
        return
    row, column = entry.node.mark.line - 1, entry.node.mark.column - 1
    match = _SCALAR.match(lines[row], column)
    if match is not None:
        size = f"{math.ceil(size_bytes / 2**20)}MiB"
        lines[row] = lines[row][: match.start()] + size + lines[row][match.end() :]


def _policy(cost: SaveCost | None) -> IntervalPolicy:
    default = IntervalPolicy()
    if cost is None:
        return default
    ceiling = max(default.ceiling_seconds, CEILING_SAVES * cost.loop_seconds)
    return IntervalPolicy(ceiling_seconds=ceiling)


def _duration(seconds: float | None) -> timedelta | None:
    """To the millisecond, and never zero: a workload file takes no duration of 0."""
    if seconds is None or not math.isfinite(seconds):
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
