"""A store in a folder: durable and never torn, on a disk or a mounted share.

On a disk, an object is written to a hidden file, synced, and given its name only if that is free;
the file contains exactly its bytes. On FUSE and network mounts it is sealed instead (see
`sealed_files.py`). Both kinds can be read on any mount. The time limits are checked between pieces
of a file: no process can interrupt a mount that hangs in the kernel.

The folder itself may be a link. Below it no link is followed, and only regular files are opened
(see `folders.py`). Only the owner has access, unless `OUTLAST_SHARE` is set.

When reading fails, either one object is bad or the entire store is. `Unreadable` means one object:
it is not a regular file, or the error is one that a single file can cause (such as a bad sector),
and another object could be read right after it. If nothing else can be read either, or if the error
concerns the volume or this process, `StoreUnavailable` or `AccessDenied` is raised. A failing disk
whose files are partly cached can be mistaken for a bad object.
"""

import contextlib
import enum
import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from outlast._base.logs import get_logger
from outlast.storage.errors import (
    AlreadyExists,
    BadURL,
    StorageError,
    StoreUnavailable,
    TooShort,
)
from outlast.storage.limits import ROUTINE, Countdown, Limits
from outlast.storage.local.aside import CannotPublish, file_aside, publish, sweep, sync_folder
from outlast.storage.local.direct import read_all, read_buffered, write_all
from outlast.storage.local.errors import is_of_one_object, not_found, translated, unreadable
from outlast.storage.local.folders import (
    NotRegularFile,
    is_remote,
    is_there,
    open_file,
    open_folder,
    open_root,
    set_mode,
)
from outlast.storage.local.sealed_files import (
    SEAL_BYTES,
    SUFFIX,
    Damaged,
    Torn,
    open_sealed,
    write_sealed,
)
from outlast.storage.protocol import (
    AccessPattern,
    Buffer,
    StoreEntry,
    byte_views,
    check_name,
    folder_of,
    is_name,
    total_bytes,
    writable_views,
)
from outlast.storage.settings import SHARE, Share

log = get_logger(__name__)

# A distinct name, because other programs may keep hidden folders in the same place.
_ASIDE = ".outlast-tmp"
# Errors for a name that does not exist, or is only the folder of another name.
_NO_OBJECT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_OTHERS_TRIED_MAX = 32
# A disk is as fast with a chunk at a time. While some threads hash, others keep it busy: two cores
# restored a tenth faster with eight than with four.
# Of two files, one is written while the other is synced and gets its name.
_ACCESS = AccessPattern(
    read_bytes=1, reads_at_once=8, creates_at_once=2, first_create_bytes=32 * 1024**2
)


class Commit(enum.Enum):
    """How an object is created."""

    PUBLISH = "written to a hidden file, then given its name"
    SEAL = "written in place, then sealed"


class _Modes(NamedTuple):
    file: int
    folder: int


# Objects never change, so the group needs no write access. In a shared folder, new files and
# folders inherit its group.
_MODES = {Share.NONE: _Modes(0o600, 0o700), Share.GROUP: _Modes(0o640, 0o2770)}


class LocalStore:
    """Objects as files below `path`, which is created with the first object.

    `commit` defaults to what the kind of mount supports, and `share` to `OUTLAST_SHARE`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        commit: Commit | None = None,
        share: Share | None = None,
    ) -> None:
        # Not resolved, so that messages show the path that the user gave.
        self._root = Path(path).absolute()
        self._commit = commit
        self._modes = _MODES[SHARE.read(share).value]
        self._device: int | None = None
        self._damaged: set[str] = set()

    @classmethod
    def open(cls, url: str) -> "LocalStore":
        if "://" not in url:
            return cls(url)
        split = urlsplit(url)
        if split.netloc not in ("", "localhost"):
            raise BadURL(
                f"{url!r} contains a host, {split.netloc!r}.",
                hint="Use three slashes before an absolute path: file:///folder",
            )
        return cls(unquote(split.path))

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def access(self) -> AccessPattern:
        return _ACCESS

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        check_name(name)
        sources = byte_views(parts)
        countdown = Countdown(limits, f"Trying to write {name!r} in {self.url}")
        with translated("write", self.url, name):
            try:
                self._create(name, sources, countdown)
            except FileExistsError:
                raise AlreadyExists(
                    f"{name!r} already exists in {self.url}.",
                    hint="If it is not listed, it is being written, or its writer was killed.",
                    name=name,
                ) from None

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        with self._opened(name, limits) as (fd, size_bytes, countdown):
            end = size_bytes if length is None else min(start + length, size_bytes)
            data = bytearray(max(0, end - start))
            # Direct I/O would keep a buffer for each thread that ever calls this.
            count = read_buffered(fd, memoryview(data), start, countdown)
        return bytes(memoryview(data)[:count])

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        views = writable_views(buffers)
        with self._opened(name, limits) as (fd, size_bytes, countdown):
            missing = start + total_bytes(views) - size_bytes
            for view in views if missing <= 0 else ():
                missing = len(view) - read_all(fd, view, start, countdown)
                start += len(view)
                if missing > 0:
                    break
        if missing > 0:
            raise TooShort(f"{name!r} in {self.url} is {missing} bytes too short.", name=name)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        """All complete objects whose names start with `prefix`, sorted by name.

        A link, pipe or similar with the name of an object is listed too, so that reading it fails
        with an explanation.
        """
        countdown = Countdown(limits, f"Trying to list {self.url}")
        with translated("list", self.url):
            found = {entry.name: entry for entry in self._entries(prefix, countdown)}
        return [found[name] for name in sorted(found)]

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        countdown = Countdown(limits, f"Trying to delete from {self.url}")
        for name in names:
            check_name(name)
            countdown.seconds_left()
            *folders, file = name.split("/")
            with translated("delete", self.url, name), contextlib.suppress(*_NO_OBJECT):
                with self._folder(folders) as folder:
                    for one in (file, file + SUFFIX):
                        with contextlib.suppress(*_NO_OBJECT):
                            os.unlink(one, dir_fd=folder)

    def _create(self, name: str, sources: Sequence[memoryview], countdown: Countdown) -> None:
        *folders, file = name.split("/")
        with self._folder(folders, making=True) as folder:
            sealed = file + SUFFIX
            if is_there(file, folder) or (self._is_publishing() and is_there(sealed, folder)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            if self._is_publishing():
                try:
                    self._publish(file, folder, sources, countdown)
                except CannotPublish:
                    self._commit = Commit.SEAL
                else:
                    return
            write_sealed(sealed, folder, sources, countdown, mode=self._modes.file)

    def _publish(
        self, file: str, folder: int, sources: Sequence[memoryview], countdown: Countdown
    ) -> None:
        with self._folder([_ASIDE], making=True) as aside:
            sweep(aside, now=time.time())
            with file_aside(aside) as (fd, temporary):
                set_mode(fd, self._modes.file)
                write_all(fd, sources, countdown)
                os.fsync(fd)
                countdown.seconds_left()
                publish(temporary, aside, file, folder)
        try:
            sync_folder(folder)
        except BaseException:
            # A file that could be lost in a crash must not be visible.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file, dir_fd=folder)
            raise

    def _is_publishing(self) -> bool:
        if self._commit is None:
            self._commit = Commit.SEAL if is_remote(self._root) else Commit.PUBLISH
        return self._commit is Commit.PUBLISH

    @contextlib.contextmanager
    def _folder(self, names: Sequence[str], *, making: bool = False) -> Iterator[int]:
        """Open a folder of the store. With `making`, it is created if it is missing, durably."""
        mode = self._modes.folder if making else None
        fd = self._open_root(mode)
        try:
            for name in names:
                below = open_folder(name, fd, mode=mode)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def _open_root(self, mode: int | None) -> int:
        """Detect that the volume is gone, instead of reading or writing an empty folder."""
        # Read first: another thread may create the folder at the same time.
        known = self._device
        try:
            fd = open_root(self._root, mode=mode if known is None else None)
        except FileNotFoundError:
            if known is None:
                raise
            raise self._vanished() from None
        device = os.fstat(fd).st_dev
        if known not in (None, device):
            os.close(fd)
            raise self._vanished()
        self._device = device
        return fd

    def _vanished(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.url} is gone.", hint="Check that its volume is mounted.")

    @contextlib.contextmanager
    def _opened(self, name: str, limits: Limits) -> Iterator[tuple[int, int, Countdown]]:
        """Open the file of an object. Gives the descriptor and the size of the object."""
        check_name(name)
        countdown = Countdown(limits, f"Trying to read {name!r} in {self.url}")
        with translated("read", self.url, name):
            try:
                fd, size_bytes = self._open(name, countdown)
                try:
                    yield fd, size_bytes, countdown
                finally:
                    os.close(fd)
            except (*_NO_OBJECT, Torn):
                raise not_found(name, self.url) from None
            except OSError as error:
                if is_of_one_object(error) and (
                    isinstance(error, NotRegularFile) or self._answers_without(name, countdown)
                ):
                    raise unreadable(error, self.url, name) from error
                raise

    def _open(self, name: str, countdown: Countdown) -> tuple[int, int]:
        *folders, file = name.split("/")
        with self._folder(folders) as folder:
            try:
                fd = open_file(file, folder)
            except FileNotFoundError:
                fd, found = open_sealed(file + SUFFIX, folder, countdown)
                return fd, found.length_bytes
        return fd, os.fstat(fd).st_size

    def _answers_without(self, name: str, countdown: Countdown) -> bool:
        """Whether another object can be read now, so that only this one is bad."""
        try:
            others = (entry.name for entry in self._entries("", countdown) if entry.name != name)
            return any(self._can_read(one, countdown) for one in islice(others, _OTHERS_TRIED_MAX))
        except (OSError, StorageError):
            return False

    def _can_read(self, name: str, countdown: Countdown) -> bool:
        try:
            fd, size_bytes = self._open(name, countdown)
        except (OSError, Torn):
            return False
        try:
            return len(os.pread(fd, 1, 0)) == min(1, size_bytes)
        except OSError:
            return False
        finally:
            os.close(fd)

    def _entries(self, prefix: str, countdown: Countdown) -> Iterator[StoreEntry]:
        folder = folder_of(prefix)
        # A missing folder is empty, but anything that is not a folder is an error.
        with contextlib.suppress(FileNotFoundError):
            with self._folder(folder.split("/") if folder else []) as fd:
                yield from self._walk(fd, folder, prefix, countdown)

    def _walk(
        self, fd: int, folder: str, prefix: str, countdown: Countdown
    ) -> Iterator[StoreEntry]:
        countdown.seconds_left()
        with os.scandir(fd) as scan:
            entries = list(scan)
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            # Ignore what is deleted or replaced at the same time.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if not entry.is_dir(follow_symlinks=False):
                    if name.startswith(prefix):
                        yield from self._entry(name, entry, fd, countdown)
                elif is_name(name) and f"{name}/".startswith(prefix):
                    below = open_folder(entry.name, fd, mode=None)
                    try:
                        yield from self._walk(below, name, prefix, countdown)
                    finally:
                        os.close(below)

    def _entry(
        self, file_name: str, entry: "os.DirEntry[str]", folder: int, countdown: Countdown
    ) -> Iterator[StoreEntry]:
        """The object in a file, if it is complete."""
        name = file_name.removesuffix(SUFFIX)
        if not is_name(name):
            return
        status = entry.stat(follow_symlinks=False)
        size_bytes = status.st_size
        if name != file_name:
            try:
                fd, found = open_sealed(entry.name, folder, countdown)
            except Torn as error:
                self._note_damage(name, error)
                return
            except OSError as error:
                if not is_of_one_object(error):
                    raise
                size_bytes = max(0, size_bytes - SEAL_BYTES)
            else:
                os.close(fd)
                size_bytes = found.length_bytes
        modified = datetime.fromtimestamp(status.st_mtime, UTC)
        yield StoreEntry(name=name, size_bytes=size_bytes, modified=modified)

    def _note_damage(self, name: str, error: Torn) -> None:
        """Report an object that was complete and has changed since, but only once.

        An incomplete object is normal: it is still being written, or its writer was killed.
        """
        if isinstance(error, Damaged) and name not in self._damaged:
            self._damaged.add(name)
            log.error("%r in %s is damaged: its bytes do not match their hash.", name, self.url)
