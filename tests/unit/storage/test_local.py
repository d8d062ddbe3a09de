"""Folders that fail, fill up or vanish, and mounts that cannot be trusted."""

import errno
import mmap
import os
import random
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.storage import (
    AccessDenied,
    AlreadyExists,
    BadURL,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreFull,
    StoreUnavailable,
    create_or_confirm,
    final,
    open_store,
)
from outlast.storage.local import sealed_files
from outlast.storage.local.aside import LEFTOVER_SECONDS_MIN, file_aside
from outlast.storage.local.sealed_files import seal
from outlast.storage.local.store import Commit, LocalStore
from outlast.storage.protocol import byte_views

MIB = 1024**2
BOTH = pytest.mark.parametrize("commit", Commit, ids=[commit.name.lower() for commit in Commit])


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Failing file systems


@pytest.fixture
def tiny_volume(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mount)]
    subprocess.run(command, check=True, capture_output=True)
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


@BOTH
@pytest.mark.needs("mount-namespace")
def test_a_full_disk_is_reported_and_leaves_nothing(tiny_volume: Path, commit: Commit) -> None:
    store = LocalStore(tiny_volume, commit=commit)
    store.create("small", [b"x"])

    with pytest.raises(StoreFull, match="No space left on device") as caught:
        store.create("large", [bytes(3 * MIB)])

    assert caught.value.hint == "Free some space, or raise the quota."
    assert [entry.name for entry in store.list()] == ["small"]
    store.create("next", [bytes(MIB // 2)])


@BOTH
def test_a_file_size_limit_is_reported_as_full(tmp_path: Path, commit: Commit) -> None:
    store = LocalStore(tmp_path, commit=commit)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    try:
        with pytest.raises(StoreFull, match="File too large"):
            store.create("large", [bytes(3 * MIB)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert store.list() == []
    assert files_in(tmp_path) == []


@BOTH
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, StoreUnavailable),
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EROFS, AccessDenied),
        (errno.ESTALE, StoreUnavailable),
    ],
    ids=lambda value: errno.errorcode.get(value) if isinstance(value, int) else None,
)
@pytest.mark.parametrize("which", [1, 2])
def test_a_failed_sync_fails_the_create_and_leaves_nothing_listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commit: Commit,
    number: int,
    kind: type[StorageError],
    which: int,
) -> None:
    store = LocalStore(tmp_path, commit=commit)
    left = [which]

    def fsync(fd: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", fsync)

    with pytest.raises(kind, match="Could not write 'a'") as caught:
        store.create("a", [b"x"])

    assert caught.value.hint
    assert isinstance(caught.value.__cause__, OSError)
    assert store.list() == []
    with pytest.raises(NotFound):
        store.read("a")


def test_a_folder_that_may_not_be_written_denies_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere, so the refusal is played.
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(AccessDenied, match="Permission denied"):
        LocalStore(tmp_path / "run").create("a", [b"x"])


def test_a_volume_that_vanishes_is_reported_and_not_filled_anew(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "run")
    store.create("a", [b"x"])
    (tmp_path / "run").rename(tmp_path / "elsewhere")

    for call in (
        lambda: store.create("b", [b"x"]),
        lambda: store.read("a"),
        lambda: store.list(),
    ):
        with pytest.raises(StoreUnavailable, match="is gone"):
            call()
    assert not (tmp_path / "run").exists()


def test_a_file_in_place_of_a_folder_is_not_called_an_existing_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", [b"x"])

    with pytest.raises(StoreUnavailable, match="Not a directory"):
        store.create("a/b", [b"x"])
    with pytest.raises(NotFound):
        store.read("a/b")


def test_the_folder_of_other_names_is_no_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a/b", [b"x"])

    with pytest.raises(NotFound):
        store.read("a")
    store.delete(["a"])
    assert store.read("a/b") == b"x"


@BOTH
def test_a_write_that_misses_its_time_is_dropped(tmp_path: Path, commit: Commit) -> None:
    store = LocalStore(tmp_path, commit=commit)

    with pytest.raises(StorageTimeout, match=r"took longer than the 0\.1 s allowed"):
        store.create("a", [bytes(MIB)] * 4000, limits=final(0.05))

    assert store.list() == []
    assert files_in(tmp_path) == []


def test_nothing_but_the_bytes_is_in_the_file(tmp_path: Path) -> None:
    LocalStore(tmp_path).create("manifests/1.json", [b"{}"])

    assert (tmp_path / "manifests/1.json").read_bytes() == b"{}"
    assert files_in(tmp_path) == ["manifests/1.json"]


def test_files_of_others_are_left_out_of_the_listing(tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("x")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x").write_text("x")
    (tmp_path / "my link").symlink_to(tmp_path)

    assert LocalStore(tmp_path).list() == []


def test_without_hard_links_a_file_is_renamed_into_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "refused")

    monkeypatch.setattr("os.link", refuse)
    store = LocalStore(tmp_path)
    store.create("a", [b"x"])

    with pytest.raises(AlreadyExists):
        store.create("a", [b"y"])

    assert files_in(tmp_path) == ["a"]
    assert store.read("a") == b"x"


# Leftovers


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_what_a_killed_writer_left_goes_after_an_hour_and_a_live_one_stays(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, commit=Commit.PUBLISH)
    store.create("a", [b"x"])
    hidden = tmp_path / ".outlast-tmp"
    old, young = (hidden / f"write-{digit * 32}" for digit in "01")
    for path in (old, young):
        path.write_bytes(b"torn")
    age(old, LEFTOVER_SECONDS_MIN + 60)
    folder = os.open(hidden, os.O_RDONLY)
    with file_aside(folder) as (_, live):
        age(hidden / live, LEFTOVER_SECONDS_MIN + 60)

        store.create("b", [b"x"])

        assert not old.exists()
        assert young.exists()
        assert (hidden / live).exists()
    os.close(folder)


def test_a_torn_sealed_file_keeps_its_name_for_an_hour(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, commit=Commit.SEAL)
    torn = tmp_path / "a~sealed"
    torn.write_bytes(b"torn")

    with pytest.raises(AlreadyExists) as caught:
        store.create("a", [b"x"])
    with pytest.raises(AlreadyExists):
        create_or_confirm(store, "a", b"x")
    assert (
        caught.value.hint == "If it is not listed, it is being written, or its writer was killed."
    )

    age(torn, LEFTOVER_SECONDS_MIN + 60)
    store.create("a", [b"x"])
    assert store.read("a") == b"x"


# Sealed files


def sealed_bytes(data: bytes, writer: bytes = b"w" * 16) -> bytes:
    return data + seal(byte_views([data]), len(data), writer=writer).pack()


def damages(data: bytes) -> dict[str, bytes]:
    whole = sealed_bytes(data)
    flipped = bytearray(whole)
    flipped[len(data) // 2] ^= 1
    damaged_seal = bytearray(whole)
    damaged_seal[-50] ^= 1
    return {
        "empty": b"",
        "no seal": data,
        "half": whole[: len(whole) // 2],
        "one byte short": whole[:-1],
        "one byte long": whole + b"x",
        "hole before the seal": bytes(len(data)) + whole[len(data) :],
        "flipped": bytes(flipped),
        "damaged seal": bytes(damaged_seal),
    }


@pytest.mark.parametrize("damage", damages(b"some bytes"))
def test_a_torn_sealed_file_is_neither_listed_nor_read(tmp_path: Path, damage: str) -> None:
    (tmp_path / "a~sealed").write_bytes(damages(b"some bytes")[damage])
    store = LocalStore(tmp_path)

    assert store.list() == []
    with pytest.raises(NotFound):
        store.read("a")
    with pytest.raises(NotFound):
        store.read_into("a", bytearray(2))


@pytest.mark.parametrize(
    "damage", ["no seal", "half", "one byte short", "one byte long", "damaged seal"]
)
def test_a_large_torn_sealed_file_is_neither_listed_nor_read(tmp_path: Path, damage: str) -> None:
    (tmp_path / "a~sealed").write_bytes(damages(os.urandom(2 * MIB))[damage])
    store = LocalStore(tmp_path)

    assert store.list() == []
    with pytest.raises(NotFound):
        store.read("a", start=5, length=5)


def test_objects_of_either_kind_are_read_wherever_they_were_written(tmp_path: Path) -> None:
    plain = LocalStore(tmp_path, commit=Commit.PUBLISH)
    sealing = LocalStore(tmp_path, commit=Commit.SEAL)
    plain.create("a", [b"plain"])
    sealing.create("b", [b"sealed"])

    for store in (plain, sealing):
        assert [(entry.name, entry.size_bytes) for entry in store.list()] == [("a", 5), ("b", 6)]
        assert store.read("a") + store.read("b") == b"plainsealed"
        for name in ("a", "b"):
            with pytest.raises(AlreadyExists):
                store.create(name, [b"x"])


def ignore_exclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount on which exclusive create is not exclusive."""
    real = os.open

    def careless(path: str, flags: int, mode: int = 0o777, **others: int) -> int:
        return real(path, flags & ~os.O_EXCL, mode, **others)

    monkeypatch.setattr("os.open", careless)


def test_an_object_is_spared_even_where_exclusive_create_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, commit=Commit.SEAL)
    store.create("a", [b"first"])
    ignore_exclusive(monkeypatch)

    with pytest.raises(AlreadyExists):
        store.create("a", [b"second"])

    assert store.read("a") == b"first"


def test_a_writer_overtaken_on_such_a_mount_is_told_and_spares_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignore_exclusive(monkeypatch)
    store = LocalStore(tmp_path, commit=Commit.SEAL)

    def overtake(_: int) -> None:
        (tmp_path / "a~sealed").write_bytes(sealed_bytes(b"theirs"))

    monkeypatch.setattr(sealed_files, "sync_folder", overtake)

    with pytest.raises(AlreadyExists):
        store.create("a", [b"ours"])

    assert store.read("a") == b"theirs"


def test_an_error_at_closing_is_an_error_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, commit=Commit.SEAL)
    real = os.close

    def close(fd: int) -> None:
        real(fd)
        monkeypatch.undo()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.close", close)

    with pytest.raises(StoreUnavailable, match="Input/output error"):
        store.create("a", [b"x"])

    assert store.list() == []


# Addresses


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_folder_is_opened_by_path_or_url(tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{scheme}{tmp_path}")

    store.create("a", [b"x"])

    assert (tmp_path / "a").exists()
    assert open_store(store.url).read("a") == b"x"


def test_a_url_with_escapes_means_the_folder_it_spells(tmp_path: Path) -> None:
    open_store(f"file://{tmp_path}/my%20run").create("a", [b"x"])

    assert (tmp_path / "my run" / "a").exists()


def test_a_file_url_with_a_host_is_refused() -> None:
    with pytest.raises(BadURL, match="contains a host, 'folder'"):
        open_store("file://folder/run")


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadURL, match="'ftp'") as caught:
        open_store("ftp://host/run")

    assert caught.value.hint is not None
    assert all(scheme in caught.value.hint for scheme in ("gs://", "s3://", "az://", "file://"))


@pytest.mark.parametrize(
    "url",
    ["gs:/bucket/run", "s3:bucket/run", "GS:/bucket/run", "file:run", Path("gs://bucket/run")],
    ids=str,
)
def test_a_url_that_lacks_a_slash_does_not_become_a_folder(
    url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadURL, match="would be a local folder, because '//' is missing") as caught:
        open_store(url)

    scheme, _, rest = str(url).partition(":")
    assert f"Write '{scheme}://{rest.lstrip('/')}'" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["~", "~/run", Path("~/run")], ids=str)
def test_a_tilde_does_not_become_a_folder(url: str | Path) -> None:
    with pytest.raises(BadURL, match="would be a folder named '~'") as caught:
        open_store(url)

    assert "os.path.expanduser" in str(caught.value.hint)


def test_a_folder_may_have_the_name_of_a_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    open_store(tmp_path / "gs:").create("a", [b"x"])
    open_store("my:run").create("a", [b"x"])

    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["gs:", "my:run"]


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(BadURL, match="empty"):
        open_store("")


def test_memory_stores_are_shared_by_name() -> None:
    open_store("memory://shared-by-name").create("a", [b"x"])

    assert open_store("memory://shared-by-name").read("a") == b"x"
    assert open_store("memory://another").list() == []


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="There is no direct I/O to compare with.")
@pytest.mark.parametrize("skipped", [0, 1, 64, 4096], ids=lambda count: f"memory at {count}")
@pytest.mark.parametrize("start", [0, 3, 4096, 1024**2 + 7])
@pytest.mark.parametrize("cached", ["all", "none", "half"])
def test_the_same_bytes_are_read_from_the_disk_and_from_the_page_cache(
    tmp_path: Path, cached: str, start: int, skipped: int
) -> None:
    data = random.Random(start).randbytes(6 * 1024**2 + 5)
    store = open_store(str(tmp_path))
    store.create("x", [data])
    fill_page_cache(tmp_path / "x", {"all": len(data), "half": len(data) // 2, "none": 0}[cached])
    memory = memoryview(mmap.mmap(-1, 8 * 1024**2))[skipped:][: len(data) - start]

    store.read_into("x", memory, start=start)

    assert memory == data[start:]


def fill_page_cache(path: Path, size_bytes: int) -> None:
    """Have this much of a file in the page cache, and no more if the kernel agrees."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.read(size_bytes)
