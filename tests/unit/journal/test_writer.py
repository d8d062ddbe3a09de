"""The writer and the reader on stores that work, fail, hang and answer ambiguously."""

import os
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlast.journal import (
    Dropped,
    JournalWriter,
    Metrics,
    Progress,
    RunFinished,
    Saved,
    read_journal,
)
from outlast.journal.lines import Segment, SegmentName, encode, encode_segment, parse_name
from outlast.journal.writer import LINE_BYTES_MAX, Backlog
from outlast.storage import (
    ROUTINE,
    Buffer,
    Limits,
    StorageError,
    StorageTimeout,
    Store,
    StoreUnavailable,
    final,
)
from outlast.storage.local.store import LocalStore
from outlast.storage.memory import MemoryStore
from tests.patience import PATIENCE_SECONDS

AT = datetime(2026, 8, 21, 10, 30, tzinfo=UTC)


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "run")


def progress(*steps: int) -> list[Progress]:
    return [Progress(at=AT, step=step) for step in steps]


def quiet(store: Store, attempt: int = 1, **settings: float) -> JournalWriter:
    """A writer that writes only when it is told to."""
    return JournalWriter(store, attempt, background=False, **settings)  # type: ignore[arg-type]


def names(store: Store) -> list[str]:
    return [entry.name for entry in store.list()]


class Faulty(MemoryStore):
    """Raises what `faults` holds instead of, or after, creating an object."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: Iterator[tuple[str, Exception] | None] = iter(())

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        fault = next(self.faults, None)
        if fault is None or fault[0] == "after":
            super().create(name, parts, limits=limits)
        if fault is not None:
            raise fault[1]


class Hanging(MemoryStore):
    """The first `create` takes until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        if not self.entered.is_set():
            self.entered.set()
            assert self.release.wait(PATIENCE_SECONDS)
        super().create(name, parts, limits=limits)


# Writing and reading


def test_what_was_recorded_is_read_attempt_by_attempt(store: Store) -> None:
    for attempt in (12, 3, 1_000_000):
        journal = quiet(store, attempt)
        for event in progress(attempt, attempt + 1):
            journal.record(event)
        assert journal.close()

    records = read_journal(store)

    assert [record.attempt for record in records] == [3, 12, 1_000_000]
    assert [list(record.events) for record in records] == [
        progress(attempt, attempt + 1) for attempt in (3, 12, 1_000_000)
    ]


def test_each_flush_makes_one_segment_and_an_empty_one_makes_none(store: Store) -> None:
    journal = quiet(store, 7)
    assert journal.flush()
    for step in (1, 2):
        journal.record(Progress(at=AT, step=step))
        assert journal.flush()
    assert journal.close()

    assert names(store) == ["journal/000007-000001.jsonl", "journal/000007-000002.jsonl"]
    [record] = read_journal(store)
    assert list(record.events) == progress(1, 2)


def test_two_writers_of_one_attempt_overwrite_nothing(store: Store) -> None:
    first, second = quiet(store), quiet(store)
    for step in range(1, 7):
        journal = first if step % 2 else second
        journal.record(Progress(at=AT, step=step))
        assert journal.flush()

    [record] = read_journal(store)

    assert list(record.events) == progress(1, 2, 3, 4, 5, 6)
    assert record.writers == 2


def test_a_run_without_a_journal_has_no_attempts(store: Store) -> None:
    assert read_journal(store) == []


def test_objects_that_are_no_segments_are_passed_over(store: Store) -> None:
    store.create("journal/readme.txt", [b"hello"])
    store.create("journal/000001-1.jsonl", [b"hello"])
    store.create("journal/000001-000001.jsonl", [encode(Progress(at=AT, step=1))])

    [record] = read_journal(store)

    assert list(record.events) == progress(1)


def test_a_segment_that_is_damaged_is_read_as_far_as_possible(store: Store) -> None:
    line = encode(Progress(at=AT, step=1))
    store.create("journal/000001-000001.jsonl", [line, line[:20]])
    store.create("journal/000001-000002.jsonl", [b"\xff\xff\xff"])

    [record] = read_journal(store)

    assert list(record.events) == progress(1)
    assert record.garbled == 2


def test_a_batch_that_was_written_twice_is_read_once(store: Store) -> None:
    data = encode_segment(Segment("writer", 1)) + encode(Progress(at=AT, step=1))
    store.create("journal/000001-000001.jsonl", [data])
    store.create("journal/000001-000005.jsonl", [data])

    [record] = read_journal(store)

    assert list(record.events) == progress(1)


def test_names_are_padded_and_read_back() -> None:
    name = SegmentName(attempt=7, segment=1)

    assert str(name) == "journal/000007-000001.jsonl"
    assert parse_name(str(name)) == name
    assert parse_name("journal/000007.jsonl") is None


# Failing stores


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", [StoreUnavailable, StorageTimeout, OSError])
def test_a_flush_that_failed_is_made_up_for_by_the_next(
    when: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    store = Faulty()
    store.faults = iter([(when, error("The store is down."))] * 3)
    journal = quiet(store)
    for step in (1, 2, 3, 4):
        journal.record(Progress(at=AT, step=step))
        journal.flush()

    [record] = read_journal(store)

    assert journal.close()
    assert list(record.events) == progress(1, 2, 3, 4)
    assert len(caplog.records) <= 1
    # A server that fails after a write that lasted is found out at once.
    if when == "before" or error is OSError:
        assert "retrying later" in caplog.text
        assert "The store is down." in caplog.text


def test_a_store_that_fails_again_later_is_reported_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Faulty()
    down = ("before", StoreUnavailable("The store is down."))
    store.faults = iter([down, down, None, None, down, down])
    journal = quiet(store)

    flushed = []
    for step in range(6):
        journal.record(Progress(at=AT, step=step))
        flushed.append(journal.flush())

    assert flushed == [False, False, True, False, False, True]
    assert len(caplog.records) == 2


def test_recording_into_a_store_that_is_down_stays_within_bounds_and_tells_the_gap() -> None:
    store = Faulty()
    store.faults = iter([("before", StoreUnavailable("down"))] * 50)
    journal = quiet(store, buffer_bytes_max=20_000)
    journal.record(RunFinished(at=AT, step=0))
    journal.flush()
    for step in range(1, 5001):
        journal.record(Progress(at=AT, step=step))
        if step == 10:
            journal.record(
                Saved(at=AT, step=10, stall_seconds=0, seconds=1, bytes_total=1, bytes_new=1)
            )
    store.faults = iter(())

    assert journal.flush()

    [record] = read_journal(store)
    steps = [event.step for event in record.events if isinstance(event, Progress)]
    assert steps == list(range(steps[0], 5001))
    assert any(isinstance(event, Saved) for event in record.events)
    assert record.events[-1] == Dropped(at=record.events[-1].at, count=5000 - len(steps))
    assert sum(entry.size_bytes for entry in store.list()) < 25_000


def test_an_event_that_cannot_be_written_is_missed_and_nothing_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    journal = quiet(store)
    for _ in range(3):
        journal.record(Metrics(at=AT, step=1, values={"x": object()}))  # type: ignore[dict-item]
    journal.record(Progress(at=AT, step=2))

    assert journal.close()

    [record] = read_journal(store)
    assert record.events[0] == Progress(at=AT, step=2)
    assert isinstance(record.events[1], Dropped)
    assert record.events[1].count == 3
    assert len(caplog.records) == 1
    assert "Could not record a Metrics event (TypeError: A object cannot" in caplog.text


def test_a_final_flush_does_not_wait_for_one_that_hangs() -> None:
    store = Hanging()
    journal = JournalWriter(store, 1)
    journal.record(RunFinished(at=AT, step=1))
    assert store.entered.wait(PATIENCE_SECONDS)
    journal.record(Progress(at=AT, step=2))

    assert journal.close(limits=final(5.0))

    written = read_journal(store)
    store.release.set()
    assert [list(record.events) for record in written] == [
        [RunFinished(at=AT, step=1), Progress(at=AT, step=2)]
    ]


def test_nothing_is_written_once_the_journal_is_closed() -> None:
    store = Hanging()
    journal = JournalWriter(store, 1)
    journal.record(RunFinished(at=AT, step=1))
    assert store.entered.wait(PATIENCE_SECONDS)
    threading.Timer(0.1, store.release.set).start()

    assert journal.close()

    # The write that was in progress has ended too.
    assert journal._thread is not None
    assert not journal._thread.is_alive()


def test_a_final_flush_keeps_to_its_limits() -> None:
    seen: list[float] = []

    class Watched(MemoryStore):
        def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
            seen.append(limits.total_seconds_max)
            raise StorageTimeout("It took too long.")

    journal = quiet(Watched())
    journal.record(Progress(at=AT, step=1))

    assert not journal.close(limits=final(0.5))

    assert max(seen) <= 0.5


def test_the_reader_tells_when_a_store_cannot_be_read() -> None:
    class Unreadable(MemoryStore):
        def read(
            self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
        ) -> bytes:
            raise StoreUnavailable("The store is down.")

    store = Unreadable()
    store.create("journal/000001-000001.jsonl", [b""])

    with pytest.raises(StorageError, match=r"The store is down\."):
        read_journal(store)


# When it is written


class Telling(MemoryStore):
    """Lets a test wait for a segment."""

    def __init__(self) -> None:
        super().__init__()
        self.created = threading.Semaphore(0)

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        super().create(name, parts, limits=limits)
        self.created.release()


def test_a_prompt_event_is_written_without_being_told_to() -> None:
    store = Telling()
    journal = JournalWriter(store, 1, flush_seconds=3600.0)
    journal.record(RunFinished(at=AT, step=1))

    assert store.created.acquire(timeout=PATIENCE_SECONDS)
    journal.close()

    [record] = read_journal(store)
    assert list(record.events) == [RunFinished(at=AT, step=1)]


def test_events_that_are_not_prompt_wait_for_the_next_flush() -> None:
    now = [1000.0]
    journal = JournalWriter(
        MemoryStore(), 1, flush_seconds=60.0, background=False, now=lambda: now[0]
    )
    assert journal._seconds_until_due() == float("inf")
    journal.record(Progress(at=AT, step=1))
    assert journal._seconds_until_due() <= 0
    journal.flush()

    journal.record(Progress(at=AT, step=2))
    now[0] += 20
    assert journal._seconds_until_due() == 40
    journal.record(RunFinished(at=AT, step=2))
    assert journal._seconds_until_due() <= 0
    journal.flush()

    journal.record(RunFinished(at=AT, step=2))
    assert journal._seconds_until_due() == 1


def test_a_failed_flush_waits_before_it_is_tried_again() -> None:
    now = [1000.0]
    store = Faulty()
    store.faults = iter([("before", StoreUnavailable("down"))])
    journal = JournalWriter(store, 1, flush_seconds=60.0, background=False, now=lambda: now[0])
    journal.record(RunFinished(at=AT, step=1))

    assert not journal.flush()

    assert journal._seconds_until_due() == 60


def test_many_threads_may_record_at_once() -> None:
    store = MemoryStore()
    journal = JournalWriter(store, 1, flush_seconds=0.001)

    def record(thread: int) -> None:
        for number in range(200):
            journal.record(Progress(at=AT, step=thread * 1000 + number))
            if number % 50 == 0:
                assert journal.flush()

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.close()

    [record_read] = read_journal(store)
    steps = [event.step for event in record_read.events if isinstance(event, Progress)]
    assert sorted(steps) == sorted(t * 1000 + n for t in range(4) for n in range(200))
    for number in range(4):
        own = [step for step in steps if step // 1000 == number]
        assert own == sorted(own)


def test_nothing_is_recorded_after_the_end(store: Store) -> None:
    journal = quiet(store)
    journal.record(Progress(at=AT, step=1))
    journal.close()
    journal.record(Progress(at=AT, step=2))
    journal.close()

    [record] = read_journal(store)

    assert list(record.events) == progress(1)


def test_a_forked_child_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    journal = quiet(store)
    journal.record(Progress(at=AT, step=1))
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)

    journal.record(Progress(at=AT, step=2))
    assert not journal.flush()

    monkeypatch.undo()
    assert journal.flush()
    [record] = read_journal(store)
    assert list(record.events) == progress(1)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="attempt is -1; expected a number of at least 0"):
        JournalWriter(MemoryStore(), -1)
    with pytest.raises(ValueError, match="flush_seconds is 0; expected a number above 0"):
        JournalWriter(MemoryStore(), 1, flush_seconds=0)


# The backlog


def test_a_full_backlog_drops_the_oldest_minor_lines_first() -> None:
    backlog = Backlog(bytes_max=4)
    for data, minor in ((b"1", True), (b"2", False), (b"3", True), (b"4", False), (b"5", False)):
        backlog.add(data, minor=minor)
    backlog.add(b"6", minor=False)
    backlog.add(b"7", minor=False)

    assert backlog.dropped == 3
    assert backlog.take() == [b"4", b"5", b"6", b"7"]
    assert (len(backlog), backlog.dropped) == (0, 0)


def test_a_line_that_is_far_too_long_is_dropped() -> None:
    backlog = Backlog(bytes_max=10**9)
    backlog.add(bytes(LINE_BYTES_MAX + 1), minor=False)

    assert (len(backlog), backlog.dropped) == (0, 1)
