"""Follow a journal while it grows: each segment is read once, and little of it is kept.

Segments never change, so a look costs one listing and the new segments. A run of a week has 10,000
of them. Only events that can affect the figures of the run are kept: of the many that report
progress, those at the extremes. `JournalFollower.records` therefore gives the same summary as
`read_journal`, but not all events.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from outlast.journal.attempt import Attempt, is_plausible, step_of
from outlast.journal.events import (
    Alive,
    AttemptStarted,
    Event,
    Metrics,
    Progress,
    Resumed,
    UnknownEvent,
)
from outlast.journal.lines import FOLDER, Lines, SegmentName, parse_name
from outlast.journal.reader import GARBLED, AttemptRecord, read_segments
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.opening import open_store
from outlast.storage.protocol import Store, StoreEntry

_SEGMENTS_AT_ONCE = 256
_NUMEROUS = (Progress, Metrics, Alive, UnknownEvent)
_NESTED = re.compile(rf"((?:[^/]+/){{0,2}}?){FOLDER}\d{{6,}}-\d{{6,}}\.jsonl", re.ASCII)


class JournalFollower:
    """Reads a journal again and again, for as little as possible. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._attempts: dict[int, _FollowedAttempt] = {}

    def look(self, *, limits: Limits = ROUTINE) -> bool:
        """Read what is new. Returns whether anything has changed. Raises a `StorageError`.

        After an error, the next look continues where this one failed.
        """
        entries = self._store.list(FOLDER, limits=limits)
        listed = sorted(
            (name, entry) for entry in entries if (name := parse_name(entry.name)) is not None
        )
        found = {number: list(group) for number, group in groupby(listed, lambda one: one[0][0])}
        gone = self._attempts.keys() - found.keys()
        for number in gone:
            del self._attempts[number]
        has_changed = bool(gone)
        for number, group in found.items():
            has_changed |= self._look_at(number, group, limits)
        return has_changed

    @property
    def records(self) -> list[AttemptRecord]:
        """The attempts, oldest first, for `summarize`."""
        return [self._attempts[number].record for number in sorted(self._attempts)]

    def _look_at(
        self, number: int, listed: list[tuple[SegmentName, StoreEntry]], limits: Limits
    ) -> bool:
        names = {name.segment for name, _ in listed}
        first_modified = listed[0][1].modified
        attempt = self._attempts.get(number)
        if attempt is None or not attempt.is_still(names, first_modified):
            # New, or deleted and written again: nothing that was read before is true.
            attempt = _FollowedAttempt(number, first_modified)
            self._attempts[number] = attempt
        new = [name for name, _ in listed if name.segment not in attempt.seen]
        has_changed = False
        for name, lines in self._read(new, limits):
            has_changed |= attempt.add(name.segment, lines)
        if attempt.has_lost_order:
            # What was left out before has become important. This happens if two processes have
            # written the same attempt.
            again = attempt.restarted(keeps_all=True)
            for name, lines in self._read([name for name, _ in listed], limits):
                again.add(name.segment, lines)
            self._attempts[number] = again
        return has_changed

    def _read(
        self, names: list[SegmentName], limits: Limits
    ) -> Iterator[tuple[SegmentName, Lines]]:
        for start in range(0, len(names), _SEGMENTS_AT_ONCE):
            yield from read_segments(self._store, names[start : start + _SEGMENTS_AT_ONCE], limits)


@dataclass(slots=True)
class _Kept:
    """An event, and its place in the journal of its attempt."""

    order: tuple[int, int]
    event: Event


@dataclass
class _FollowedAttempt:
    number: int
    first_modified: datetime
    keeps_all: bool = False
    seen: set[int] = field(default_factory=set)
    """The segments that need not be read again."""
    has_lost_order: bool = False
    _kept: list[_Kept] = field(default_factory=list)
    _numerous: list[_Kept] = field(default_factory=list)
    _batches: dict[str, set[int]] = field(default_factory=dict)
    _stated: list[Event] = field(default_factory=list)
    _smallest: int | None = None
    _garbled: int = 0
    _unreadable: set[int] = field(default_factory=set)
    _has_thinned: bool = False

    def is_still(self, segments: set[int], first_modified: datetime) -> bool:
        """Whether everything that was read is still there."""
        return self.seen <= segments and self.first_modified == first_modified

    def restarted(self, *, keeps_all: bool) -> "_FollowedAttempt":
        return _FollowedAttempt(self.number, self.first_modified, keeps_all=keeps_all)

    @property
    def record(self) -> AttemptRecord:
        kept = sorted([*self._kept, *self._numerous], key=lambda one: one.order)
        return AttemptRecord(
            attempt=self.number,
            events=tuple(one.event for one in kept),
            garbled=self._garbled + len(self._unreadable),
            writers=max(1, len(self._batches)),
        )

    def add(self, segment: int, lines: Lines) -> bool:
        """Take note of a segment. Returns whether that changes anything."""
        if lines is GARBLED:
            # Perhaps only now: it is tried again at the next look.
            is_known = segment in self._unreadable
            self._unreadable.add(segment)
            return not is_known
        self._unreadable.discard(segment)
        self.seen.add(segment)
        if lines.segment is not None:
            batches = self._batches.setdefault(lines.segment.writer, set())
            if lines.segment.batch in batches:
                return False
            batches.add(lines.segment.batch)
        self._garbled += lines.garbled
        for index, event in enumerate(lines.events):
            self._add_event(_Kept((segment, index), event))
        self._thin()
        return True

    def _add_event(self, one: _Kept) -> None:
        if not is_plausible(one.event):
            self._garbled += 1
        elif isinstance(one.event, _NUMEROUS):
            self._numerous.append(one)
        else:
            if isinstance(one.event, Resumed | AttemptStarted):
                # The first step decides which reports of progress matter.
                self.has_lost_order |= self._has_thinned
                self._stated.append(one.event)
            self._kept.append(one)
        if (step := step_of(one.event)) is not None and is_plausible(one.event):
            self._smallest = step if self._smallest is None else min(step, self._smallest)

    def _thin(self) -> None:
        if self.keeps_all:
            return
        kept = list(_extremes(self._numerous, starts=self._starts()))
        self._has_thinned |= len(kept) < len(self._numerous)
        self._numerous = kept

    def _starts(self) -> set[int]:
        """The steps at which the attempt may have started: as it stated, or its smallest one."""
        view = Attempt(AttemptRecord(attempt=self.number, events=tuple(self._stated)))
        return {view.first_step or 0, *([] if self._smallest is None else [self._smallest])}


def _extremes(numerous: list[_Kept], *, starts: set[int]) -> Iterable[_Kept]:
    """The reports that are first or last in time or in steps: all that figures are made of."""
    if not numerous:
        return ()
    chosen = [min(numerous, key=_at), max(numerous, key=_at)]
    chosen += [one for one in numerous if isinstance(one.event, Alive)][-1:]
    steps = [one for one in numerous if isinstance(one.event, Progress | Metrics)]
    if steps:
        chosen += [min(steps, key=_step_then_at), max(steps, key=_last_step)]
    for start in starts:
        if own := [one for one in steps if _step(one) > start]:
            chosen.append(min(own, key=_step_then_at))
    return sorted({id(one): one for one in chosen}.values(), key=lambda one: one.order)


def _at(one: _Kept) -> datetime:
    return one.event.at


def _step(one: _Kept) -> int:
    event = one.event
    assert isinstance(event, Progress | Metrics)
    return event.step


def _step_then_at(one: _Kept) -> tuple[int, datetime]:
    return _step(one), one.event.at


def _last_step(one: _Kept) -> tuple[int, float]:
    # Of several reports of one step, the earliest says when it was reached.
    return _step(one), -one.event.at.timestamp()


def run_urls(url: str, *, limits: Limits = ROUTINE) -> list[str]:
    """The runs stored at a URL: the URL itself, or the runs of an indexed Job in its subfolders.

    Lists everything below the URL, so ask rarely: once per run, not once per look.
    """
    store = open_store(url)
    folders = {
        match[1].rstrip("/")
        for entry in store.list(limits=limits)
        if (match := _NESTED.fullmatch(entry.name)) is not None
    }
    base = url.rstrip("/")
    return [f"{base}/{folder}" if folder else url for folder in sorted(folders, key=_by_number)]


def _by_number(folder: str) -> list[tuple[int, str]]:
    """Index 10 comes after index 9."""
    parts = re.split(r"(\d+)", folder)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
