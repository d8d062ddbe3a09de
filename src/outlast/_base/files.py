"""Replace files atomically."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from outlast.errors import OutlastError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextlib.contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A file that replaces `path` when the block succeeds, and is removed otherwise.

    The permissions of an existing file are kept. `mode` is for a new file; the default depends on
    the umask. If `path` is a link, its target is replaced; a device or a pipe is written to.

    If killed: `path` is unchanged, or completely replaced; a hidden file whose name ends in `.new`
    may be left next to it.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    folder = os.open(target.parent, _FOLDER)
    try:
        with _replacing_in(folder, target.name, mode) as file:
            yield file
    finally:
        os.close(folder)


def write_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace `path` with `data`, as `replacing` does."""
    with replacing(path, mode=mode) as file:
        file.write(data)


def write_below(
    folder: Path, name: str, data: bytes, *, mode: int | None = None, exclusive: bool = False
) -> Path:
    """Write a file into an output folder, creating folders as needed. Returns its path.

    `exclusive` raises `FileExistsError` instead of replacing a file. Then, if killed, the new file
    may be incomplete.

    `folder` itself may be a link. Below it no link is followed: someone who can write there cannot
    make Outlast replace a file elsewhere. Permissions are as in `replacing`.

    If killed: the file is unchanged, or completely replaced; a hidden file whose name ends in
    `.new` may be left next to it.
    """
    parts = _parts(folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, _FOLDER)
    try:
        for depth, part in enumerate(parts[:-1], start=1):
            fd = _entered(fd, part, folder.joinpath(*parts[:depth]))
        _refuse_link(parts[-1], fd, folder / name)
        opened = _creating_in if exclusive else _replacing_in
        with opened(fd, parts[-1], mode) as file:
            file.write(data)
    finally:
        os.close(fd)
    return folder / name


def refuse_links_below(folder: Path, names: Iterable[str]) -> None:
    """Raise `OutlastError` if a name, or a folder that leads to it, is a link below `folder`."""
    for name in names:
        parts = _parts(folder, name)
        for depth in range(1, len(parts) + 1):
            path = folder.joinpath(*parts[:depth])
            if path.is_symlink():
                raise _link_refused(path)


def _parts(folder: Path, name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise OutlastError(
            f"{name!r} is outside the output folder {str(folder)!r}.",
            hint="Use a relative path without '..'.",
        )
    return path.parts


def _entered(fd: int, part: str, path: Path) -> int:
    """Open a folder below an open one, which is closed."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
        _refuse_link(part, fd, path)
        below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link_refused(path) from error
        raise
    os.close(fd)
    return below


def _refuse_link(name: str, fd: int, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            raise _link_refused(path)


def _link_refused(path: Path) -> OutlastError:
    return OutlastError(
        f"{str(path)!r} is a symbolic link, and links in an output folder are not followed.",
        hint="Remove the link, or use another folder.",
    )


@contextlib.contextmanager
def _replacing_in(folder: int, name: str, mode: int | None) -> Iterator[IO[bytes]]:
    """Replace a name in an open folder. If it is a link, the link itself is replaced."""
    kept = _kept_mode(folder, name, mode)
    # A unique name, because several processes may write the same file.
    aside = f".outlast-{os.urandom(8).hex()}.new"
    # While it is written, only those who may read the finished file may read it.
    fd = os.open(aside, _CREATE, 0o666 if kept is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            if kept is not None:
                os.fchmod(fd, kept)
            os.fsync(fd)
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=folder)
        raise
    os.fsync(folder)


@contextlib.contextmanager
def _creating_in(folder: int, name: str, mode: int | None) -> Iterator[IO[bytes]]:
    """Create a name in an open folder that does not have it; a link counts as having it."""
    fd = os.open(name, _CREATE, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    os.fsync(folder)


def _kept_mode(folder: int, name: str, mode: int | None) -> int | None:
    """The permissions for a file: those of the file it replaces, executable if `mode` is."""
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        return mode
    if mode is None or not mode & 0o100:
        return before
    # Whoever may read it may run it.
    return before | (before & 0o444) >> 2
