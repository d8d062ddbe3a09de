"""Following a journal: the same figures as reading it, for one listing and the new segments."""

import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import outlast
from outlast.journal.derive import summarize
from outlast.journal.events import (
    AttemptExited,
    AttemptInterrupted,
    AttemptStarted,
    Event,
    Metrics,
    NoticeArrived,
    Progress,
    Resumed,
    Saved,
    StepsPlanned,
    UnknownEvent,
)
from outlast.journal.follow import JournalFollower, run_urls
from outlast.journal.lines import Segment, SegmentName, encode, encode_segment
from outlast.journal.reader import read_journal
from outlast.storage import open_store
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.memory import MemoryStore
from outlast.storage.protocol import StoreEntry
from tests.servers.moto import BUCKET
from tests.servers.places import object_store_environ

START = datetime(2026, 11, 1, tzinfo=UTC)
SEEDS = range(30)
SEGMENTS = 10_000
MEMORY_BYTES_MAX = 20e6


class CountingStore(MemoryStore):
    """A store in memory that counts what it is asked."""

    lists = 0
    reads = 0

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        self.lists += 1
        return super().list(prefix, limits=limits)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        self.reads += 1
        return super().read(name, start=start, length=length, limits=limits)


def segment_of(events: list[Event], batch: int, *, writer: str = "w", junk: bytes = b"") -> bytes:
    return b"".join([encode_segment(Segment(writer, batch)), *map(encode, events), junk])


def lives(chance: random.Random) -> Iterator[tuple[SegmentName, bytes]]:
    """The segments of several attempts, with everything that goes wrong in journals."""
    seconds, step, segment = 0.0, 0, 0
    for attempt in range(1, chance.randrange(2, 5)):
        segment, events = 0, list[Event]()
        now = START + timedelta(seconds=seconds)
        events.append(AttemptStarted(at=now, attempt=attempt, host="n", pid=1, pod=f"p{attempt}"))
        step = max(0, step - chance.randrange(6))
        if chance.random() < 0.7:
            events.append(Resumed(at=now, step=step, seconds=1.0, bytes_read=1))
        events.append(StepsPlanned(at=now, steps=1000))
        for _ in range(chance.randrange(3, 12)):
            for _ in range(chance.randrange(4)):
                step += chance.randrange(3)
                seconds += chance.choice([-1.0, 0.5, 2.0])
                events.append(_any_event(chance, START + timedelta(seconds=seconds), step))
            segment += 1
            junk = b"{junk\n" if chance.random() < 0.1 else b""
            writer = "other" if chance.random() < 0.05 else "w"
            data = segment_of(events, segment, writer=writer, junk=junk)
            yield SegmentName(attempt, segment), data
            if chance.random() < 0.1:
                segment += 1
                yield SegmentName(attempt, segment), data
            events = []
        seconds += 30
        if chance.random() < 0.6:
            now = START + timedelta(seconds=seconds)
            last: list[Event] = [
                NoticeArrived(at=now, source="signal", reason="SIGTERM", seconds_left=13.0),
                AttemptInterrupted(at=now, step=step, reason="SIGTERM"),
                AttemptExited(at=now, exit_code=75, step=step),
            ]
            yield SegmentName(attempt, segment + 1), segment_of(last, segment + 1)
        seconds += 20


def _any_event(chance: random.Random, at: datetime, step: int) -> Event:
    kinds: list[Event] = [
        Progress(at=at, step=step),
        Metrics(at=at, step=step, values={"loss": 0.5}),
        UnknownEvent(at=at, name="later", extra={"x": 1}),
        Saved(
            at=at,
            step=step,
            stall_seconds=chance.random(),
            seconds=1.0,
            bytes_total=9,
            bytes_new=1,
        ),
        Progress(at=at, step=-1),
        # A second process that acts as the same attempt.
        Resumed(at=at, step=step, seconds=1.0, bytes_read=1),
    ]
    return chance.choices(kinds, weights=[60, 20, 5, 10, 2, 3])[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_at_every_moment_the_figures_are_those_of_the_whole_journal(seed: int) -> None:
    chance = random.Random(seed)
    store = MemoryStore()
    follower = JournalFollower(store)

    for name, data in lives(chance):
        store.create(str(name), [data])
        if chance.random() < 0.5:
            follower.look()
            assert summarize(follower.records) == summarize(read_journal(store))
    follower.look()

    assert summarize(follower.records) == summarize(read_journal(store))
    assert not follower.look()


def test_a_look_costs_one_listing_and_each_segment_is_read_once() -> None:
    store = CountingStore()
    follower = JournalFollower(store)
    for number in range(1, 6):
        progress = Progress(at=START, step=number)
        store.create(str(SegmentName(1, number)), [segment_of([progress], number)])
        follower.look()
        follower.look()

    assert (store.lists, store.reads) == (10, 5)


def test_a_run_that_was_deleted_and_started_again_is_not_mixed_with_its_past() -> None:
    store = MemoryStore()
    follower = JournalFollower(store)
    names = [str(SegmentName(1, number)) for number in (1, 2)]
    for number, name in enumerate(names, start=1):
        store.create(name, [segment_of([Progress(at=START, step=100 + number)], number)])
    follower.look()

    store.delete(names)
    assert follower.look()
    assert follower.records == []
    store.create(names[0], [segment_of([Progress(at=START, step=7)], 1)])
    assert follower.look()

    assert summarize(follower.records).attempts[0].last_step == 7


def test_a_segment_that_cannot_be_read_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.storage.errors import Unreadable

    store = MemoryStore()
    follower = JournalFollower(store)
    store.create(str(SegmentName(1, 1)), [segment_of([Progress(at=START, step=1)], 1)])

    def unreadable(*_: object, **__: object) -> bytes:
        raise Unreadable("Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(store, "read", unreadable)
        assert follower.look()
        assert not follower.look()
        assert follower.records[0].garbled == 1
    assert follower.look()

    assert (follower.records[0].garbled, len(follower.records[0].events)) == (0, 1)


FOLLOWING = """
import re, sys
from pathlib import Path
from outlast.journal.derive import summarize
from outlast.journal.follow import JournalFollower
from outlast.storage.local.store import LocalStore

# Not getrusage, whose maximum includes that of the process that started this one.
def peak_kib():
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

follower = JournalFollower(LocalStore(sys.argv[1]))
before = peak_kib()
assert follower.look() and not follower.look()
grown_kib = peak_kib() - before
print(grown_kib * 1024, summarize(follower.records).attempts[0].last_step)
"""


def test_a_week_of_segments_takes_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    metrics = [Metrics(at=START, step=10**9 + n, values={"loss": 0.1}) for n in range(4)]
    saved = Saved(at=START, step=10**9, stall_seconds=0.1, seconds=9.0, bytes_total=1, bytes_new=1)
    template = segment_of([*metrics, saved], 10**9)
    for number in range(1, SEGMENTS + 1):
        data = template.replace(b"100000000", b"%d" % number)
        (folder / f"000001-{number:06}.jsonl").write_bytes(data)

    done = subprocess.run(
        [sys.executable, "-c", FOLLOWING, str(tmp_path)], capture_output=True, text=True, check=True
    )

    grown_bytes, last_step = map(int, done.stdout.split())
    assert 0 < grown_bytes <= MEMORY_BYTES_MAX
    assert last_step == 10 * SEGMENTS + 3


def test_the_runs_of_an_indexed_job_are_found_below_one_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: str
) -> None:
    for name, value in object_store_environ("s3", s3_server).items():
        monkeypatch.setenv(name, value)
    for base in (str(tmp_path / "runs"), f"s3://{BUCKET}/follow-{uuid.uuid4().hex}"):
        assert run_urls(base) == []
        for index in ("0", "2", "10"):
            monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
            with outlast.Run(base, {"x": np.zeros(1)}) as run:
                list(run.steps(int(index) + 1))

        urls = run_urls(base)

        assert urls == [f"{base}/{index}" for index in (0, 2, 10)]
        assert [summarize(follow(url).records).steps_done for url in urls] == [1, 3, 11]
        # Each of them is a run, and a run is found at its own URL.
        assert run_urls(urls[1]) == [urls[1]]


def follow(url: str) -> JournalFollower:
    follower = JournalFollower(open_store(url))
    follower.look()
    return follower
