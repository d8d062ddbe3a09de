"""What every store promises, whatever keeps its bytes."""

import contextlib
import errno
import mmap
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlast.storage import (
    AlreadyExists,
    BadName,
    NotFound,
    Store,
    StoreUnavailable,
    TooShort,
    create_or_confirm,
    final,
    open_store,
)
from outlast.storage.local.store import Commit, LocalStore
from outlast.storage.memory import MemoryStore
from tests.patience import PATIENCE_SECONDS
from tests.servers.faults import forgetting_to_say_so
from tests.servers.moto import BUCKET
from tests.servers.places import fuse_mount, object_store_environ
from tests.servers.writer import is_whole

MIB = 1024**2
ROOT = Path(__file__).parents[2]
FUSE = pytest.param("fuse", marks=pytest.mark.needs("fuse"))
KINDS = ("memory", "local", "local-without-links", "local-sealed", FUSE, "s3", "gs")
# Those that another process can open too.
SHARED_KINDS = ("local", "local-sealed", FUSE, "s3", "gs")
HOSTILE_NAMES = (
    "",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a//b",
    "a/",
    ".hidden",
    "a/.tmp/x",
    "a\nb",
    "a\n",
    "a\0b",
    "a b",
    "a\\b",
    "a~sealed",
    "ä",
    "a?b",
    "x" * 201,
    "x/" * 400 + "x",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A store, and how a process of its own opens the same one."""

    store: Store
    commit: str = "-"
    environ: dict[str, str] = field(default_factory=dict)


@pytest.fixture(params=KINDS)
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opened]:
    kind: str = request.param
    with contextlib.ExitStack() as stack:
        if kind == "memory":
            yield Opened(store=MemoryStore())
        elif kind == "local":
            yield Opened(store=open_store(tmp_path / "run"))
        elif kind == "local-without-links":
            refuse_links(monkeypatch)
            yield Opened(store=open_store(tmp_path / "run"), commit="SEAL")
        elif kind == "local-sealed":
            yield Opened(store=LocalStore(tmp_path / "run", commit=Commit.SEAL), commit="SEAL")
        elif kind == "fuse":
            yield Opened(store=open_store(stack.enter_context(fuse_mount(tmp_path)) / "run"))
        else:
            server = request.getfixturevalue("s3_server" if kind == "s3" else "gcs_server")
            environ = object_store_environ(kind, server)
            for name, value in environ.items():
                monkeypatch.setenv(name, value)
            store = open_store(f"{kind}://{BUCKET}/{uuid.uuid4().hex}/run")
            yield Opened(store=store, environ=environ)


@pytest.fixture
def store(opened: Opened) -> Store:
    return opened.store


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "refused")

    monkeypatch.setattr("outlast.storage.local.aside.os.link", refuse)
    monkeypatch.setattr("outlast.storage.local.aside._rename_noreplace", refuse)
    monkeypatch.setattr("os.rename", refuse)
    monkeypatch.setattr("os.replace", refuse)


def aligned(data: bytes) -> memoryview:
    memory = memoryview(mmap.mmap(-1, max(1, len(data))))[: len(data)]
    memory[:] = data
    return memory


def unaligned(data: bytes) -> memoryview:
    memory = memoryview(bytearray(len(data) + 1))[1:]
    memory[:] = data
    return memory


# Creating and reading


def test_what_was_created_is_read_back_and_listed(store: Store) -> None:
    store.create("manifests/000001.json", [b"hel", b"", memoryview(b"lo")])

    assert store.read("manifests/000001.json") == b"hello"
    [entry] = store.list()
    assert (entry.name, entry.size_bytes) == ("manifests/000001.json", 5)
    assert abs(entry.modified - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_existing_object_is_never_replaced(store: Store) -> None:
    store.create("a", [b"first"])

    with pytest.raises(AlreadyExists, match="'a' already exists"):
        store.create("a", [b"second"])

    assert store.read("a") == b"first"


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.create("empty", [])

    assert store.read("empty") == b""
    assert [entry.size_bytes for entry in store.list()] == [0]
    with pytest.raises(AlreadyExists):
        store.create("empty", [])


def test_a_missing_object_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="'a/b' does not exist"):
        store.read("a/b")
    with pytest.raises(NotFound):
        store.read("a/b", start=3, length=2)
    with pytest.raises(NotFound):
        store.read_into("a/b", bytearray(3))
    with pytest.raises(NotFound):
        store.read_into("a/b", bytearray())


def test_a_range_is_read_like_a_slice(store: Store) -> None:
    data = b"0123456789"
    store.create("a", [data])

    for start in (0, 3, 8, 10, 99):
        assert store.read("a", start=start) == data[start:]
        for length in (0, 1, 4, 100):
            assert store.read("a", start=start, length=length) == data[start : start + length]


def test_a_buffer_is_filled_exactly(store: Store) -> None:
    store.create("a", [b"0123456789"])
    buffer = bytearray(b"-" * 8)

    store.read_into("a", memoryview(buffer)[2:6], start=3)

    assert buffer == b"--3456--"


def test_several_buffers_are_filled_in_order(store: Store) -> None:
    data = random.Random(2).randbytes(9 * MIB + 5)
    store.create("a", [data])
    sizes = (3, 0, 4096, 8 * MIB, 1, 100_000)
    buffers = [unaligned(bytes(size)) for size in sizes]

    store.read_into("a", *buffers, start=7)

    assert b"".join(map(bytes, buffers)) == data[7:][: sum(sizes)]


def test_an_object_that_ends_too_early_is_reported(store: Store) -> None:
    store.create("a", [b"0123456789"])

    with pytest.raises(TooShort, match="'a'"):
        store.read_into("a", bytearray(5), bytearray(5), start=1)

    for start, length in ((0, 11), (8, 3), (10, 1), (50, 1)):
        with pytest.raises(TooShort, match="'a'"):
            store.read_into("a", bytearray(length), start=start)


def test_read_only_memory_is_refused_as_a_target(store: Store) -> None:
    store.create("a", [b"abc"])

    with pytest.raises(TypeError, match="writable"):
        store.read_into("a", bytes(3))


def test_a_single_buffer_is_not_mistaken_for_a_sequence(store: Store) -> None:
    with pytest.raises(TypeError, match="put a single buffer in a list"):
        store.create("a", b"abc")  # type: ignore[arg-type]  # this mistake is the point


def test_a_large_object_survives_the_round_trip(store: Store) -> None:
    # Just above what one conditional request may carry, with an odd end.
    data = random.Random(1).randbytes(64 * MIB + 4099)

    store.create("packs/large", [aligned(data)])

    found = aligned(bytes(len(data)))
    store.read_into("packs/large", found)
    assert bytes(found) == data
    assert store.read("packs/large", start=33 * MIB + 1, length=5) == data[33 * MIB + 1 :][:5]
    with pytest.raises(AlreadyExists):
        store.create("packs/large", [aligned(data)])


@pytest.mark.parametrize("seed", range(6))
def test_any_mix_of_sources_and_ranges_gives_the_same_bytes(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice((1, 4095, 4096, 8192, MIB, 2 * MIB + 7)) for _ in range(4)]
    data = [chance.randbytes(size) for size in sizes]
    places = [chance.choice((aligned, unaligned, bytes)) for _ in sizes]

    store.create("mixed", [place(part) for place, part in zip(places, data, strict=True)])

    whole = b"".join(data)
    assert store.read("mixed") == whole
    for place in (aligned, unaligned):
        start = chance.choice((0, 4096, chance.randrange(len(whole))))
        found = place(bytes(chance.randint(0, len(whole) - start)))
        store.read_into("mixed", found, start=start)
        assert bytes(found) == whole[start : start + len(found)]


def test_memory_of_any_shape_is_taken_as_its_bytes(store: Store) -> None:
    numbers = memoryview(bytes(range(24))).cast("I", shape=[2, 3])

    store.create("a", [numbers])

    assert store.read("a") == bytes(range(24))


# Listing and deleting


def test_a_listing_is_sorted_and_follows_the_prefix(store: Store) -> None:
    for name in ("b/2", "a", "b/10", "b/c/1", "bb", "c/1"):
        store.create(name, [b"x"])

    assert [entry.name for entry in store.list()] == ["a", "b/10", "b/2", "b/c/1", "bb", "c/1"]
    assert [entry.name for entry in store.list("b/")] == ["b/10", "b/2", "b/c/1"]
    assert [entry.name for entry in store.list("b/1")] == ["b/10"]
    assert [entry.name for entry in store.list("b")] == ["b/10", "b/2", "b/c/1", "bb"]
    assert store.list("nothing/here/") == []


def test_deleting_twice_is_fine(store: Store) -> None:
    store.create("a/1", [b"x"])
    store.create("a/2", [b"x"])

    store.delete(["a/1", "a/none", "none/none"])
    store.delete(["a/1"])

    assert [entry.name for entry in store.list()] == ["a/2"]
    with pytest.raises(NotFound):
        store.read("a/1")


def test_a_deleted_name_can_be_used_again(store: Store) -> None:
    store.create("a", [b"first"])
    store.delete(["a"])

    store.create("a", [b"second"])

    assert store.read("a") == b"second"


@pytest.mark.parametrize(
    "call",
    [
        lambda store, name: store.create(name, [b"x"]),
        lambda store, name: store.read(name),
        lambda store, name: store.read_into(name, bytearray(1)),
        lambda store, name: store.delete([name]),
    ],
    ids=["create", "read", "read_into", "delete"],
)
def test_hostile_names_are_refused(store: Store, call: Callable[[Store, str], None]) -> None:
    for name in HOSTILE_NAMES:
        with pytest.raises(BadName, match="is not a valid object name"):
            call(store, name)

    assert store.list() == []


def test_a_prefix_that_no_name_has_is_refused(store: Store) -> None:
    for prefix in ("../", "/", ".tmp/", "a\nb", "a//"):
        with pytest.raises(BadName, match="is not a valid prefix"):
            store.list(prefix)


# Limits


def test_final_limits_do_for_a_store_that_is_well(store: Store) -> None:
    store.create("a", [b"x"], limits=final(PATIENCE_SECONDS))

    assert store.read("a", limits=final(PATIENCE_SECONDS)) == b"x"
    assert len(store.list(limits=final(PATIENCE_SECONDS))) == 1
    store.delete(["a"], limits=final(PATIENCE_SECONDS))


# Commits


def test_confirming_takes_our_own_bytes_as_success(store: Store) -> None:
    store.create("manifest", [b"save 7f3a"])

    create_or_confirm(store, "manifest", b"save 7f3a")


@pytest.mark.parametrize("theirs", [b"save 0000", b"save 7f3a and more", b"", b"save"])
def test_confirming_refuses_what_another_wrote(store: Store, theirs: bytes) -> None:
    store.create("manifest", [theirs])

    with pytest.raises(AlreadyExists):
        create_or_confirm(store, "manifest", b"save 7f3a")


def test_sixteen_threads_that_create_one_name_have_one_winner(store: Store) -> None:
    barrier = threading.Barrier(16)
    won: list[int] = []
    lost: list[int] = []

    def create(number: int) -> None:
        barrier.wait()
        try:
            store.create("attempts/000001", [b"%d" % number])
        except AlreadyExists:
            lost.append(number)
        else:
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(won), len(lost)) == (1, 15)
    assert store.read("attempts/000001") == b"%d" % won[0]


@pytest.mark.parametrize("attempts_max", [1, 4])
def test_a_503_after_a_write_that_lasted_is_found_to_be_a_success(
    s3_server: str, monkeypatch: pytest.MonkeyPatch, attempts_max: int
) -> None:
    limits = replace(final(PATIENCE_SECONDS), attempts_max=attempts_max)
    with forgetting_to_say_so(s3_server, writes=1) as server:
        for name, value in object_store_environ("s3", server).items():
            monkeypatch.setenv(name, value)
        store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}")

        create_or_confirm(store, "manifest", b"save 7f3a", limits=limits)

        assert store.read("manifest") == b"save 7f3a"


def test_a_run_written_through_a_mount_is_not_taken_for_an_empty_one(
    s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_store_environ("s3", s3_server).items():
        monkeypatch.setenv(name, value)
    folder = uuid.uuid4().hex
    url = f"{s3_server}/{BUCKET}/{folder}/manifest~sealed"
    urllib.request.urlopen(urllib.request.Request(url, data=b"x", method="PUT")).close()

    with pytest.raises(StoreUnavailable, match="written through a mounted folder"):
        open_store(f"s3://{BUCKET}/{folder}").list()


# Real processes


@pytest.mark.parametrize("opened", SHARED_KINDS, indirect=True)
def test_sixteen_processes_that_create_one_name_have_one_winner(opened: Opened) -> None:
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(program(opened, "race", f"process {number}"))
            for number in range(16)
        ]
        for racer in racers:
            assert line(racer) == "ready"
        for racer in racers:
            go(racer)
        answers = [line(racer) for racer in racers]

    assert sorted(answers) == ["lost"] * 15 + ["won"]
    winner = f"process {answers.index('won')}"
    assert opened.store.read("attempts/000001") == winner.encode()


@pytest.mark.parametrize("opened", SHARED_KINDS, indirect=True)
def test_a_killed_writer_never_leaves_a_torn_object(opened: Opened) -> None:
    seed = 20260
    chance = random.Random(seed)
    said: list[str] = []
    # A server outlives its writers, so a kill has fewer places to do harm there.
    lives = 8 if opened.environ else 16

    for life in range(lives):
        with program(opened, "write", f"life{life}") as writer:
            assert line(writer) == "ready"
            go(writer)
            # Half of them get to write something, however slow the machine is.
            if life % 2:
                said.append(line(writer))
            time.sleep(chance.uniform(0.0, 0.06))
            writer.kill()
            assert writer.stdout is not None
            said += writer.stdout.read().splitlines()

    listed = {entry.name: entry for entry in opened.store.list()}
    for name, entry in listed.items():
        data = opened.store.read(name)
        assert is_whole(data), f"{name} is torn (seed {seed})"
        assert len(data) == entry.size_bytes
    # The last line may have been cut by the kill; all others were said after the object lasted.
    assert {name for name in said if len(name.rpartition("-")[2]) == 6} <= listed.keys()
    assert len(said) >= lives // 2


@contextlib.contextmanager
def program(opened: Opened, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    task, name = arguments
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.servers.writer",
            task,
            opened.store.url,
            opened.commit,
            name,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **opened.environ},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
