"""A prepared folder cannot make the store read, write or delete anything elsewhere."""

import contextlib
import errno
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.errors import SettingError
from outlast.storage import (
    AccessDenied,
    AlreadyExists,
    StoreUnavailable,
    Unreadable,
    open_store,
)
from outlast.storage.local.aside import LEFTOVER_SECONDS_MIN
from outlast.storage.local.sealed_files import SUFFIX, Seal
from outlast.storage.local.store import Commit, LocalStore

BOTH = pytest.mark.parametrize("commit", Commit, ids=[commit.name.lower() for commit in Commit])
OLD = 10 * LEFTOVER_SECONDS_MIN


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of the user's with old files in it."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("thesis.tex", ".bashrc", "write-notes", f"write-{'0' * 32}"):
        aged(home / name)
    return home


def aged(path: Path) -> None:
    path.write_text("precious")
    then = time.time() - OLD
    os.utime(path, (then, then))


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


# Sweeping


@pytest.mark.parametrize("name", [".tmp", ".outlast-tmp"])
def test_a_linked_folder_for_leftovers_empties_nothing(
    tmp_path: Path, home: Path, name: str
) -> None:
    before = content_of(home)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(home)
    store = open_store(tmp_path / "run")

    if name == ".tmp":
        store.create("a", [b"x"])
    else:
        with pytest.raises(StoreUnavailable, match=r"'\.outlast-tmp' is a symbolic link"):
            store.create("a", [b"x"])

    assert content_of(home) == before


def test_hidden_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    aged(tmp_path / ".tmp" / "draft.txt")

    open_store(tmp_path).create("a", [b"x"])

    assert content_of(tmp_path / ".tmp") == {"draft.txt": "precious"}


def test_the_leftovers_of_another_user_are_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / ".outlast-tmp"
    hidden.mkdir()
    aged(hidden / f"write-{'1' * 32}")
    monkeypatch.setattr(os, "geteuid", lambda: (hidden / f"write-{'1' * 32}").stat().st_uid + 1)

    open_store(tmp_path).create("a", [b"x"])

    assert content_of(hidden) == {f"write-{'1' * 32}": "precious"}


def test_only_what_we_left_ourselves_is_swept(tmp_path: Path, home: Path) -> None:
    hidden = tmp_path / "run" / ".outlast-tmp"
    hidden.mkdir(parents=True)
    ours, link, pipe, folder = (hidden / f"write-{digit * 32}" for digit in "1234")
    aged(ours)
    aged(hidden / "write-notes")
    link.symlink_to(home / "thesis.tex")
    os.mkfifo(pipe)
    folder.mkdir()
    os.utime(pipe, (0, 0))
    os.utime(folder, (0, 0))

    open_store(tmp_path / "run").create("a", [b"x"])

    assert not ours.exists()
    assert {path.name for path in hidden.iterdir()} == {
        "write-notes",
        link.name,
        pipe.name,
        folder.name,
    }
    assert (home / "thesis.tex").read_text() == "precious"


# Links within a store

CALLS: dict[str, Callable[[LocalStore], object]] = {
    "create": lambda store: store.create("packs/new", [b"x"]),
    "read": lambda store: store.read("packs/thesis.tex"),
    "read_into": lambda store: store.read_into("packs/thesis.tex", bytearray(1)),
    "list": lambda store: store.list("packs/"),
    "list below": lambda store: store.list("packs/a/"),
    "delete": lambda store: store.delete(["packs/thesis.tex"]),
}


@BOTH
@pytest.mark.parametrize("call", CALLS)
def test_a_folder_that_is_a_link_is_refused(
    tmp_path: Path, home: Path, commit: Commit, call: str
) -> None:
    before = content_of(home)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "packs").symlink_to(home)

    with pytest.raises(StoreUnavailable, match="'packs' is a symbolic link, not a folder") as error:
        CALLS[call](LocalStore(tmp_path / "run", commit=commit))

    assert error.value.hint is not None
    assert content_of(home) == before


@BOTH
def test_the_root_may_be_a_link(tmp_path: Path, commit: Commit) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    store = LocalStore(tmp_path / "run", commit=commit)

    store.create("packs/a", [b"x"])

    assert store.read("packs/a") == b"x"
    assert (tmp_path / "elsewhere" / "packs").is_dir()


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo], ids=["file", "pipe"])
def test_what_is_no_folder_does_not_pass_for_an_empty_one(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "manifests")

    with pytest.raises(StoreUnavailable, match="Not a directory"):
        open_store(tmp_path).list("manifests/")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        open_store(tmp_path / "manifests").list()


# What is not a file


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("needs root")


THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "a named pipe"),
    "socket": (make_socket, "a socket"),
    "device": (make_device, "a device"),
    "link": (lambda path: path.symlink_to(path.parents[1] / "secret"), "a symbolic link"),
    "loop": (lambda path: path.symlink_to(path), "a symbolic link"),
}


@pytest.mark.parametrize("suffix", ["", SUFFIX], ids=["plain", "sealed"])
@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_regular_file_is_listed_and_refused_by_name(
    tmp_path: Path, thing: str, suffix: str
) -> None:
    make, words = THINGS[thing]
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / f"a{suffix}")
    store = LocalStore(tmp_path / "run")

    assert [entry.name for entry in store.list()] == ["a"]
    for read in (lambda: store.read("a"), lambda: store.read_into("a", bytearray(1))):
        with pytest.raises(Unreadable, match=f"'a' in .*: it is {words}, not a regular file"):
            read()
    with pytest.raises(AlreadyExists):
        store.create("a", [b"x"])
    store.delete(["a"])
    assert store.list() == []
    assert secret.read_text() == "precious"


def test_a_small_sealed_file_needs_its_hash(tmp_path: Path) -> None:
    seal = Seal(length_bytes=5, writer=b"w" * 16, hash=bytes(16))
    (tmp_path / f"a{SUFFIX}").write_bytes(b"hello" + seal.pack())

    assert LocalStore(tmp_path).list() == []


def test_a_sealed_file_that_changed_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = LocalStore(tmp_path, commit=Commit.SEAL)
    store.create("a", [b"hello"])
    path = tmp_path / f"a{SUFFIX}"
    path.write_bytes(b"j" + path.read_bytes()[1:])
    (tmp_path / f"b{SUFFIX}").write_bytes(b"unfinished")

    for _ in range(2):
        assert store.list() == []

    [record] = caplog.records
    assert "'a' in" in record.getMessage()
    assert "do not match their hash" in record.getMessage()


# One bad object, or a bad store


def unreadable(monkeypatch: pytest.MonkeyPatch, number: int, is_bad: Callable[[str], bool]) -> None:
    """Have the kernel answer with an error where a file that `is_bad` is read."""
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        if is_bad(str(Path(f"/proc/self/fd/{fd}").readlink())):
            raise OSError(number, os.strerror(number))
        return real(fd, buffers, offset)

    monkeypatch.setattr("os.preadv", preadv)

    def pread(fd: int, length: int, offset: int) -> bytes:
        data = bytearray(length)
        return bytes(data[: preadv(fd, [memoryview(data)], offset)])

    monkeypatch.setattr("os.pread", pread)


@BOTH
def test_an_error_of_one_object_is_told_from_one_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Commit
) -> None:
    store = LocalStore(tmp_path, commit=commit)
    for name in ("packs/a", "packs/b", "attempts/1"):
        store.create(name, [b"x" * 10])
    unreadable(monkeypatch, errno.EIO, lambda path: "packs/a" in path)

    with pytest.raises(
        Unreadable, match=r"Could not read 'packs/a' in .*: Input/output error"
    ) as one:
        store.read("packs/a")
    assert one.value.hint is not None
    assert store.read("packs/b") == b"x" * 10
    assert [entry.name for entry in store.list("packs/")] == ["packs/a", "packs/b"]

    monkeypatch.undo()
    unreadable(monkeypatch, errno.EIO, lambda path: True)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        store.read("packs/a")

    monkeypatch.undo()
    unreadable(monkeypatch, errno.ESTALE, lambda path: "packs/a" in path)
    with pytest.raises(StoreUnavailable, match="Stale"):
        store.read("packs/a")


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may read everything, so it is somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_told_from_a_folder_that_may_not() -> None:
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        run = Path(base) / "run"
        run.mkdir(0o777)
        run.chmod(0o777)
        store = LocalStore(run)
        with ordinary_user():
            store.create("a", [b"x"])
            store.create("b", [b"x"])
            (run / "a").chmod(0)

            with pytest.raises(Unreadable, match=r"Could not read 'a' in .*: Permission denied"):
                store.read("a")

            (run / "b").chmod(0)
            with pytest.raises(AccessDenied, match="Could not read 'a'"):
                store.read("a")


# Who may read it


def modes_in(folder: Path) -> dict[str, str]:
    paths = [folder, *sorted(folder.rglob("*"))]
    return {str(path.relative_to(folder)): oct(path.stat().st_mode & 0o7777) for path in paths}


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@BOTH
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277], ids=oct)
def test_a_run_belongs_to_its_owner_alone_whatever_the_umask(
    tmp_path: Path, commit: Commit, mask: int
) -> None:
    with umask(mask):
        LocalStore(tmp_path / "run", commit=commit).create("packs/a", [b"x"])

    file = {Commit.PUBLISH: "packs/a", Commit.SEAL: f"packs/a{SUFFIX}"}[commit]
    expected = {".": "0o700", "packs": "0o700", file: "0o600"}
    if commit is Commit.PUBLISH:
        expected[".outlast-tmp"] = "0o700"
    assert modes_in(tmp_path / "run") == expected


@BOTH
@pytest.mark.parametrize("mask", [0o022, 0o077], ids=oct)
def test_a_run_can_be_shared_with_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: Commit, mask: int
) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", "group")
    with umask(mask):
        LocalStore(tmp_path / "run", commit=commit).create("packs/a", [b"x"])

    modes = modes_in(tmp_path / "run")
    assert modes["."] == modes["packs"] == "0o2770"
    assert {mode for name, mode in modes.items() if name.startswith("packs/")} == {"0o640"}


def test_folders_that_exist_keep_their_mode_and_those_above_follow_the_umask(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").mkdir(0o755)
    (tmp_path / "own").chmod(0o751)
    with umask(0o022):
        open_store(tmp_path / "own").create("a", [b"x"])
        open_store(tmp_path / "team" / "run").create("a", [b"x"])

    assert modes_in(tmp_path / "own")["."] == "0o751"
    assert modes_in(tmp_path / "team")["."] == "0o755"
    assert modes_in(tmp_path / "team")["run"] == "0o700"


def test_a_wrong_way_to_share_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTLAST_SHARE", "everyone")

    with pytest.raises(SettingError, match="Expected 'none' or 'group'"):
        open_store(tmp_path)
