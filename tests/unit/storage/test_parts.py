"""The pure parts of storage: limits, names, seals, mounts; and moving bytes past the cache."""

import errno
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.storage import ROUTINE, Limits, StorageTimeout, final
from outlast.storage.limits import Countdown
from outlast.storage.local import direct as direct_module
from outlast.storage.local.direct import read_all, write_all
from outlast.storage.local.folders import file_system_type, is_remote_type
from outlast.storage.local.sealed_files import SEAL_BYTES, seal, unpack
from outlast.storage.objects.store import _rounded
from outlast.storage.protocol import byte_views, folder_of, is_name, writable_view

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:39 / /data rw shared:5 - fuse.gcsfuse bucket rw
31 30 0:40 / /data/local rw - ext4 /dev/vdb rw
32 22 0:41 / /my\\040share rw - nfs4 server:/x rw
33 22 0:42 / /twice rw - ext4 /dev/vdc rw
34 22 0:43 / /twice rw - virtiofs share rw
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/work", "ext4"),
        ("/data", "fuse.gcsfuse"),
        ("/data/runs/7", "fuse.gcsfuse"),
        ("/data/local/x", "ext4"),
        ("/database", "ext4"),
        ("/my share/run", "nfs4"),
        ("/twice/x", "virtiofs"),
    ],
)
def test_a_folder_has_the_type_of_the_mount_that_shows_it(folder: str, kind: str) -> None:
    assert file_system_type(Path(folder), MOUNTS) == kind


@pytest.mark.parametrize(
    "kind",
    "nfs nfs4 cifs smb3 9p afs virtiofs lustre ceph gpfs beegfs ocfs2 gfs2 glusterfs fuse "
    "fuse.gcsfuse fuse.ceph fuse.glusterfs fuse.juicefs".split(),
)
def test_a_file_system_of_several_machines_is_remote(kind: str) -> None:
    assert is_remote_type(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", ""])
def test_a_file_system_of_one_machine_is_not_remote(kind: str) -> None:
    assert not is_remote_type(kind)


def test_final_limits_fit_into_the_time_that_is_left() -> None:
    for seconds_left in (-5.0, 0.0, 0.01, 0.3, 1.0, 7.0, 25.0, 600.0):
        limits = final(seconds_left)

        assert limits.total_seconds_max == max(seconds_left, 0.05)
        assert limits.connect_seconds_max <= limits.total_seconds_max
        assert limits.request_seconds_max <= limits.total_seconds_max


@pytest.mark.parametrize("seconds_left", [0.3, 7.0, 13.0, 25.0, 600.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_request_of_a_final_save_may_take_as_long_as_the_save_does(
    seconds_left: float, share: float
) -> None:
    limits = _rounded(final(seconds_left, needed_seconds=share * seconds_left))

    assert limits.request_seconds_max >= share * seconds_left


@pytest.mark.parametrize("seconds_left", [11.0, 13.0, 25.0, 600.0])
def test_a_final_save_that_is_quick_can_try_a_request_twice(seconds_left: float) -> None:
    limits = _rounded(final(seconds_left, needed_seconds=seconds_left / 10))

    assert limits.request_seconds_max <= seconds_left / 2


@pytest.mark.parametrize(
    "wrong", [{"total_seconds_max": 0.0}, {"connect_seconds_max": -1.0}, {"attempts_max": 0}]
)
def test_limits_that_allow_nothing_are_refused(wrong: dict[str, float]) -> None:
    right = {
        "connect_seconds_max": 1.0,
        "request_seconds_max": 1.0,
        "attempts_max": 1,
        "total_seconds_max": 1.0,
    }
    with pytest.raises(ValueError, match=r"above 0|at least 1"):
        Limits(**{**right, **wrong})  # type: ignore[arg-type]  # a table of numbers


def test_a_countdown_raises_when_its_time_is_over() -> None:
    now = iter([100.0, 100.0, 100.6, 101.0])
    countdown = Countdown(final(1.0), "Trying to write 'a'", now=lambda: next(now))

    assert countdown.seconds_left() == 1.0
    assert countdown.limits_left().total_seconds_max == pytest.approx(0.4)
    with pytest.raises(StorageTimeout, match=r"'a' took longer than the 1\.0 s allowed"):
        countdown.seconds_left()


def test_a_prefix_lies_in_one_folder() -> None:
    assert folder_of("") == ""
    assert folder_of("man") == ""
    assert folder_of("a/b/c") == "a/b"
    assert folder_of("a/b/") == "a/b"
    assert is_name("manifests/000000012500-000007.json")


@pytest.mark.parametrize("size", [0, 1, 1024**2, 1024**2 + 1])
def test_a_seal_says_what_was_sealed(size: int) -> None:
    data = random.Random(size).randbytes(size)
    ours = seal(byte_views([data[: size // 2], data[size // 2 :]]), size, writer=b"w" * 16)

    packed = ours.pack()

    assert len(packed) == SEAL_BYTES
    assert unpack(packed, size + SEAL_BYTES) == ours
    assert unpack(packed, size + SEAL_BYTES + 1) is None
    assert ours.vouches_for(data)
    assert not ours.vouches_for(data + b"x")


def test_memory_with_gaps_is_refused() -> None:
    with pytest.raises(TypeError, match="contiguous"):
        byte_views([memoryview(b"abcdef")[::2]])
    with pytest.raises(TypeError, match="contiguous"):
        writable_view(memoryview(bytearray(6))[::2])


# Direct I/O


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def countdown(seconds: float = ROUTINE.total_seconds_max) -> Countdown:
    return Countdown(replace(ROUTINE, total_seconds_max=seconds), "Trying")


def contents(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size + 1, 0)


def test_short_writes_and_refused_memory_still_give_the_same_file(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    parts = [chance.randbytes(size) for size in (3 * 1024**2 + 5, 4096, 7, 5 * 1024**2)]
    real = os.write

    def write(fd: int, data: memoryview) -> int:
        if direct_module._is_direct(fd) and chance.random() < 0.3:
            raise OSError(errno.EINVAL, "refused")
        return real(fd, data[: chance.choice((len(data), 512 * 8, 100_000))])

    monkeypatch.setattr("os.write", write)

    write_all(fd, byte_views(parts), countdown())

    assert contents(fd) == b"".join(parts)


def test_short_reads_and_refused_memory_still_fill_the_buffer(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(6)
    data = chance.randbytes(9 * 1024**2 + 77)
    write_all(fd, byte_views([data]), countdown())
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        if direct_module._is_direct(fd) and chance.random() < 0.2:
            raise OSError(errno.EINVAL, "refused")
        return real(fd, [buffers[0][: chance.choice((len(buffers[0]), 8192))]], offset)

    monkeypatch.setattr("os.preadv", preadv)

    for start in (0, 4096, 4097, 5 * 1024**2):
        buffer = memoryview(bytearray(len(data) - start))
        assert read_all(fd, buffer, start, countdown()) == len(buffer)
        assert buffer == data[start:]


def test_no_block_is_read_that_nobody_wanted(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random.Random(8).randbytes(9 * 1024**2)
    write_all(fd, byte_views([data]), countdown())
    monkeypatch.setattr(direct_module, "_is_cached", lambda *_: False)
    real, blocks = os.preadv, list[int]()

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        count = real(fd, buffers, offset)
        blocks.extend(range(offset // 4096, -(-(offset + count) // 4096)))
        return count

    monkeypatch.setattr("os.preadv", preadv)
    for start, length in ((0, 2 * 1024**2 + 4096), (4097, 5 * 1024**2), (8192, 1024**2 + 1)):
        blocks.clear()
        buffer = memoryview(bytearray(length + 1))[1:]

        assert read_all(fd, buffer, start, countdown()) == length

        assert buffer == data[start : start + length]
        assert set(blocks) == set(range(start // 4096, -(-(start + length) // 4096)))


def test_a_file_system_without_direct_io_gets_the_same_bytes(
    fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_module, "_go_direct", lambda fd: False)
    data = random.Random(7).randbytes(3 * 1024**2 + 1)

    write_all(fd, byte_views([data]), countdown())

    assert contents(fd) == data
    buffer = bytearray(len(data) + 10)
    assert read_all(fd, memoryview(buffer), 0, countdown()) == len(data)


def test_few_threads_read_from_a_disk_at_a_time(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random.Random(9).randbytes(2 * 1024**2)
    write_all(fd, byte_views([data]), countdown())
    monkeypatch.setattr(direct_module, "_is_cached", lambda *_: False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    turns = direct_module.ReadTurns()
    real, lock = os.preadv, threading.Lock()
    reading, most = 0, 0

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        time.sleep(0.005)
        with lock:
            reading -= 1
        return real(fd, buffers, offset)

    def read(_: int) -> bool:
        buffer = memoryview(bytearray(len(data) + 1))[1:]
        # Each with a descriptor of its own, as the store has.
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        try:
            assert read_all(own, buffer, 0, countdown(), turns=turns) == len(data)
        finally:
            os.close(own)
        return bool(buffer == data)

    monkeypatch.setattr("os.preadv", preadv)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(24)))

    assert most <= 2


def test_a_turn_that_does_not_come_in_time_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    turns = direct_module.ReadTurns()

    with turns.one(countdown()), turns.one(countdown()):
        with pytest.raises(StorageTimeout), turns.one(countdown(seconds=0.01)):
            pass
        # A forked child would wait forever for threads that it does not have.
        turns._renew()
        with turns.one(countdown()):
            pass
    with turns.one(countdown()):
        pass
