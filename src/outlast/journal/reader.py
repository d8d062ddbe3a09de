"""Read the journal of a run, attempt by attempt. Changes nothing.

A kill leaves only complete segments. The journal of a killed attempt ends early: what it did after
its last flush is unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TypeAlias, TypeVar

from outlast.journal.events import Event
from outlast.journal.lines import FOLDER, Lines, SegmentName, decode_lines, parse_name
from outlast.storage.errors import NotFound, Unreadable
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.protocol import Store

T = TypeVar("T")
_AreThere: TypeAlias = Callable[[Sequence[int]], Sequence[bool]]
"""Says of each number whether a sequence has it."""

# Segments are small and many, and each request to a distant store takes its time.
_READERS_MAX = 32
_FIRST = 8
_DOUBLINGS_AT_ONCE = 5
_ASKED_AT_ONCE = 15
# Many times the maximum that a writer buffers.
_SEGMENT_BYTES_MAX = 16 * 1024**2
GARBLED = Lines(None, (), 1)
"""What stands for a segment that cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """The events of one attempt, in the order in which they were written.

    `garbled` lines could not be read. More than one of `writers` means that two processes both
    acted as this attempt.
    """

    attempt: int
    events: tuple[Event, ...]
    garbled: int = 0
    writers: int = 1


def read_journal(store: Store, *, limits: Limits = ROUTINE) -> list[AttemptRecord]:
    """All attempts, oldest first. Raises a `StorageError` if the store cannot be read.

    Unreadable lines are counted and skipped. `limits` apply to each store operation.
    """
    entries = store.list(FOLDER, limits=limits)
    found = read_segments(
        store, sorted(filter(None, (parse_name(e.name) for e in entries))), limits
    )
    return [
        _record(attempt, [lines for _, lines in group])
        for attempt, group in groupby(found, key=lambda pair: pair[0].attempt)
    ]


def read_attempt(
    store: Store, attempt: int, *, segments_max: int = 64, limits: Limits = ROUTINE
) -> AttemptRecord | None:
    """One attempt, without listing the journal; None if it has written nothing.

    Of more than `segments_max` segments, the first and the newest ones are read: they contain when
    it started, what it did last and how it ended.
    """

    def are_there(segments: Sequence[int]) -> list[bool]:
        # A writer that was killed on a mounted folder can leave one segment that is unreadable.
        names = [SegmentName(attempt, one + after) for one in segments for after in (0, 1)]
        found = _map(lambda name: _exists(store, name, limits), names)
        return [here or later for here, later in zip(found[::2], found[1::2], strict=True)]

    def read(segments: Iterable[int]) -> list[tuple[SegmentName, Lines]]:
        return read_segments(store, [SegmentName(attempt, one) for one in segments], limits)

    # Most attempts have few segments: reading these at once spares the search for the last one.
    found = read(range(1, _FIRST + 1))
    last = _unbroken([name.segment for name, _ in found])
    if last >= _FIRST - 1:
        low, high = _narrowed(are_there, *_bounds(are_there, known=_FIRST))
        # Reading what may not be there is quicker than finding out first.
        found += read(range(max(_FIRST + 1, low - segments_max + 2), high + 1))
        # What is missing before `low` says nothing about the end.
        start = low if low > _FIRST else last
        last = _unbroken([n.segment for n, _ in found if n.segment > start], after=start)
    kept = (1, *range(max(2, last - segments_max + 2), last + 1))
    segments = [lines for name, lines in found if name.segment in kept]
    return _record(attempt, segments) if segments else None


def _exists(store: Store, name: SegmentName, limits: Limits) -> bool:
    try:
        store.read(str(name), length=0, limits=limits)
    except NotFound:
        return False
    return True


def _unbroken(segments: Sequence[int], *, after: int = 0) -> int:
    """The last number before two or more are missing; `after` if there is none."""
    last = after
    for segment in segments:
        if segment > last + 2:
            break
        last = segment
    return last


def _bounds(are_there: _AreThere, *, known: int) -> tuple[int, int]:
    """A number that an unbroken sequence has, and a greater one that it does not have.

    If it has fewer than `known` numbers, the first one is wrong.
    """
    low = known
    while True:
        asked = [low << doublings for doublings in range(_DOUBLINGS_AT_ONCE + 1)]
        there = _how_many(are_there, asked[1:])
        if there < _DOUBLINGS_AT_ONCE:
            return asked[there], asked[there + 1]
        low = asked[there]


def _narrowed(are_there: _AreThere, low: int, high: int) -> tuple[int, int]:
    """Closer bounds of the last number of a sequence, with few enough numbers between to read."""
    while high - low > _ASKED_AT_ONCE:
        step = -(-(high - low) // (_ASKED_AT_ONCE + 1))
        asked = [*range(low, high, step), high]
        there = _how_many(are_there, asked[1:-1])
        low, high = asked[there], asked[there + 1]
    return low, high


def _how_many(are_there: _AreThere, asked: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(bool, are_there(asked)))


def read_segments(
    store: Store, names: Sequence[SegmentName], limits: Limits
) -> list[tuple[SegmentName, Lines]]:
    """What is in these segments, in this order, without those that are gone."""

    def read(name: SegmentName) -> Lines | None:
        try:
            data = store.read(str(name), length=_SEGMENT_BYTES_MAX + 1, limits=limits)
        except NotFound:
            # It was deleted since it was listed.
            return None
        except Unreadable:
            return GARBLED
        return decode_lines(data) if len(data) <= _SEGMENT_BYTES_MAX else GARBLED

    found = zip(names, _map(read, names), strict=True)
    return [(name, lines) for name, lines in found if lines is not None]


def _map(work: Callable[[SegmentName], T], names: Sequence[SegmentName]) -> list[T]:
    with ThreadPoolExecutor(_READERS_MAX, thread_name_prefix="outlast-journal") as pool:
        return list(pool.map(work, names))


def _record(attempt: int, segments: Sequence[Lines]) -> AttemptRecord:
    seen = set()
    events: list[Event] = []
    garbled = 0
    for lines in segments:
        # If a write hung, the batch may have been written again under another name.
        if lines.segment is not None and lines.segment in seen:
            continue
        seen.add(lines.segment)
        events += lines.events
        garbled += lines.garbled
    writers = {segment.writer for segment in seen if segment is not None}
    return AttemptRecord(
        attempt=attempt, events=tuple(events), garbled=garbled, writers=max(1, len(writers))
    )
