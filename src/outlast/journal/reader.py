"""Read what was written down, attempt by attempt. Changes nothing.

What a kill leaves behind: whole segments. An attempt that was killed simply ends early; what it did
after its last flush is not known.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

from outlast.journal.events import Event
from outlast.journal.lines import Lines, decode_lines
from outlast.journal.names import FOLDER, SegmentName, parse_name
from outlast.storage.errors import NotFound
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.protocol import Store

_READERS_MAX = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """The events of one attempt, in the order in which they were written.

    `garbled` lines could not be read. More than one of `writers` means that two processes took
    themselves for this attempt.
    """

    attempt: int
    events: tuple[Event, ...]
    garbled: int = 0
    writers: int = 1


def read_journal(store: Store, *, limits: Limits = ROUTINE) -> list[AttemptRecord]:
    """All attempts, oldest first. Raises a `StorageError` if the store cannot be read.

    Unreadable lines are counted and passed over. `limits` hold for each call of the store.
    """
    entries = store.list(FOLDER, limits=limits)
    names = sorted(name for entry in entries if (name := parse_name(entry.name)))

    def read(name: SegmentName) -> Lines | None:
        try:
            return decode_lines(store.read(str(name), limits=limits))
        except NotFound:
            # It was deleted since it was listed, which is as if it had never been.
            return None

    # Segments are small and many, so that waiting for each in turn would take long.
    with ThreadPoolExecutor(_READERS_MAX, thread_name_prefix="outlast-journal") as pool:
        found = list(zip(names, pool.map(read, names), strict=True))
    return [
        _record(attempt, [lines for _, lines in group if lines is not None])
        for attempt, group in groupby(found, key=lambda pair: pair[0].attempt)
    ]


def _record(attempt: int, segments: Sequence[Lines]) -> AttemptRecord:
    seen = set()
    events: list[Event] = []
    garbled = 0
    for lines in segments:
        # A batch whose first write hung may have been written again under another name.
        if lines.segment is not None and lines.segment in seen:
            continue
        seen.add(lines.segment)
        events += lines.events
        garbled += lines.garbled
    writers = {segment.writer for segment in seen if segment is not None}
    return AttemptRecord(
        attempt=attempt, events=tuple(events), garbled=garbled, writers=max(1, len(writers))
    )
