"""Write the events of an attempt, without ever blocking or failing the training loop.

Events are buffered in memory and written in batches by a background thread: immediately if an event
is prompt, otherwise from time to time. With `signs_of_life`, every batch ends with one, and one is
written even if nothing else happens, as often as `journal/signs.py` says. If the store fails, this
is logged and retried later; it is not an error.

If killed: everything that `flush` confirmed or the thread has written can be read. Later events are
lost, usually those of the last `flush_seconds` that were not prompt, or since the last sign of
life. No segment is ever torn.
"""

import math
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from outlast._base.logs import get_logger
from outlast.journal.events import Alive, Dropped, Event, utc_now
from outlast.journal.lines import (
    Segment,
    SegmentName,
    encode,
    encode_segment,
    parse_name,
    prefix_of,
)
from outlast.journal.signs import sign_pause
from outlast.storage.errors import AlreadyExists
from outlast.storage.limits import Countdown, Limits
from outlast.storage.protocol import Store, create_or_confirm

log = get_logger(__name__)

PATIENT = Limits(
    connect_seconds_max=4.0, request_seconds_max=20.0, attempts_max=3, total_seconds_max=60.0
)
"""For a flush without a deadline. What fails is retried with the next one."""

PROMPT_SECONDS_MIN = 1.0
"""The minimum time between two segments, even for prompt events."""

_NAMES_TRIED_MAX = 8
_LAST_WRITE_SECONDS_MAX = 10.0
_NOT_WRITTEN = "Could not write the journal; retrying later"


class _Batch(NamedTuple):
    number: int
    data: bytes


class JournalWriter:
    """Records the events of one attempt. Thread-safe; inactive in forked children.

    Two writers of one attempt write separate segments and overwrite nothing.
    """

    def __init__(
        self,
        store: Store,
        attempt: int,
        *,
        flush_seconds: float = 60.0,
        buffer_bytes_max: int = 2 * 1024**2,
        background: bool = True,
        signs_of_life: bool = False,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        if attempt < 0:
            raise ValueError(f"attempt is {attempt!r}; expected a number of at least 0.")
        if not flush_seconds > 0:
            raise ValueError(f"flush_seconds is {flush_seconds!r}; expected a number above 0.")
        self._store = store
        self._attempt = attempt
        self._flush_seconds = flush_seconds
        self._background = background
        self._has_signs = signs_of_life
        self._now = now
        self._clock = clock
        self._begun_at = now()
        self._pause_seconds = flush_seconds
        self._pid = os.getpid()
        self._writer = uuid.uuid4().hex
        self._backlog = Backlog(buffer_bytes_max)
        # A batch never changes after the first attempt to write it, which may have succeeded: only
        # the same bytes can be recognized as ours.
        self._pending: _Batch | None = None
        self._batches = 0
        self._segment = 1
        self._prompt = False
        self._sign_due = False
        self._flushed_at = -math.inf
        self._noted: set[str] = set()
        self._closed = False
        self._thread: threading.Thread | None = None
        # Re-entrant, because a signal handler may record an event while the loop is recording one.
        self._changed = threading.Condition(threading.RLock())

    def record(self, event: Event) -> None:
        """Record an event to be written. Never waits for the store and never raises.

        Nothing is recorded after `close`, nor in a forked child.
        """
        if os.getpid() != self._pid or self._closed:
            return
        try:
            self._add(event)
        except Exception as error:
            self._note_failure(f"Could not record a {type(event).__name__} event", error)

    def flush(self, *, limits: Limits = PATIENT) -> bool:
        """Write everything recorded so far. Returns whether it is durable. Never raises.

        Does not wait for a background write that hangs: it writes the same batch again, within
        `limits`, and a reader sees it once.
        """
        if os.getpid() != self._pid:
            return False
        try:
            countdown = Countdown(limits, f"Trying to write the journal to {self._store.url}")
            # At most two: the one that was attempted before, and everything since.
            for _ in range(2):
                if (batch := self._next_batch()) is None:
                    break
                self._write(batch, countdown)
        except Exception as error:
            self._note_failure(_NOT_WRITTEN, error)
            return False
        self._noted.discard(_NOT_WRITTEN)
        return True

    def close(self, *, limits: Limits = PATIENT) -> bool:
        """Write the rest and stop. Within a grace period, pass `limits=final(seconds_left)`.

        Nothing is written afterwards, so that the folder of a run can be deleted. Only a write that
        already hangs is not waited for: a short time without a deadline, and not at all with one.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        is_written = self.flush(limits=limits)
        if thread is not None and limits is PATIENT and os.getpid() == self._pid:
            thread.join(_LAST_WRITE_SECONDS_MAX)
        return is_written

    def _add(self, event: Event) -> None:
        try:
            line = encode(event)
        except Exception:
            with self._changed:
                self._backlog.dropped += 1
            raise
        with self._changed:
            was_empty = not self._backlog
            self._backlog.add(line, minor=event.minor)
            self._prompt |= event.prompt
            if self._background and self._thread is None:
                name = f"outlast-journal-{self._attempt}"
                self._thread = threading.Thread(target=self._flush_when_due, name=name, daemon=True)
                self._thread.start()
            elif was_empty or event.prompt:
                self._changed.notify_all()

    def flush_if_due(self) -> None:
        """Write what is due now, including a sign of life. The background thread does this."""
        if self._seconds_until_due() <= 0:
            self._sign_due = self._has_signs
            self.flush()

    def _flush_when_due(self) -> None:
        while self._wait_until_due():
            self.flush_if_due()

    def _wait_until_due(self) -> bool:
        """False once the writer is closed."""
        with self._changed:
            while not self._closed:
                seconds = self._seconds_until_due()
                if seconds <= 0:
                    return True
                self._changed.wait(None if seconds == math.inf else seconds)
        return False

    def _seconds_until_due(self) -> float:
        if not self._has_signs and not self._backlog and self._pending is None:
            return math.inf
        pause = PROMPT_SECONDS_MIN if self._prompt else self._pause_seconds
        return self._flushed_at + min(pause, self._flush_seconds) - self._now()

    def _next_batch(self) -> _Batch | None:
        with self._changed:
            self._prompt = False
            self._flushed_at = self._now()
            if self._has_signs:
                # Set now, because the sign of life states when the next one follows.
                pause_seconds = sign_pause(self._flushed_at - self._begun_at)
                self._pause_seconds = min(pause_seconds, self._flush_seconds)
            has_lines = self._backlog or self._backlog.dropped or self._sign_due
            if self._pending is None and has_lines:
                dropped = self._backlog.dropped
                lines = self._backlog.take()
                if dropped:
                    lines.append(encode(Dropped(at=self._clock(), count=dropped)))
                if self._has_signs and not self._closed:
                    lines.append(
                        encode(Alive(at=self._clock(), within_seconds=self._pause_seconds))
                    )
                self._sign_due = False
                self._batches += 1
                head = encode_segment(Segment(self._writer, self._batches))
                self._pending = _Batch(self._batches, b"".join([head, *lines]))
            return self._pending

    def _write(self, batch: _Batch, countdown: Countdown) -> None:
        """Make a batch durable under the first free name.

        If killed: the segment is complete, or does not exist.
        """
        segment = self._segment
        for _ in range(_NAMES_TRIED_MAX):
            name = str(SegmentName(self._attempt, segment))
            try:
                create_or_confirm(self._store, name, batch.data, limits=countdown.limits_left())
            except AlreadyExists:
                segment = self._next_free(segment, countdown)
            else:
                self._note_written(batch, segment)
                return
        raise AlreadyExists(f"Could not find a free segment name in {self._store.url}.")

    def _next_free(self, taken: int, countdown: Countdown) -> int:
        """The number after all existing segments; a taken one may be missing in the listing."""
        entries = self._store.list(prefix_of(self._attempt), limits=countdown.limits_left())
        listed = [name.segment for entry in entries if (name := parse_name(entry.name))]
        return max([taken, *listed]) + 1

    def _note_written(self, batch: _Batch, segment: int) -> None:
        with self._changed:
            # Another thread may have written the same batch.
            if self._pending is batch:
                self._pending = None
            self._segment = max(self._segment, segment + 1)

    def _note_failure(self, what: str, error: Exception) -> None:
        """Log this once: an unavailable store stays unavailable for a while."""
        if what not in self._noted:
            self._noted.add(what)
            log.warning("%s (%s: %s).", what, type(error).__name__, error)


LINE_BYTES_MAX = 64 * 1024
"""Longer lines are dropped: no event is that long."""


class _Line(NamedTuple):
    number: int
    data: bytes


class Backlog:
    """Lines that wait to be written, up to a limit. Not thread-safe.

    When it is full, the oldest minor lines are dropped first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._minor: deque[_Line] = deque()
        self._major: deque[_Line] = deque()
        self._bytes = 0
        self._added = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._minor) + len(self._major)

    def add(self, data: bytes, *, minor: bool) -> None:
        if len(data) > LINE_BYTES_MAX:
            self.dropped += 1
            return
        self._added += 1
        (self._minor if minor else self._major).append(_Line(self._added, data))
        self._bytes += len(data)
        while self._bytes > self._bytes_max:
            oldest = (self._minor or self._major).popleft()
            self._bytes -= len(oldest.data)
            self.dropped += 1

    def take(self) -> list[bytes]:
        """All lines, in order. Empties the backlog and resets the count of dropped lines."""
        lines = sorted([*self._minor, *self._major])
        self._minor.clear()
        self._major.clear()
        self._bytes = 0
        self.dropped = 0
        return [line.data for line in lines]
