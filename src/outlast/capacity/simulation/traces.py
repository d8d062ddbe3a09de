"""Read traces of Spot pools, and repair their timestamps where that is safe.

Three public formats are supported: availability in steps (`{"metadata": {"gap_seconds": N},
"data": [0, 1]}`, or the number of available machines in each step), nodes added and removed
(`milliseconds,add|remove,node`), and the size of a pool over time (`date, time, count`). All are
converted to the lives of machines. Line formats may have a header. Timestamps in real files
sometimes go backwards: a few are repaired and reported, a file with many is refused. Pure except
for reading the file.
"""

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from outlast.capacity.errors import InputFileError

if TYPE_CHECKING:
    from outlast.capacity.simulation.lifetimes import EmpiricalLifetimes

SECONDS_MAX = 10 * 366 * 86_400.0
BACKWARDS_SHARE_MAX = 0.1
"""A file with a larger share of backward timestamps is refused instead of repaired."""

LIVES_MAX = 1_000_000
"""A trace with more machines is refused: a few lines of counts could imply any number."""

_FILE_BYTES_MAX = 64 * 1024**2
# Steps that are set more rarely than this, and one at a time, look like events.
_RARE_SHARE = 0.1
_LIVES_JUDGED = 3
_NODE_LINE = re.compile(r"(\d{1,15}) *, *(add|remove) *, *([\w.:-]{1,200})", re.ASCII)
_COUNT_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?: *, *|[T ])(\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?)"
    r" *, *(\d{1,5})(?:\.0+)?",
    re.ASCII,
)
_HEADER = re.compile(r"[^\d,]+(?:,[^\d,]+)+")


T = TypeVar("T")


class TraceError(InputFileError):
    """A trace cannot be used."""


class TracePolarity(StrEnum):
    """The meaning of 1 in a trace of steps."""

    AVAILABLE = "available"
    PREEMPTED = "preempted"


class TimestampRepair(StrEnum):
    """What to do about a timestamp that is earlier than the one before it."""

    KEEP_ORDER = "keep-order"
    """Trust the order of the lines: a clock that was set back stops until it catches up."""
    SORT = "sort"
    """Trust the timestamps, and sort the lines."""
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinePeriod:
    """The life of a machine, or the time of a run on it, in seconds from the start of the trace.

    `lost` is false if the trace ended first.
    """

    start_seconds: float
    end_seconds: float
    lost: bool

    @property
    def seconds(self) -> float:
        return self.end_seconds - self.start_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """The lives of all machines of a pool, sorted by start. `repairs` lists what was changed."""

    name: str
    seconds: float
    lives: tuple[MachinePeriod, ...]
    repairs: tuple[str, ...] = ()

    @property
    def losses(self) -> int:
        return sum(life.lost for life in self.lives)

    @property
    def machine_seconds(self) -> float:
        return math.fsum(life.seconds for life in self.lives)

    @property
    def mean_seconds(self) -> float:
        """The mean time between losses of one machine; infinite if none was lost."""
        return self.machine_seconds / self.losses if self.losses else math.inf


def read_trace(
    path: Path,
    *,
    polarity: TracePolarity = TracePolarity.AVAILABLE,
    repair: TimestampRepair = TimestampRepair.KEEP_ORDER,
    seed: int = 0,
) -> Trace:
    """Read a trace in any of the three formats. Raises `TraceError`.

    Counts do not show which machines a shrinking pool loses, so these are drawn with `seed`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TraceError(
            f"Could not read the trace {str(path)!r}: {error.strerror}.",
            hint="Pass the path of a trace file.",
            file=str(path),
        ) from error
    if len(content) > _FILE_BYTES_MAX:
        raise TraceError(f"The trace {str(path)!r} is larger than 64 MiB.", file=str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TraceError(f"The trace {str(path)!r} is not UTF-8 text.", file=str(path)) from None
    return parse_trace(text, name=path.name, polarity=polarity, repair=repair, seed=seed)


def parse_trace(
    text: str,
    *,
    name: str,
    polarity: TracePolarity = TracePolarity.AVAILABLE,
    repair: TimestampRepair = TimestampRepair.KEEP_ORDER,
    seed: int = 0,
) -> Trace:
    """Parse the text of a trace. `name` identifies it in errors."""
    if not text.strip():
        raise TraceError(f"The trace {name!r} is empty.", file=name)
    if text.lstrip()[0] in "{[":
        trace = _from_steps(text, name, polarity, seed)
    else:
        trace = _from_lines(text, name, repair, seed)
    if not trace.lives:
        raise TraceError(f"The trace {name!r} has no available machines.", file=name)
    return trace


def _from_lines(text: str, name: str, repair: TimestampRepair, seed: int) -> Trace:
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > 1 and _HEADER.fullmatch(lines[0][1]):
        del lines[0]
    if _NODE_LINE.fullmatch(lines[0][1]):
        return _from_nodes(lines, name, repair)
    if _COUNT_LINE.fullmatch(lines[0][1]):
        return _from_counts(lines, name, repair, seed)
    raise _unreadable(name, *lines[0])


def lifetimes_in(trace: Trace) -> "EmpiricalLifetimes":
    """The observed lifetimes. Raises `TraceError` if the trace has no losses."""
    if not trace.losses:
        raise TraceError(
            f"The trace {trace.name!r} has no losses, so lifetimes cannot be derived from it.",
            file=trace.name,
        )
    # Imported here because it loads NumPy, which reading a trace does not need.
    from outlast.capacity.simulation.lifetimes import EmpiricalLifetimes

    return EmpiricalLifetimes(
        seconds=[life.seconds for life in trace.lives], ended=[life.lost for life in trace.lives]
    )


def _from_steps(text: str, name: str, polarity: TracePolarity, seed: int) -> Trace:
    try:
        tree = json.loads(text)
        gap, data = tree["metadata"]["gap_seconds"], tree["data"]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise TraceError(
            f'Expected JSON such as {{"metadata": {{"gap_seconds": 60}}, "data": [0, 1]}} in the '
            f"trace {name!r}.",
            hint="Traces of nodes and of counts are plain lines, not JSON.",
            file=name,
        ) from None
    if isinstance(gap, bool) or not isinstance(gap, int | float) or not 0 < gap <= 86_400:
        raise TraceError(
            f"gap_seconds in {name!r}: expected a number above 0 and at most 86,400, got {gap!r}.",
            file=name,
        )
    if not isinstance(data, list) or not data:
        raise TraceError(f"The trace {name!r} has no steps.", file=name)
    if not all(type(step) is int and 0 <= step <= LIVES_MAX for step in data):
        raise TraceError(
            f"The trace {name!r} has steps that are not whole numbers of at least 0.",
            hint="Expected 0 or 1, or the number of available machines.",
            file=name,
        )
    if max(data) > 1:
        if polarity is not TracePolarity.AVAILABLE:
            raise TraceError(
                f"The trace {name!r} contains numbers of machines, up to {max(data)}, which can "
                "only mean available ones.",
                hint="Omit --polarity.",
                file=name,
            )
        lives = _lives_of_counts([(n * gap, count) for n, count in enumerate(data)], name, seed)
        end = float(len(data) * gap)
        alive = [replace(life, end_seconds=end) for life in lives if not life.lost]
        return _trace(name, end, [*(life for life in lives if life.lost), *alive], ())
    up = [(step == 1) == (polarity is TracePolarity.AVAILABLE) for step in data]
    edges = [0, *(n for n in range(1, len(up)) if up[n] != up[n - 1]), len(up)]
    lives = [
        MachinePeriod(start_seconds=start * gap, end_seconds=end * gap, lost=end < len(up))
        for start, end in pairwise(edges)
        if up[start]
    ]
    concerns = _about_polarity(up, lives, name, polarity)
    return Trace(name=name, seconds=float(len(up) * gap), lives=tuple(lives), repairs=concerns)


def _about_polarity(
    up: Sequence[bool], lives: Sequence[MachinePeriod], name: str, polarity: TracePolarity
) -> tuple[str, ...]:
    """A note if the steps look as if 1 meant the opposite: rare, and only for one step each."""
    if len(lives) < _LIVES_JUDGED or sum(up) > _RARE_SHARE * len(up) or sum(up) > 1.1 * len(lives):
        return ()
    other = next(one for one in TracePolarity if one is not polarity)
    return (
        f"In {name!r}, machines are available in only {sum(up) / len(up):.1%} of the steps, nearly "
        f"always for a single step. If 1 means {other} in this file, use --polarity {other}.",
    )


def _from_nodes(lines: Sequence[tuple[int, str]], name: str, repair: TimestampRepair) -> Trace:
    events = []
    for number, line in lines:
        match = _NODE_LINE.fullmatch(line)
        if match is None:
            raise _unreadable(name, number, line)
        events.append((int(match[1]) / 1000, (number, match[2], match[3])))
    events, repairs = _in_order(events, name, repair)
    end = events[-1][0]
    born: dict[str, float] = {}
    lives = []
    for time, (number, action, node) in events:
        if (action == "add") == (node in born):
            problem = "was already added" if action == "add" else "was never added"
            raise TraceError(f"{name}:{number}: {node!r} {problem}.", file=name, line=number)
        if action == "add":
            born[node] = time
        else:
            lives.append(MachinePeriod(start_seconds=born.pop(node), end_seconds=time, lost=True))
    lives += [
        MachinePeriod(start_seconds=start, end_seconds=end, lost=False) for start in born.values()
    ]
    _check_number(len(lives), name)
    return _trace(name, end, lives, repairs)


def _from_counts(
    lines: Sequence[tuple[int, str]], name: str, repair: TimestampRepair, seed: int
) -> Trace:
    samples = []
    for number, line in lines:
        match = _COUNT_LINE.fullmatch(line)
        if match is None:
            raise _unreadable(name, number, line)
        try:
            when = datetime.fromisoformat(f"{match[1]}T{match[2]}")
        except ValueError:
            raise TraceError(
                f"{name}:{number}: Invalid time {match[1]} {match[2]}.",
                file=name,
                line=number,
            ) from None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        samples.append((when.timestamp(), int(match[3])))
    samples, repairs = _in_order(samples, name, repair)
    first, end = samples[0][0], samples[-1][0] - samples[0][0]
    lives = _lives_of_counts([(time - first, count) for time, count in samples], name, seed)
    return _trace(name, end, lives, repairs)


def _lives_of_counts(
    samples: Sequence[tuple[float, int]], name: str, seed: int
) -> list[MachinePeriod]:
    """The lives behind the size of a pool. Those that were not lost end with the last sample."""
    chance = random.Random(seed)
    born: list[float] = []
    lives = []
    for time, count in samples:
        while len(born) > count:
            # A count does not show which machine was lost, so each is equally likely.
            start = born.pop(chance.randrange(len(born)))
            lives.append(MachinePeriod(start_seconds=start, end_seconds=time, lost=True))
        _check_number(len(lives) + max(count, len(born)), name)
        born += [time] * (count - len(born))
    end = samples[-1][0]
    return lives + [MachinePeriod(start_seconds=s, end_seconds=end, lost=False) for s in born]


def _in_order(
    events: list[tuple[float, T]], name: str, repair: TimestampRepair
) -> tuple[list[tuple[float, T]], tuple[str, ...]]:
    """The events in order of time, and a description of any repair."""
    backwards = sum(after[0] < before[0] for before, after in pairwise(events))
    if not backwards:
        return events, ()
    found = f"{backwards} of {len(events)} timestamps in {name!r} are earlier than the previous one"
    are_many = backwards > BACKWARDS_SHARE_MAX * len(events)
    if are_many or repair is TimestampRepair.REFUSE:
        hint = "Sort the lines by time" + ("." if are_many else ", or use --repair.")
        raise TraceError(f"{found}.", hint=hint, file=name)
    if repair is TimestampRepair.SORT:
        return sorted(events, key=lambda event: event[0]), (f"{found}; sorted the lines.",)
    kept, latest = [], -math.inf
    for time, what in events:
        latest = max(latest, time)
        kept.append((latest, what))
    return kept, (f"{found}; kept the order of the lines.",)


def _trace(
    name: str, seconds: float, lives: list[MachinePeriod], repairs: tuple[str, ...]
) -> Trace:
    if not 0 < seconds <= SECONDS_MAX:
        raise TraceError(
            f"Expected a trace longer than 0 s and at most ten years, but {name!r} lasts "
            f"{seconds:g} s.",
            file=name,
        )
    ordered = sorted((life for life in lives if life.seconds > 0), key=_by_start)
    return Trace(name=name, seconds=seconds, lives=tuple(ordered), repairs=repairs)


def _check_number(lives: int, name: str) -> None:
    if lives > LIVES_MAX:
        raise TraceError(
            f"The trace {name!r} has more than {LIVES_MAX:,} machines.",
            hint="Split it into several files.",
            file=name,
        )


def _by_start(life: MachinePeriod) -> tuple[float, float]:
    return life.start_seconds, life.end_seconds


def _unreadable(name: str, number: int, line: str) -> TraceError:
    return TraceError(
        f"{name}:{number}: Invalid line {line[:60]!r}.",
        hint="Expected `milliseconds,add|remove,node` or `2021-12-11, 11:11:30, 55`.",
        file=name,
        line=number,
    )
