"""Convert errors of the operating system into storage errors with hints."""

import contextlib
import errno
import os
from collections.abc import Iterator

from outlast.storage.errors import (
    AccessDenied,
    NotFound,
    StorageError,
    StoreFull,
    StoreUnavailable,
    Unreadable,
)
from outlast.storage.local.folders import NotRegularFile

_KNOWN: tuple[tuple[tuple[int, ...], type[StorageError], str], ...] = (
    (
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
        StoreFull,
        "Free some space, or raise the quota.",
    ),
    ((errno.EROFS,), AccessDenied, "Mount the volume for writing."),
    ((errno.EACCES, errno.EPERM), AccessDenied, "Check the owner and the mode of the folder."),
    (
        (errno.ENOENT, errno.ESTALE, errno.ENOTCONN, errno.ENODEV),
        StoreUnavailable,
        "The folder is gone: check that its volume is mounted.",
    ),
    (
        (errno.ENOTDIR, errno.EISDIR),
        StoreUnavailable,
        "There is a file where a folder is expected, or vice versa.",
    ),
)
# Errors that one bad file can cause while the rest of the volume works: a bad sector, a wrong
# checksum in the file system, a loop of links, a socket, permissions. Not errors of the volume
# (ESTALE, ENOTCONN) or of this process (EMFILE, ENOMEM).
_OF_ONE_OBJECT = frozenset(
    {errno.EIO, errno.EBADMSG, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM}
    | ({errno.EUCLEAN} if hasattr(errno, "EUCLEAN") else set())
)


@contextlib.contextmanager
def translated(doing: str, url: str, name: str | None = None) -> Iterator[None]:
    """Raise any `OSError` of the block as a `StorageError`. `doing` is a verb: "write"."""
    try:
        yield
    except OSError as error:
        raise as_storage_error(error, doing, url, name) from error


def not_found(name: str, url: str) -> NotFound:
    return NotFound(f"{name!r} does not exist in {url}.", name=name)


def is_of_one_object(error: OSError) -> bool:
    """Whether one bad file can be the reason. To be sure, other files have to be tried."""
    return error.errno in _OF_ONE_OBJECT and not _is_folder(error)


def unreadable(error: OSError, url: str, name: str) -> Unreadable:
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = "Other objects can be read. Check the owner, the mode and the disk of this file."
    if isinstance(error, NotRegularFile):
        reason = f"it is {error.kind}, not a {error.expected}"
        hint = "Outlast reads only regular files and does not follow links inside a store."
    return Unreadable(f"Could not read {name!r} in {url}: {reason}.", hint=hint, name=name)


def _is_folder(error: OSError) -> bool:
    return isinstance(error, NotRegularFile) and error.expected == "folder"


def as_storage_error(error: OSError, doing: str, url: str, name: str | None) -> StorageError:
    thing = f"{name!r} in {url}" if name else url
    reason = os.strerror(error.errno) if error.errno else str(error)
    message = f"Could not {doing} {thing}: {reason}."
    if isinstance(error, NotRegularFile):
        return StoreUnavailable(
            f"Could not {doing} {thing}: {error.name!r} is {error.kind}, not a {error.expected}.",
            hint="Replace it. The folder in the URL may be a link, but nothing inside it may be.",
            name=name,
        )
    for numbers, kind, hint in _KNOWN:
        if error.errno in numbers:
            return kind(message, hint=hint, name=name)
    return StoreUnavailable(message, hint="Check the disk, for example with `dmesg`.", name=name)
