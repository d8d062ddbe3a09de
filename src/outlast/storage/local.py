"""A store in a folder: durable, and never torn, on a disk and on a mounted share.

On a disk, an object is written aside, synced, and given its name only if that is free; the file
holds exactly its bytes. On FUSE and network mounts it is sealed instead (see `seal.py`). Either
kind is read wherever it was written. The limits are looked at between pieces of a file: a mount
that hangs in the kernel cannot be left by any process.
"""

import contextlib
import enum
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outlast.storage.aside import CannotPublish, file_aside, publish, sweep, sync_folder
from outlast.storage.buffers import byte_views, writable_view
from outlast.storage.direct import read_all, write_all
from outlast.storage.errors import AlreadyExists, BadURL, StoreUnavailable, TooShort
from outlast.storage.limits import ROUTINE, Countdown, Limits
from outlast.storage.local_errors import not_found, translated
from outlast.storage.mounts import is_remote
from outlast.storage.names import check_name, folder_of, is_name
from outlast.storage.protocol import Buffer, Entry
from outlast.storage.seal import SUFFIX
from outlast.storage.sealed_files import Torn, open_sealed, write_sealed

_ASIDE = ".tmp"
# What the system says of a name that is not there, or is only the folder of another name.
_NO_OBJECT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class Commit(enum.Enum):
    """How an object comes to be."""

    PUBLISH = "written aside, then given its name"
    SEAL = "written in place, then sealed"


class LocalStore:
    """Objects as files below `path`, which is made at the first `create`.

    `commit` is chosen by the kind of mount unless given.
    """

    def __init__(self, path: str | os.PathLike[str], *, commit: Commit | None = None) -> None:
        # Not resolved: the user's own path is the one that the messages should show.
        self._root = Path(path).absolute()
        self._commit = commit
        self._device: int | None = None

    @classmethod
    def open(cls, url: str) -> "LocalStore":
        if "://" not in url:
            return cls(url)
        split = urlsplit(url)
        if split.netloc not in ("", "localhost"):
            raise BadURL(
                f"{url!r} names the host {split.netloc!r}.",
                hint="Write three slashes before an absolute path: file:///folder",
            )
        return cls(unquote(split.path))

    @property
    def url(self) -> str:
        return str(self._root)

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        check_name(name)
        sources = byte_views(parts)
        countdown = Countdown(limits, f"Trying to write {name!r} in {self.url}")
        with translated("write", self.url, name):
            try:
                self._create(name, sources, countdown)
            except FileExistsError:
                raise AlreadyExists(
                    f"{name!r} exists already in {self.url}.",
                    hint="If it is not listed, it is being written, or its writer was killed.",
                    name=name,
                ) from None

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        with self._opened(name, limits) as (fd, size_bytes, countdown):
            end = size_bytes if length is None else min(start + length, size_bytes)
            data = bytearray(max(0, end - start))
            count = read_all(fd, memoryview(data), start, countdown)
        return bytes(memoryview(data)[:count])

    def read_into(
        self, name: str, buffer: Buffer, *, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        view = writable_view(buffer)
        with self._opened(name, limits) as (fd, size_bytes, countdown):
            missing = start + len(view) - size_bytes
            if missing <= 0:
                missing = len(view) - read_all(fd, view, start, countdown)
        if missing > 0:
            raise TooShort(f"{name!r} in {self.url} ends {missing} bytes early.", name=name)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[Entry]:
        folder = folder_of(prefix)
        countdown = Countdown(limits, f"Trying to list {self.url}")
        with translated("list", self.url):
            self._check_root()
            found = {entry.name: entry for entry in self._walk(folder, prefix, countdown)}
        return [found[name] for name in sorted(found)]

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        countdown = Countdown(limits, f"Trying to delete from {self.url}")
        for name in names:
            check_name(name)
            countdown.seconds_left()
            with translated("delete", self.url, name):
                for path in (self._plain(name), self._sealed(name)):
                    with contextlib.suppress(*_NO_OBJECT):
                        path.unlink()

    def _create(self, name: str, sources: Sequence[memoryview], countdown: Countdown) -> None:
        final = self._plain(name)
        self._prepare(final.parent)
        if os.path.lexists(final) or (self._is_publishing() and self._sealed(name).exists()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
        if self._is_publishing():
            try:
                self._publish(final, sources, countdown)
            except CannotPublish:
                self._commit = Commit.SEAL
            else:
                return
        write_sealed(self._sealed(name), sources, countdown)

    def _publish(self, final: Path, sources: Sequence[memoryview], countdown: Countdown) -> None:
        aside = self._root / _ASIDE
        aside.mkdir(exist_ok=True)
        sweep(aside, now=time.time())
        with file_aside(aside) as (fd, path):
            write_all(fd, sources, countdown)
            os.fsync(fd)
            countdown.seconds_left()
            publish(path, final)
        try:
            sync_folder(final.parent)
        except BaseException:
            # What may be gone after a crash must not be seen before it.
            final.unlink(missing_ok=True)
            raise

    def _is_publishing(self) -> bool:
        if self._commit is None:
            self._commit = Commit.SEAL if is_remote(self._root) else Commit.PUBLISH
        return self._commit is Commit.PUBLISH

    def _prepare(self, folder: Path) -> None:
        """Make the folders down to `folder`, durably; those of a lost volume are not made anew."""
        self._check_root()
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder)) from error
            sync_folder(folder.parent)
        self._check_root()

    def _check_root(self) -> None:
        """Notice that the volume is gone, instead of finding, or filling, an empty folder."""
        # Read first: another thread may make the folder, and note it, while we look.
        known = self._device
        try:
            device = self._root.stat().st_dev
        except FileNotFoundError:
            device = None
        if known not in (None, device):
            raise StoreUnavailable(
                f"{self.url} has vanished.", hint="Check that its volume is mounted."
            )
        if device is not None:
            self._device = device

    @contextlib.contextmanager
    def _opened(self, name: str, limits: Limits) -> Iterator[tuple[int, int, Countdown]]:
        """The file of an object and the size of the object, for the length of the block."""
        check_name(name)
        countdown = Countdown(limits, f"Trying to read {name!r} in {self.url}")
        with translated("read", self.url, name):
            try:
                fd, size_bytes = self._open(name, countdown)
            except (*_NO_OBJECT, Torn):
                self._check_root()
                raise not_found(name, self.url) from None
            try:
                yield fd, size_bytes, countdown
            finally:
                os.close(fd)

    def _open(self, name: str, countdown: Countdown) -> tuple[int, int]:
        try:
            fd = os.open(self._plain(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            fd, found = open_sealed(self._sealed(name), countdown)
            return fd, found.length_bytes
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return fd, status.st_size

    def _walk(self, folder: str, prefix: str, countdown: Countdown) -> Iterator[Entry]:
        countdown.seconds_left()
        try:
            entries = list(os.scandir(self._root / folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            # What is deleted while we look was never there.
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    if is_name(name) and f"{name}/".startswith(prefix):
                        yield from self._walk(name, prefix, countdown)
                elif name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                    yield from self._entry(name, entry, countdown)

    def _entry(
        self, file_name: str, entry: "os.DirEntry[str]", countdown: Countdown
    ) -> Iterator[Entry]:
        """The object that a file holds, if it holds one that is whole."""
        name = file_name.removesuffix(SUFFIX)
        if not is_name(name):
            return
        status = entry.stat()
        size_bytes = status.st_size
        if name != file_name:
            try:
                fd, found = open_sealed(Path(entry.path), countdown)
            except Torn:
                return
            os.close(fd)
            size_bytes = found.length_bytes
        modified = datetime.fromtimestamp(status.st_mtime, UTC)
        yield Entry(name=name, size_bytes=size_bytes, modified=modified)

    def _plain(self, name: str) -> Path:
        return self._root / name

    def _sealed(self, name: str) -> Path:
        return self._root / (name + SUFFIX)
