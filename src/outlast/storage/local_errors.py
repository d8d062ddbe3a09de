"""Turn what the operating system says into our errors, with what to do next."""

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
)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextlib.contextmanager
def translated(doing: str, url: str, name: str | None = None) -> Iterator[None]:
    """Raise any `OSError` of the block as a `StorageError`. `doing` is a verb: "write"."""
    try:
        yield
    except OSError as error:
        raise as_storage_error(error, doing, url, name) from error


def not_found(name: str, url: str) -> NotFound:
    return NotFound(f"There is no {name!r} in {url}.", name=name)


def as_storage_error(error: OSError, doing: str, url: str, name: str | None) -> StorageError:
    thing = f"{name!r} in {url}" if name else url
    reason = os.strerror(error.errno) if error.errno else str(error)
    message = f"Could not {doing} {thing}: {reason}."
    if error.errno in _FULL:
        return StoreFull(message, hint="Free some space, or raise the quota.", name=name)
    if error.errno == errno.EROFS:
        return AccessDenied(message, hint="Mount the volume for writing.", name=name)
    if error.errno in _DENIED:
        return AccessDenied(message, hint="Check the owner and the mode of the folder.", name=name)
    if error.errno in (errno.ENOENT, errno.ESTALE, errno.ENOTCONN, errno.ENODEV):
        return StoreUnavailable(
            message, hint="The folder has vanished: check that its volume is mounted.", name=name
        )
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return StoreUnavailable(
            message, hint="A file stands where a folder should be, or the reverse.", name=name
        )
    return StoreUnavailable(message, hint="Check the disk: `dmesg` may say more.", name=name)
