"""Read the journal of a run, attempt by attempt. Changes nothing.

A kill leaves only complete segments. The journal of a killed attempt ends early: what it did after
its last flush is unknown.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TypeVar

from outlast.journal.events import Event
from outlast.journal.lines import FOLDER, Lines, SegmentName, decode_lines, parse_name
from outlast.storage.errors import NotFound, Unreadable
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.protocol import Store

T = TypeVar("T")

# Segments are small and many, and each request to a distant store takes its time.
_READERS_MAX = 32
_FIRST = 8
_ASKED_AT_ONCE = 5
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

    # Most attempts have few segments: reading these at once spares the search for the last one.
    first = [SegmentName(attempt, number) for number in range(1, _FIRST + 1)]
    found = read_segments(store, first, limits)
    last = _unbroken([name.segment for name, _ in found])
    if last >= _FIRST - 1:
        last = _last(are_there, known=last)
        later = range(max(_FIRST + 1, last - segments_max + 2), last + 1)
        found += read_segments(store, [SegmentName(attempt, number) for number in later], limits)
    kept = (1, *range(max(2, last - segments_max + 2), last + 1))
    segments = [lines for name, lines in found if name.segment in kept]
    return _record(attempt, segments) if segments else None


def _exists(store: Store, name: SegmentName, limits: Limits) -> bool:
    try:
        store.read(str(name), length=0, limits=limits)
    except NotFound:
        return False
    return True


def _unbroken(segments: Sequence[int]) -> int:
    """The last number before two or more are missing; 0 if there is none."""
    last = 0
    for segment in segments:
        if segment > last + 2:
            break
        last = segment
    return last


def _last(are_there: Callable[[Sequence[int]], Sequence[bool]], *, known: int) -> int:
    """The last number of an unbroken sequence that has at least `known` numbers."""

    def how_many(asked: Sequence[int]) -> int:
        return sum(1 for _ in takewhile(bool, are_there(asked)))

    low, high = known, None
    while high is None:
        asked = [low << doublings for doublings in range(_ASKED_AT_ONCE + 1)]
        there = how_many(asked[1:])
        low, high = asked[there], asked[there + 1] if there < _ASKED_AT_ONCE else None
    while high - low > 1:
        step = -(-(high - low) // (_ASKED_AT_ONCE + 1))
        asked = [*range(low, high, step), high]
        there = how_many(asked[1:-1])
        low, high = asked[there], asked[there + 1]
    return low


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
