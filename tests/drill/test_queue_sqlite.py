"""The queue in one SQLite file, used by real processes that are killed, stopped and misled."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.queue import LeaseTerms, QueueUnavailable, Settlement, open_queue
from outlast.queue.sqlite.queue import SQLiteQueue
from outlast.results import Result, open_sink
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import Program, python
from tests.servers.places import fuse_mount

ITEMS = 1000

# Drains the queue, a chunk at a time, and stores each result with its acknowledgement.
DRAIN = """
import os, signal, sys, threading, time
from outlast.queue import LeaseLost, Settlement, LeaseTerms, open_queue
from outlast.results import Result, open_sink

url, name, chunk, moved_seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
gate, dies_after, dies_later_seconds = sys.argv[5], int(sys.argv[6]), float(sys.argv[7])
wall_clock = time.time
time.time = lambda: wall_clock() + moved_seconds
terms = LeaseTerms(worker=name, lease_seconds=1.0, failures_max=1000)
queue, sink = open_queue(url), open_sink(url)
print("ready")
while not os.path.exists(gate):
    time.sleep(0.01)
lease, taken = None, 0
while True:
    if dies_after == 0:
        threading.Timer(dies_later_seconds, os.kill, [os.getpid(), signal.SIGKILL]).start()
    try:
        if lease is None:
            lease = queue.claim(chunk, terms)
        else:
            results = [Result(item.key, item.payload) for item in lease.items]
            storing = sink.storing(results, token=lease.token, version="v1")
            outcome = Settlement(done=tuple(item.key for item in lease.items))
            following = queue.settle(lease, outcome, terms, storing=storing, claim=chunk)
            taken += len(lease.items)
            lease = following
            dies_after -= 1
            open(f"{url.removeprefix('sqlite:///')}-{name}-settled", "w").close()
    except LeaseLost:
        lease = None
    if lease is None:
        stats = queue.stats()
        if stats.ready == stats.delayed == stats.leased == 0:
            break
        time.sleep(0.02)
print(f"took {taken}")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def queue(url: str) -> Iterator[SQLiteQueue]:
    with contextlib.closing(SQLiteQueue(url)) as queue:
        yield queue


def drain(
    url: str,
    name: str,
    *,
    chunk: int = 7,
    moved_seconds: float = 0.0,
    gate: Path = Path("/"),
    dies: tuple[int, float] = (-1, 0.0),
) -> Program:
    """A program that drains the queue once `gate` exists.

    `dies`: after how many chunks, and how many seconds later, it kills itself.
    """
    numbers = (chunk, moved_seconds, gate, *dies)
    return python(DRAIN, url, name, *map(str, numbers))


def numbered(count: int) -> dict[str, int]:
    return {f"{number:06}": number for number in range(count)}


def check_all_done_once(url: str, path: Path, count: int) -> None:
    """Every item is done and has its own result, and the file is whole."""
    with contextlib.closing(open_queue(url)) as queue, contextlib.closing(open_sink(url)) as sink:
        assert queue.stats()[:5] == (0, 0, 0, count, 0)
        expected = [Result(key, str(number)) for key, number in numbered(count).items()]
        assert list(sink.results()) == expected
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_four_processes_share_the_items_without_overlap_and_nobody_starves(
    queue: SQLiteQueue, url: str, path: Path
) -> None:
    """How fair it is, and how long one waits, is measured in bench/."""
    gate = path.with_name("gate")
    published = ITEMS
    queue.publish(numbered(published))

    def everybody_has_a_share() -> bool:
        """There is always more to do until then, however long one of them is held up."""
        nonlocal published
        if len(list(path.parent.glob("*-settled"))) == 4:
            return True
        if queue.stats().ready == 0:
            published += ITEMS
            queue.publish(numbered(published))
        return False

    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(drain(url, f"w{n}", chunk=2, gate=gate)) for n in range(4)]
        for program in programs:
            program.wait_for("ready")
        gate.touch()
        eventually(everybody_has_a_share, "each has settled a chunk")
        shares = [int(program.wait_for("took").split()[1]) for program in programs]

    assert sum(shares) == published
    check_all_done_once(url, path, published)


def test_killed_at_random_again_and_again_nothing_is_lost_or_stored_twice(
    queue: SQLiteQueue, url: str, path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    randomly = random.Random(seed)
    queue.publish(numbered(20 * ITEMS))

    codes = []
    for number in range(15):
        dies = (randomly.randrange(8), randomly.uniform(0.0, 0.01))
        chunk = randomly.choice([1, 10, 50])
        with drain(url, f"w{number}", chunk=chunk, dies=dies) as program:
            codes.append(program.wait())
    with drain(url, "last", chunk=100) as program:
        program.wait_for("took")

    assert codes.count(137) > 3
    check_all_done_once(url, path, 20 * ITEMS)


def test_killed_inside_its_transaction_a_worker_leaves_nothing_and_blocks_nobody(
    queue: SQLiteQueue, url: str
) -> None:
    source = """
        import sys, time
        from outlast.queue import Settlement, LeaseTerms, open_queue
        from outlast.results import Result, open_sink

        queue, sink = open_queue(sys.argv[1]), open_sink(sys.argv[1])
        terms = LeaseTerms(worker="victim", lease_seconds=3600)
        lease = queue.claim(1, terms)

        def storing(connection):
            sink.storing([Result("000000", "1")], token=lease.token, version="v1")(connection)
            print("stored, not committed")
            time.sleep(3600)

        queue.settle(lease, Settlement(done=("000000",)), terms, storing=storing, claim=1)
    """
    queue.publish(numbered(3))
    with python(source, url) as program:
        program.wait_for("not committed")
        program.signal(signal.SIGKILL)
        program.wait()

    lease = queue.claim(3, LeaseTerms(worker="other"))

    assert lease is not None
    assert [item.key for item in lease.items] == ["000001", "000002"]
    assert queue.stats()[:4] == (0, 0, 3, 0)
    with contextlib.closing(open_sink(url)) as sink:
        assert sink.count() == 0


def test_a_worker_stopped_past_its_lease_cannot_settle_when_it_goes_on(
    queue: SQLiteQueue, url: str
) -> None:
    source = """
        import sys
        from outlast.queue import LeaseLost, Settlement, LeaseTerms, open_queue
        from outlast.results import Result, open_sink

        queue, sink = open_queue(sys.argv[1]), open_sink(sys.argv[1])
        terms = LeaseTerms(worker="sleeper", lease_seconds=0.5)
        lease = queue.claim(1, terms)
        print("claimed")
        while "on" not in open(sys.argv[2]).read():
            pass
        storing = sink.storing([Result("000000", '"late"')], token=lease.token, version="v1")
        try:
            queue.settle(lease, Settlement(done=("000000",)), terms, storing=storing)
        except LeaseLost as error:
            print("refused:", error)
    """
    gate = Path(url.removeprefix("sqlite:///")).with_name("gate")
    gate.touch()
    queue.publish(numbered(1))
    terms = LeaseTerms(worker="other")
    with python(source, url, str(gate)) as program, contextlib.closing(open_sink(url)) as sink:
        program.wait_for("claimed")
        program.signal(signal.SIGSTOP)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while (lease := queue.claim(1, terms)) is None:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        gate.write_text("on")
        program.signal(signal.SIGCONT)

        assert "no longer holds" in program.wait_for("refused")
        sink.store([Result("000000", '"in time"')], token=lease.token, version="v1")
        queue.settle(lease, Settlement(done=("000000",)), terms)

        assert list(sink.results()) == [Result("000000", '"in time"')]


def test_workers_whose_wall_clocks_are_an_hour_apart_share_a_queue(
    queue: SQLiteQueue, url: str, path: Path
) -> None:
    queue.publish(numbered(ITEMS))
    lease = queue.claim(10, LeaseTerms(worker="patient", lease_seconds=3600.0))
    assert lease is not None

    with (
        drain(url, "ahead", moved_seconds=3600.0) as ahead,
        drain(url, "behind", moved_seconds=-3600.0) as behind,
    ):
        eventually(lambda: queue.stats().done == ITEMS - 10, "all others are done")
        # Neither took it for expired, by whichever clock.
        results = [Result(item.key, item.payload) for item in lease.items]
        with contextlib.closing(open_sink(url)) as sink:
            sink.store(results, token=lease.token, version="v1")
        done = Settlement(done=tuple(item.key for item in lease.items))
        queue.settle(lease, done, LeaseTerms(worker="patient"))
        taken = [int(program.wait_for("took").split()[1]) for program in (ahead, behind)]

    assert sum(taken) == ITEMS - 10
    check_all_done_once(url, path, ITEMS)


def test_publishers_that_race_to_make_the_file_make_one(url: str, path: Path) -> None:
    source = """
        import sys
        from outlast.queue import open_queue
        from outlast.results import open_sink

        input_items = {f"{number:06}": number for number in range(1000)}
        sink, queue = open_sink(sys.argv[1]), open_queue(sys.argv[1])
        print("added", queue.publish(input_items).added)
    """
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(python(source, url)) for _ in range(4)]
        added = [int(program.wait_for("added").split()[1]) for program in programs]

    assert sum(added) == 1000
    assert Counter(added) == {0: 3, 1000: 1}
    with contextlib.closing(open_queue(url)) as queue:
        assert queue.stats().ready == 1000


@contextlib.contextmanager
def small_disk(tmp_path: Path, size: str) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(mount)]
    subprocess.run(command, check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


@pytest.mark.needs("mount-namespace")
def test_a_full_disk_refuses_clearly_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path, "2m") as disk:
        queue = SQLiteQueue(f"sqlite:///{disk}/queue.db")
        queue.publish({"a": 1, "b": 2})
        terms = LeaseTerms(worker="tester")
        lease = queue.claim(1, terms)
        assert lease is not None
        fill(disk / "ballast")

        with pytest.raises(QueueUnavailable, match=r"Could not write .*full") as seen:
            for number in range(10_000):
                queue.publish({f"more-{number}": "x" * 10_000})
        fill(disk / "more-ballast")
        with pytest.raises(QueueUnavailable, match="full"):
            queue.settle(lease, Settlement(done=("a",)), terms)
        assert "come back on their own" in str(seen.value.hint)
        assert queue.stats().leased == 1

        (disk / "ballast").unlink()
        queue.settle(lease, Settlement(done=("a",)), terms)
        assert queue.stats().done == 1
        queue.close()


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


@pytest.mark.needs("mount-namespace")
def test_a_file_that_may_only_be_read_is_refused_clearly(tmp_path: Path) -> None:
    with small_disk(tmp_path, "8m") as disk:
        with contextlib.closing(open_queue(f"sqlite:///{disk}/queue.db")) as queue:
            queue.publish({"a": 1})
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        with pytest.raises(QueueUnavailable, match=r"Could not .*[Rr]ead-?only") as seen:
            open_queue(f"sqlite:///{disk}/queue.db").claim(1, LeaseTerms(worker="tester"))

        assert "is writable" in str(seen.value.hint)


@pytest.mark.needs("fuse")
def test_a_file_on_a_fuse_or_network_mount_is_refused(tmp_path: Path) -> None:
    with fuse_mount(tmp_path) as mount:
        with pytest.raises(QueueUnavailable, match="on a network or FUSE file system") as seen:
            open_queue(f"sqlite:///{mount}/queue.db")

        assert "Use a local disk" in str(seen.value.hint)
        assert list(mount.iterdir()) == []


def test_a_damaged_file_is_named_and_not_worked_on(url: str, path: Path) -> None:
    with contextlib.closing(open_queue(url)) as queue:
        queue.publish(numbered(5000))
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(os.urandom(512))

    code = """if True:
        import sys
        from outlast.queue import LeaseTerms, open_queue

        open_queue(sys.argv[1]).claim(10, LeaseTerms(worker="w"))
    """
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True)

    assert done.returncode == 1
    assert "QueueUnavailable" in done.stderr
    assert "malformed" in done.stderr
    assert ".recover" in done.stderr
