"""Follow the journals of a run in a thread: one listing a minute, and each new segment once.

The store may answer slowly or not at all, and a screen must never wait for it. If killed:
nothing is left.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from outlast.errors import OutlastError
from outlast.journal.follow import JournalFollower, run_urls
from outlast.journal.run_journal import RunJournal, journal_of
from outlast.storage.limits import Limits
from outlast.storage.opening import open_store

LOOK_SECONDS = 60.0
_LIMITS = Limits(
    connect_seconds_max=4.0, request_seconds_max=20.0, attempts_max=3, total_seconds_max=40.0
)
_PARTS_LOOKS = 10
"""After how many looks to search for parts of the run that did not exist before. The first few
looks search, too: the parts of a run do not start at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalReading:
    """What the journals of a run contain. `problem` says why they could not be read, if so."""

    url: str
    journals: tuple[RunJournal, ...] = ()
    read_at: datetime | None = None
    problem: str = ""


class JournalWatch:
    """Reads the journals of a run again and again. `latest` is always complete."""

    def __init__(self, url: str, *, every_seconds: float = LOOK_SECONDS) -> None:
        self.latest = JournalReading(url=url)
        self.first_look = threading.Event()
        self._every_seconds = every_seconds
        self._reader = JournalReader(url)
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._is_asked = False
        self._thread = threading.Thread(target=self._watch, name="follow journal", daemon=True)

    def __enter__(self) -> "JournalWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not joined: a request to the store may take a while, and it changes nothing.
        self._stop.set()
        self._wake.set()

    def look_again(self, timeout_seconds: float) -> bool:
        """Read the journals now, for at most this long. Whether that succeeded."""
        with self._changed:
            wanted = self._begun + 1
            self._is_asked = True
            self._wake.set()
            is_done = self._changed.wait_for(lambda: self._done >= wanted, timeout_seconds)
        return is_done and not self.latest.problem

    def _watch(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._begun += 1
                self._wake.clear()
            self.latest = self._reader.look(self.latest, is_complete=self._is_asked)
            self.first_look.set()
            with self._changed:
                self._done = self._begun
                self._changed.notify_all()
            self._wake.wait(self._every_seconds)


class JournalReader:
    """Reads the journals of a run, and after that only what is new."""

    def __init__(self, url: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self._url = url
        self._now = now
        self._parts: dict[str, JournalFollower] = {}
        self._looks = 0

    def look(self, before: JournalReading, *, is_complete: bool = True) -> JournalReading:
        """The journals as they are now. Keeps what was known before if they cannot be read.

        Unless `is_complete`, parts that did not exist before may be missing for a while.
        """
        try:
            if is_complete or not self._parts or self._is_search_due:
                self._find_parts()
            for follower in self._parts.values():
                follower.look(limits=_LIMITS)
        except OutlastError as error:
            return JournalReading(
                url=self._url,
                journals=before.journals,
                read_at=before.read_at,
                problem=str(error),
            )
        self._looks += 1
        journals = [(url, follower.records) for url, follower in self._parts.items()]
        return JournalReading(
            url=self._url,
            journals=tuple(journal_of(url, records) for url, records in journals if records),
            read_at=self._now(),
        )

    @property
    def _is_search_due(self) -> bool:
        return self._looks < _PARTS_LOOKS // 2 or self._looks % _PARTS_LOOKS == 0

    def _find_parts(self) -> None:
        """The journal at the URL itself, else those of an indexed Job in its subfolders."""
        if self._url not in self._parts:
            own = JournalFollower(open_store(self._url))
            own.look(limits=_LIMITS)
            if own.records:
                self._parts = {self._url: own}
                return
            for url in run_urls(self._url, limits=_LIMITS):
                if url not in self._parts and url != self._url:
                    self._parts[url] = JournalFollower(open_store(url))
