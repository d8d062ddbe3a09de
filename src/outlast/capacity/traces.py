"""Traces of real pools of machines that were taken away: read, checked, repaired where it is safe.

Three public formats: availability in steps (`{"metadata": {"gap_seconds": N}, "data": [0, 1]}`),
nodes that come and go (`milliseconds,add|remove,node`) and the size of a pool over time
(`date, time, count`). All become the lives of machines. Lines may have a header. Timestamps in real
files go backwards now and then: a few are repaired and told of, many are refused. Pure but for
reading the file.
"""

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import OutlastError

if TYPE_CHECKING:
    from outlast.capacity.interruptions import Empirical

SECONDS_MAX = 10 * 366 * 86_400.0
BACKWARDS_SHARE_MAX = 0.1
"""A file with more steps back in time than this is not repaired: it is not what it seems."""

_FILE_BYTES_MAX = 64 * 1024**2
_NODE_LINE = re.compile(r"(\d{1,15}) *, *(add|remove) *, *([\w.:-]{1,200})", re.ASCII)
_COUNT_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?: *, *|[T ])(\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?)"
    r" *, *(\d{1,5})(?:\.0+)?",
    re.ASCII,
)
_HEADER = re.compile(r"[^\d,]+(?:,[^\d,]+)+")


T = TypeVar("T")


class TraceError(OutlastError):
    """A trace cannot be used. `file` and `line` say where, if a line is to blame."""

    def __init__(
        self, message: str, *, hint: str | None = None, file: str, line: int | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line


class Polarity(StrEnum):
    """What a 1 means in a trace of steps."""

    AVAILABLE = "available"
    PREEMPTED = "preempted"


class Repair(StrEnum):
    """What is done about a time that lies before the one above it."""

    KEEP_ORDER = "keep-order"
    """The lines are in the right order, and the clock was set back: time stands still meanwhile."""
    SORT = "sort"
    """The times are right, and the lines are not in order."""
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One machine, in seconds from the start of the trace. `lost` is false if it outlived it."""

    start_seconds: float
    end_seconds: float
    lost: bool

    @property
    def seconds(self) -> float:
        return self.end_seconds - self.start_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """The lives of all machines of a pool, by their start. `repairs` says what was changed."""

    name: str
    seconds: float
    lives: tuple[Life, ...]
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
    polarity: Polarity = Polarity.AVAILABLE,
    repair: Repair = Repair.KEEP_ORDER,
    seed: int = 0,
) -> Trace:
    """The trace in a file, whatever of the three formats it has. Raises `TraceError`.

    Of a pool that shrinks, a count does not say which machines were lost: `seed` draws them.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TraceError(
            f"The trace {str(path)!r} cannot be read: {error.strerror}.",
            hint="Name a file with a trace.",
            file=str(path),
        ) from error
    if len(content) > _FILE_BYTES_MAX:
        raise TraceError(f"The trace {str(path)!r} is larger than 64 MiB.", file=str(path))
    text = content.decode("utf-8-sig", errors="replace")
    return parse_trace(text, name=path.name, polarity=polarity, repair=repair, seed=seed)


def parse_trace(
    text: str,
    *,
    name: str,
    polarity: Polarity = Polarity.AVAILABLE,
    repair: Repair = Repair.KEEP_ORDER,
    seed: int = 0,
) -> Trace:
    """The trace in a text. `name` is what errors call it."""
    if not text.strip():
        raise TraceError(f"The trace {name!r} is empty.", file=name)
    if text.lstrip()[0] in "{[":
        trace = _from_steps(text, name, polarity)
    else:
        lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) > 1 and _HEADER.fullmatch(lines[0][1]):
            del lines[0]
        if _NODE_LINE.fullmatch(lines[0][1]):
            trace = _from_nodes(lines, name, repair)
        elif _COUNT_LINE.fullmatch(lines[0][1]):
            trace = _from_counts(lines, name, repair, seed)
        else:
            raise _unreadable(name, *lines[0])
    if not trace.lives:
        raise TraceError(f"No machine is ever available in the trace {name!r}.", file=name)
    return trace


def lifetimes_in(trace: Trace) -> "Empirical":
    """The law of lifetimes that a trace shows. Raises `TraceError` if no machine was lost in it."""
    if not trace.losses:
        raise TraceError(
            f"No machine is ever lost in the trace {trace.name!r}: it says nothing of lifetimes.",
            file=trace.name,
        )
    # Here, because it loads numpy, which those who want the lives alone do not need.
    from outlast.capacity.interruptions import Empirical

    return Empirical(
        seconds=[life.seconds for life in trace.lives], ended=[life.lost for life in trace.lives]
    )


def _from_steps(text: str, name: str, polarity: Polarity) -> Trace:
    try:
        tree = json.loads(text)
        gap, data = tree["metadata"]["gap_seconds"], tree["data"]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise TraceError(
            f'The trace {name!r} is not JSON of the form {{"metadata": {{"gap_seconds": 60}}, '
            '"data": [0, 1]}.',
            hint="Traces of nodes and of counts are plain lines, not JSON.",
            file=name,
        ) from None
    if isinstance(gap, bool) or not isinstance(gap, int | float) or not 0 < gap <= 86_400:
        raise TraceError(
            f"gap_seconds is {gap!r} in {name!r}; a number above 0 and up to a day is expected.",
            file=name,
        )
    if not isinstance(data, list) or not data:
        raise TraceError(f"The trace {name!r} holds no steps.", file=name)
    if not all(step in (0, 1) and isinstance(step, int) for step in data):
        raise TraceError(f"The steps of {name!r} must be 0 or 1, each of them.", file=name)
    up = [(step == 1) == (polarity is Polarity.AVAILABLE) for step in data]
    edges = [0, *(n for n in range(1, len(up)) if up[n] != up[n - 1]), len(up)]
    lives = tuple(
        Life(start_seconds=start * gap, end_seconds=end * gap, lost=end < len(up))
        for start, end in pairwise(edges)
        if up[start]
    )
    return Trace(name=name, seconds=float(len(up) * gap), lives=lives)


def _from_nodes(lines: Sequence[tuple[int, str]], name: str, repair: Repair) -> Trace:
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
            word = "is there already" if action == "add" else "was never added"
            raise TraceError(f"{name}:{number}: {node!r} {word}.", file=name, line=number)
        if action == "add":
            born[node] = time
        else:
            lives.append(Life(start_seconds=born.pop(node), end_seconds=time, lost=True))
    lives += [Life(start_seconds=start, end_seconds=end, lost=False) for start in born.values()]
    return _trace(name, end, lives, repairs)


def _from_counts(lines: Sequence[tuple[int, str]], name: str, repair: Repair, seed: int) -> Trace:
    samples = []
    for number, line in lines:
        match = _COUNT_LINE.fullmatch(line)
        if match is None:
            raise _unreadable(name, number, line)
        try:
            when = datetime.fromisoformat(f"{match[1]}T{match[2]}")
        except ValueError:
            raise TraceError(
                f"{name}:{number}: {match[1]} {match[2]} is no point in time.",
                file=name,
                line=number,
            ) from None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        samples.append((when.timestamp(), int(match[3])))
    samples, repairs = _in_order(samples, name, repair)
    first, end = samples[0][0], samples[-1][0] - samples[0][0]
    chance = random.Random(seed)
    born: list[float] = []
    lives = []
    for time, count in samples:
        while len(born) > count:
            # A count does not say which machine was lost, so each is as likely.
            start = born.pop(chance.randrange(len(born)))
            lives.append(Life(start_seconds=start, end_seconds=time - first, lost=True))
        born += [time - first] * (count - len(born))
    lives += [Life(start_seconds=start, end_seconds=end, lost=False) for start in born]
    return _trace(name, end, lives, repairs)


def _in_order(
    events: list[tuple[float, T]], name: str, repair: Repair
) -> tuple[list[tuple[float, T]], tuple[str, ...]]:
    """The events with times that never fall, and what was done for that."""
    backwards = sum(after[0] < before[0] for before, after in pairwise(events))
    if not backwards:
        return events, ()
    told = f"{backwards} of {len(events)} times in {name!r} lie before the one above them"
    are_many = backwards > BACKWARDS_SHARE_MAX * len(events)
    if are_many or repair is Repair.REFUSE:
        hint = "Put the lines in order of time" + ("." if are_many else ", or let --repair do it.")
        raise TraceError(f"{told}.", hint=hint, file=name)
    if repair is Repair.SORT:
        return sorted(events, key=lambda event: event[0]), (f"{told}: the lines were sorted.",)
    kept, latest = [], -math.inf
    for time, what in events:
        latest = max(latest, time)
        kept.append((latest, what))
    return kept, (f"{told}: the order of the lines was kept.",)


def _trace(name: str, seconds: float, lives: list[Life], repairs: tuple[str, ...]) -> Trace:
    if not 0 < seconds <= SECONDS_MAX:
        raise TraceError(
            f"The trace {name!r} lasts {seconds:g} s; above 0 and up to ten years is expected.",
            file=name,
        )
    ordered = sorted((life for life in lives if life.seconds > 0), key=_by_start)
    return Trace(name=name, seconds=seconds, lives=tuple(ordered), repairs=repairs)


def _by_start(life: Life) -> tuple[float, float]:
    return life.start_seconds, life.end_seconds


def _unreadable(name: str, number: int, line: str) -> TraceError:
    return TraceError(
        f"{name}:{number}: {line[:60]!r} is no line of a trace.",
        hint="A line is `milliseconds,add|remove,node` or `2021-12-11, 11:11:30, 55`.",
        file=name,
        line=number,
    )
