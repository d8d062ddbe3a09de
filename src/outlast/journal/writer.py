"""Write down what happens in an attempt, without ever holding up or failing the training loop.

Events are put into memory, and written in batches by a thread of their own: at once where an event
is prompt, else once in a while. A store that fails costs a log line and a later try, no error.

If killed: all that `flush` confirmed can be read, and so can what the thread wrote. Later events
are lost: normally those of the last `flush_seconds` that were not prompt. No segment is ever torn.
"""

import logging
import math
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from outlast.journal.backlog import Backlog
from outlast.journal.events import Dropped, Event, utc_now
from outlast.journal.lines import Segment, encode, encode_segment
from outlast.journal.names import SegmentName, parse_name, prefix_of
from outlast.storage.commit import create_or_confirm
from outlast.storage.errors import AlreadyExists
from outlast.storage.limits import Countdown, Limits
from outlast.storage.protocol import Store

log = logging.getLogger(__name__)

PATIENT = Limits(
    connect_seconds_max=4.0, request_seconds_max=20.0, attempts_max=3, total_seconds_max=60.0
)
"""For a flush that no deadline presses. What fails is tried again with the next one anyway."""

PROMPT_SECONDS_MIN = 1.0
"""Even prompt events do not make segments faster than this."""

_NAMES_TRIED_MAX = 8
_NOT_WRITTEN = "The journal could not be written; it is tried again later"


class _Batch(NamedTuple):
    number: int
    data: bytes


class JournalWriter:
    """Records the events of one attempt. Safe to use from many threads; idle in forked children.

    Two writers of one attempt, should that ever be, write side by side and overwrite nothing.
    """

    def __init__(
        self,
        store: Store,
        attempt: int,
        *,
        flush_seconds: float = 60.0,
        buffer_bytes_max: int = 2 * 1024**2,
        background: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempt < 0:
            raise ValueError(f"The attempt is {attempt!r}; a number from 0 is expected.")
        if not flush_seconds > 0:
            raise ValueError(f"flush_seconds is {flush_seconds!r}; a number above 0 is expected.")
        self._store = store
        self._attempt = attempt
        self._flush_seconds = flush_seconds
        self._background = background
        self._now = now
        self._pid = os.getpid()
        self._writer = uuid.uuid4().hex
        self._backlog = Backlog(buffer_bytes_max)
        # A batch that was once tried stays as it is: whether it took effect may be unknown, and
        # only the same bytes can be recognised as ours.
        self._pending: _Batch | None = None
        self._batches = 0
        self._segment = 1
        self._prompt = False
        self._flushed_at = -math.inf
        self._noted: set[str] = set()
        self._closed = False
        self._thread: threading.Thread | None = None
        # Re-entrant, because a signal handler may record an event while the loop is recording one.
        self._changed = threading.Condition(threading.RLock())

    def record(self, event: Event) -> None:
        """Put an event down to be written. Never waits for the store and never raises.

        Nothing is recorded after `close`, nor in a forked child.
        """
        if os.getpid() != self._pid or self._closed:
            return
        try:
            self._add(event)
        except Exception as error:
            self._note_failure(f"A {type(event).__name__} could not be recorded", error)

    def flush(self, *, limits: Limits = PATIENT) -> bool:
        """Write all that was recorded, and say whether that is durable now. Never raises.

        It does not wait for a write of the background thread that hangs: it writes the same again,
        within `limits`, and a reader sees it once.
        """
        if os.getpid() != self._pid:
            return False
        try:
            countdown = Countdown(limits, f"Trying to write the journal to {self._store.url}")
            # At most two: the one that was tried before, and all that came since.
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
        """Write what is left and stop. Inside a grace period, give `limits=final(seconds_left)`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        return self.flush(limits=limits)

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

    def _flush_when_due(self) -> None:
        while self._wait_until_due():
            self.flush()

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
        if not self._backlog and self._pending is None:
            return math.inf
        pause = PROMPT_SECONDS_MIN if self._prompt else self._flush_seconds
        return self._flushed_at + min(pause, self._flush_seconds) - self._now()

    def _next_batch(self) -> _Batch | None:
        with self._changed:
            self._prompt = False
            self._flushed_at = self._now()
            if self._pending is None and (self._backlog or self._backlog.dropped):
                dropped = self._backlog.dropped
                lines = self._backlog.take()
                if dropped:
                    lines.append(encode(Dropped(at=utc_now(), count=dropped)))
                self._batches += 1
                head = encode_segment(Segment(self._writer, self._batches))
                self._pending = _Batch(self._batches, b"".join([head, *lines]))
            return self._pending

    def _write(self, batch: _Batch, countdown: Countdown) -> None:
        """Make a batch durable under the first free name.

        If killed: the segment is there whole, or not at all.
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
        raise AlreadyExists(f"No free name for a segment was found in {self._store.url}.")

    def _next_free(self, taken: int, countdown: Countdown) -> int:
        """The number after all that are there; one that is taken need not be listed."""
        entries = self._store.list(prefix_of(self._attempt), limits=countdown.limits_left())
        listed = [name.segment for entry in entries if (name := parse_name(entry.name))]
        return max([taken, *listed]) + 1

    def _note_written(self, batch: _Batch, segment: int) -> None:
        with self._changed:
            # Another thread may have written the same batch meanwhile.
            if self._pending is batch:
                self._pending = None
            self._segment = max(self._segment, segment + 1)

    def _note_failure(self, what: str, error: Exception) -> None:
        """Say it once: a store that is down stays down for a while."""
        if what not in self._noted:
            self._noted.add(what)
            log.warning("%s (%s: %s).", what, type(error).__name__, error)
