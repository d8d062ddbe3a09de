import contextlib
import os
import random
import sqlite3
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.databases import sqlite as sqlite_file
from outlast.databases.sqlite import SQLiteFile
from outlast.queue import (
    Failure,
    Item,
    ItemRefused,
    Lease,
    LeaseLost,
    LeaseTerms,
    Queue,
    QueueUnavailable,
    QueueUrlError,
    Settlement,
    open_queue,
)
from outlast.queue.sqlite.queue import SQLiteQueue
from outlast.queue.sqlite.ranges import ItemRange
from outlast.queue.sqlite.schema import SCHEMA
from outlast.testing import MemoryQueue

TERMS = LeaseTerms(worker="tester", lease_seconds=60.0, failures_max=3)


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'queue.db'}"


@pytest.fixture
def queue(url: str, clock: Clock) -> Iterator[SQLiteQueue]:
    with contextlib.closing(SQLiteQueue(url, clock=clock, boot="first")) as queue:
        yield queue


def claimed(queue: Queue, limit: int = 100) -> Lease:
    lease = queue.claim(limit, TERMS)
    assert lease is not None
    return lease


def numbered(count: int) -> dict[str, int]:
    return {f"{number:06}": number for number in range(count)}


def count(queue: SQLiteQueue, table: str) -> int:
    with queue._file.reading() as connection:
        [found] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found)


# Every order of events gives what the simple queue in memory gives.


class Pair:
    """A queue on disk and the one in memory, to which the same happens."""

    def __init__(self, folder: str, seed: int) -> None:
        self.clock = Clock()
        self.disk = SQLiteQueue(f"sqlite:///{folder}/q.db", clock=self.clock, boot="first")
        self.memory = MemoryQueue(clock=self.clock)
        self.random = random.Random(seed)
        self.published = 0
        self.leases: list[tuple[Lease, Lease]] = []

    def publish(self, count: int) -> None:
        start = max(0, self.published - 2)
        self.published = start + count
        items = {f"{number:04}": number for number in range(start, start + count)}
        assert self.disk.publish(items) == self.memory.publish(items)

    def claim(self, limit: int) -> None:
        self.keep(self.disk.claim(limit, TERMS), self.memory.claim(limit, TERMS))

    def settle(self, limit: int) -> None:
        if not self.leases:
            return
        leases = self.random.choice(self.leases)
        keys = [item.key for item in leases[0].items]
        settlement = self.settlement(keys)
        answers = [
            attempt(self.disk, leases[0], settlement, limit),
            attempt(self.memory, leases[1], settlement, limit),
        ]
        if LeaseLost in answers:
            assert answers == [LeaseLost, LeaseLost]
            self.leases.remove(leases)
        else:
            self.keep(*answers)

    def extend(self, _amount: int) -> None:
        if not self.leases:
            return
        leases = self.random.choice(self.leases)
        assert is_extended(self.disk, leases[0]) == is_extended(self.memory, leases[1])

    def wait(self, amount: int) -> None:
        self.clock.seconds += amount * 7.0

    def retry(self, amount: int) -> None:
        keys = None if amount % 2 else [f"{number:04}" for number in range(amount)]
        assert self.disk.retry_dead(keys) == self.memory.retry_dead(keys)

    def settlement(self, keys: list[str]) -> Settlement:
        done, failed, released = [], [], []
        for key in keys:
            fate = self.random.choice(["done", "done", "fail", "delay", "final", "release", "keep"])
            if fate == "done":
                done.append(key)
            elif fate == "release":
                released.append(key)
            elif fate != "keep":
                delay = 20.0 if fate == "delay" else 0.0
                failed.append(Failure(key, fate, delay_seconds=delay, is_final=fate == "final"))
        return Settlement(tuple(done), tuple(failed), tuple(released))

    def keep(self, disk: Lease | None, memory: Lease | None) -> None:
        assert (disk is None) == (memory is None)
        if disk is not None and memory is not None:
            assert disk.items == memory.items
            self.leases.append((disk, memory))

    def check(self) -> None:
        assert self.disk.stats()[:5] == self.memory.stats()[:5]
        dead = [sorted(letters(queue)) for queue in (self.disk, self.memory)]
        assert dead[0] == dead[1]


def attempt(queue: Queue, lease: Lease, settlement: Settlement, limit: int) -> Any:
    try:
        return queue.settle(lease, settlement, TERMS, claim=limit)
    except LeaseLost:
        return LeaseLost


def is_extended(queue: Queue, lease: Lease) -> bool:
    try:
        queue.extend(lease, TERMS)
    except LeaseLost:
        return False
    return True


def letters(queue: Queue) -> list[tuple[Any, tuple[str, ...]]]:
    # The second in which it was noted may differ.
    return [
        (letter.item, tuple(error.partition(" ")[2] for error in letter.errors))
        for letter in queue.dead_letters()
    ]


ACTS = ("publish", "claim", "claim", "settle", "settle", "settle", "extend", "wait", "retry")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 12)), max_size=40),
    st.integers(0, 1000),
)
def test_whatever_happens_it_does_what_the_simple_queue_does(
    acts: list[tuple[str, int]], seed: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="outlast-pair-") as folder:
        pair = Pair(folder, seed)
        pair.publish(12)
        for name, amount in acts:
            getattr(pair, name)(amount)
            pair.check()
        pair.disk.close()


# Cost


def test_a_chunk_costs_one_row_however_large_it_is(queue: SQLiteQueue) -> None:
    queue.publish(numbered(5000))

    lease = claimed(queue, 2000)

    assert len(lease.items) == 2000
    assert count(queue, "outlast_runs") == 2
    queue.settle(lease, Settlement(done=tuple(item.key for item in lease.items)), TERMS)
    assert count(queue, "outlast_runs") == 1


def test_many_delayed_items_come_back_a_thousand_at_a_time(
    queue: SQLiteQueue, clock: Clock
) -> None:
    queue.publish(numbered(2500))
    lease = claimed(queue, 2500)
    failed = tuple(Failure(item.key, "no", delay_seconds=5.0) for item in lease.items)
    queue.settle(lease, Settlement(failed=failed), TERMS)
    clock.seconds += 6.0

    sizes = [len(claimed(queue, 2500).items) for _ in range(3)]

    assert sizes == [1000, 1000, 500]


def test_an_idle_queue_is_not_written_to(queue: SQLiteQueue, url: str) -> None:
    queue.claim(1, TERMS)
    log = Path(url.removeprefix("sqlite:///") + "-wal")
    before = log.stat().st_size

    for _ in range(10):
        assert queue.claim(1, TERMS) is None

    assert log.stat().st_size == before


# Blame


def test_an_item_that_is_done_leaves_no_errors_behind(queue: SQLiteQueue) -> None:
    queue.publish(numbered(3))
    failed = tuple(Failure(key, "no") for key in numbered(3))
    queue.settle(claimed(queue), Settlement(failed=failed), TERMS)
    assert count(queue, "outlast_failures") == 3

    queue.settle(claimed(queue), Settlement(done=tuple(numbered(3))), TERMS)

    assert count(queue, "outlast_failures") == 0


def test_the_worker_that_died_is_the_one_that_is_named(queue: SQLiteQueue, clock: Clock) -> None:
    queue.publish(numbered(2))
    terms = TERMS._replace(worker="victim")
    lease = queue.claim(2, terms)
    assert lease is not None
    queue.settle(lease, Settlement(done=("000000",)), terms)
    clock.seconds += 61.0

    queue.claim(1, TERMS._replace(worker="finder", failures_max=1))

    [letter] = queue.dead_letters()
    assert "victim: The worker died" in letter.errors[0]


# Clocks


def test_after_a_reboot_every_lease_has_expired_and_every_delay_is_over(
    queue: SQLiteQueue, url: str
) -> None:
    queue.publish(numbered(3))
    lease = claimed(queue, 1)
    queue.settle(lease, Settlement(failed=(Failure("000000", "no", delay_seconds=3600),)), TERMS)
    lost = claimed(queue, 2)
    queue.close()

    # The clock counts from the boot: it is behind where it was.
    with contextlib.closing(SQLiteQueue(url, clock=lambda: 1.0, boot="second")) as after:
        with pytest.raises(LeaseLost):
            after.extend(lost, TERMS)
        found = {item.key for _ in range(3) for item in claimed(after, 1).items}

    assert found == set(numbered(3))


def test_the_wall_clock_may_move_by_an_hour(
    queue: SQLiteQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish(numbered(4))
    first = claimed(queue, 1)
    wall_seconds = time.time()

    tokens = [first.token]
    for moved_seconds in (3600.0, -3600.0, -7200.0):
        monkeypatch.setattr(time, "time", lambda moved=moved_seconds: wall_seconds + moved)
        lease = claimed(queue, 1)
        tokens.append(lease.token)
        queue.settle(lease, Settlement(done=(lease.items[0].key,)), TERMS)
    queue.settle(queue.extend(first, TERMS), Settlement(done=("000000",)), TERMS)

    assert tokens == sorted(set(tokens))
    stats = queue.stats()
    assert stats.done == 4
    assert stats.oldest_seconds is None


def test_the_age_of_an_item_is_never_negative(
    queue: SQLiteQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish({"a": 1})

    monkeypatch.setattr(time, "time", lambda: 0.0)

    assert queue.stats().oldest_seconds == 0.0


def test_waiting_for_a_turn_costs_no_lease(
    queue: SQLiteQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)
    clock.seconds += 59.0
    begin = queue._file.begin

    def slowly(*arguments: Any) -> Any:
        connection = begin(*arguments)
        clock.seconds += 30.0
        return connection

    monkeypatch.setattr(queue._file, "begin", slowly)

    # Asked in time, served late: nobody else had it in between.
    queue.extend(lease, TERMS)
    clock.seconds += 50.0
    queue.settle(lease, Settlement(done=("a",)), TERMS)

    assert queue.stats().done == 1


# Addresses


def test_a_path_is_relative_with_three_slashes_and_absolute_with_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    open_queue("sqlite:///here.db").close()
    open_queue(f"sqlite:///{tmp_path}/there%20%C3%A4.db").close()

    assert (tmp_path / "here.db").exists()
    assert (tmp_path / "there ä.db").exists()


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/file", "sqlite:///a.db?x=1"],
)
def test_an_address_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(QueueUrlError, match="does not name a file") as raised:
        open_queue(url)

    assert "sqlite:///file" in str(raised.value.hint)


def test_a_queue_with_a_table_in_its_address_is_refused(url: str) -> None:
    with pytest.raises(QueueUrlError, match="names a table, but queues use their own tables"):
        open_queue(url + "#jobs")


def test_one_file_has_one_place_by_whatever_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first = open_queue(f"sqlite:///{tmp_path}/q.db")
    second = open_queue(f"sqlite:///{tmp_path}/link/q.db")

    assert first.database == second.database
    first.close()
    second.close()


# Files that cannot be used


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.db").write_bytes(b"these are my notes, not a database" * 100)

    with pytest.raises(QueueUnavailable, match=r"Could not open '.*q\.db': file is not") as seen:
        open_queue(f"sqlite:///{tmp_path}/q.db")

    assert "created by Outlast" in str(seen.value.hint)
    assert (tmp_path / "q.db").read_bytes().startswith(b"these are my notes")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(QueueUnavailable, match=r"Could not open .*: No such file") as seen:
        open_queue(f"sqlite:///{tmp_path}/missing/q.db")

    assert "Check that its folder exists" in str(seen.value.hint)


def test_a_file_of_a_newer_version_is_refused(queue: SQLiteQueue, url: str) -> None:
    with queue._file.writing() as connection:
        connection.execute("UPDATE outlast_queue SET format = 99")

    with pytest.raises(QueueUnavailable, match="has format 99, but this version supports only 2"):
        open_queue(url)


FORMAT_1 = """
CREATE TABLE outlast_items (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, payload TEXT NOT NULL
);
CREATE TABLE outlast_runs (
    lease INTEGER NOT NULL, last INTEGER NOT NULL, first INTEGER NOT NULL,
    failures INTEGER NOT NULL, suspects INTEGER NOT NULL, published REAL NOT NULL,
    until REAL NOT NULL, worker TEXT NOT NULL, PRIMARY KEY (lease, last)
) WITHOUT ROWID;
CREATE TABLE outlast_delayed (
    due REAL NOT NULL, item INTEGER NOT NULL, failures INTEGER NOT NULL,
    published REAL NOT NULL, PRIMARY KEY (due, item)
) WITHOUT ROWID;
CREATE TABLE outlast_failures (
    item INTEGER NOT NULL, number INTEGER NOT NULL, error TEXT NOT NULL,
    PRIMARY KEY (item, number)
) WITHOUT ROWID;
CREATE TABLE outlast_dead (item INTEGER PRIMARY KEY, failures INTEGER NOT NULL);
CREATE TABLE outlast_queue (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), format INTEGER NOT NULL,
    boot TEXT NOT NULL, token INTEGER NOT NULL, wakes REAL NOT NULL, since REAL NOT NULL,
    done INTEGER NOT NULL, before_seconds REAL NOT NULL, before_done INTEGER NOT NULL
);
INSERT INTO outlast_queue VALUES (1, 1, 'first', 1760000000000000, 1060, 0, 0, 0, 0);
INSERT INTO outlast_items VALUES (1, 'leased', '1'), (2, 'ready', '2'), (3, 'ready too', '3');
INSERT INTO outlast_runs VALUES (1760000000000000, 1, 1, 0, 0, 0, 1060, 'older');
INSERT INTO outlast_runs VALUES (0, 3, 2, 0, 0, 0, 0, '');
PRAGMA journal_mode=WAL;
"""


def test_a_file_of_an_older_version_is_brought_up_to_date(url: str, clock: Clock) -> None:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as older:
        older.executescript(FORMAT_1)

    with contextlib.closing(SQLiteQueue(url, clock=clock, boot="first")) as queue:
        assert queue.stats()[:5] == (2, 0, 1, 0, 0)
        first = claimed(queue, 1)
    with contextlib.closing(SQLiteQueue(url, clock=clock, boot="first")) as again:
        second = claimed(again, 1)
        # No lease of the older version is given twice, and those that it gave stay valid.
        assert (first.token, second.token) == (1760000000000001, 1760000000000002)
        assert first.queue == second.queue
        assert len(first.queue) == 32
        held = Lease(1760000000000000, (Item("leased", "1"),), 0.0, (ItemRange(1, 1),))
        again.settle(held, Settlement(done=("leased",)), TERMS)
        assert again.stats().done == 1


def test_processes_that_open_an_old_file_at_once_bring_it_up_to_date_once(url: str) -> None:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as older:
        older.executescript(FORMAT_1)
    start = threading.Barrier(3)

    def claim(_: int) -> str:
        start.wait()
        with contextlib.closing(open_queue(url)) as queue:
            return claimed(queue, 1).queue

    with ThreadPoolExecutor(3) as pool:
        names = set(pool.map(claim, range(3)))

    assert len(names) == 1


def test_two_queues_have_two_identities(tmp_path: Path) -> None:
    names = set()
    for name in "ab":
        with contextlib.closing(open_queue(f"sqlite:///{tmp_path}/{name}.db")) as queue:
            queue.publish({"a": 1})
            names.add(claimed(queue).queue)

    assert len(names) == 2


def test_items_removed_by_another_program_are_noticed(queue: SQLiteQueue) -> None:
    queue.publish(numbered(5))
    with queue._file.writing() as connection:
        connection.execute("DELETE FROM outlast_items WHERE number = 3")

    with pytest.raises(QueueUnavailable, match="some of the items 1 to 5 are missing"):
        queue.claim(5, TERMS)

    assert keys(claimed(queue, 2)) == ["000000", "000001"]


def keys(lease: Lease) -> list[str]:
    return [item.key for item in lease.items]


def test_a_program_that_holds_the_file_is_waited_for_and_then_named(
    queue: SQLiteQueue, url: str
) -> None:
    with queue._file.reading() as connection:
        connection.execute("PRAGMA busy_timeout = 100")
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(QueueUnavailable, match=r"Could not write .*: database is locked") as seen:
        queue.claim(1, TERMS)

    assert "Another program has locked the file" in str(seen.value.hint)
    other.execute("ROLLBACK")
    other.close()
    assert queue.claim(1, TERMS) is None


def test_a_process_that_holds_the_lock_for_long_is_named(
    queue: SQLiteQueue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "WAIT_SECONDS", 0.1)
    other = SQLiteQueue(url)

    with (
        other._file.writing(),
        pytest.raises(QueueUnavailable, match=rf"locked for 0 s by process {os.getpid()}") as seen,
    ):
        queue.claim(1, TERMS)

    assert "resume or kill it" in str(seen.value.hint)
    assert queue.claim(1, TERMS) is None
    other.close()


def test_a_closed_queue_says_so(queue: SQLiteQueue) -> None:
    queue.close()
    queue.close()

    with pytest.raises(QueueUnavailable, match="is closed"):
        queue.claim(1, TERMS)


def test_a_child_of_a_fork_uses_a_connection_of_its_own(queue: SQLiteQueue) -> None:
    queue.publish(numbered(2))
    claimed(queue, 1)

    of_parent = queue._file._connection

    with warnings.catch_warnings():
        # Newer versions of Python warn that other threads of the tests are not copied.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        lease = queue.claim(1, TERMS)
        is_right = lease is not None and keys(lease) == ["000001"]
        os._exit(0 if is_right and queue._file._connection is not of_parent else 1)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert queue.claim(1, TERMS) is None
    assert queue.stats().leased == 2


def test_a_file_with_tables_of_its_own_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    mine = sqlite3.connect(path)
    mine.execute("CREATE TABLE items (name TEXT)")
    mine.execute("INSERT INTO items VALUES ('precious')")
    mine.commit()
    mine.close()

    queue = open_queue(f"sqlite:///{path}")
    queue.publish({"a": 1})
    queue.close()

    mine = sqlite3.connect(path)
    assert mine.execute("SELECT name FROM items").fetchall() == [("precious",)]
    mine.close()


@pytest.mark.parametrize("kind", ["lustre", "ceph", "beegfs", "fuse.juicefs"])
def test_a_file_on_a_network_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 254:0 / / rw,relatime - {kind} server:/x rw\n")
    monkeypatch.setattr("outlast.storage.local.folders._MOUNTS", mounts)

    with pytest.raises(QueueUnavailable, match="is on a network or FUSE file system") as seen:
        open_queue(f"sqlite:///{tmp_path}/q.db")

    assert seen.value.permanent


def test_dead_letters_come_page_by_page_whatever_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.queue.sqlite.queue._PAGE_ITEMS", 3)
    queue = SQLiteQueue(f"sqlite:///{tmp_path}/jobs.db")
    queue.publish({f"{number}": number for number in range(8)})
    lease = queue.claim(10, TERMS)
    assert lease is not None
    failed = tuple(Failure(f"{number}", "no", is_final=True) for number in range(8))
    queue.settle(lease, Settlement(failed=failed), TERMS)

    listed = [letter.item.value for letter in queue.iter_dead_letters()]
    named: list[int] = []
    queue.retry_dead([f"{number}" for number in range(5)], on_progress=named.append)

    assert listed == list(range(8))
    assert named == [3, 2]
    assert queue.retry_dead() == 3
    queue.close()


def test_an_item_beyond_the_limit_of_sqlite_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.queue.sqlite.queue._ITEM_BYTES_MAX", 1000)
    queue = SQLiteQueue(f"sqlite:///{tmp_path}/jobs.db")

    with pytest.raises(
        ItemRefused, match=r"'large' has 1,007 bytes; SQLite allows at most 1,000\."
    ):
        queue.publish([("small", 1), ("large", "x" * 1000)])

    assert queue.stats().ready == 0
    queue.close()


@pytest.mark.parametrize(("share", "mode"), [("none", 0o600), ("group", 0o660)])
def test_the_files_of_a_new_queue_are_private_unless_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: str, mode: int
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", share)
    before = os.umask(0o022)
    try:
        queue = SQLiteQueue(f"sqlite:///{tmp_path}/jobs.db")
        queue.publish([Item("a", "1")])
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        queue.close()
    finally:
        os.umask(before)

    names = ("jobs.db", "jobs.db-lock", "jobs.db-shm", "jobs.db-wal")
    assert modes == dict.fromkeys(names, mode)


def test_an_existing_queue_keeps_its_mode(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    SQLiteQueue(url).close()
    (tmp_path / "jobs.db").chmod(0o664)

    SQLiteQueue(url).close()

    assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o664


def test_a_schema_from_outside_is_not_trusted(tmp_path: Path) -> None:
    file = SQLiteFile(
        tmp_path / "x.db", schema=SCHEMA, table="outlast_items", unavailable=QueueUnavailable
    )
    with file.reading() as own, file.staging() as other:
        for connection in (own, other):
            assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
            assert connection.execute("PRAGMA cell_size_check").fetchone() == (1,)
    file.close()
