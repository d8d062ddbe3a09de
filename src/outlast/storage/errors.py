"""The errors of stores. Each is named for the condition, independent of the backend.

No message quotes a server's response: it may contain a signature, a token or a signed URL.
"""

from outlast.errors import OutlastError


class StorageError(OutlastError):
    """A store operation failed. `name` is the object concerned, if there is one."""

    def __init__(self, message: str, *, hint: str | None = None, name: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class AlreadyExists(StorageError):
    """An object with this name already exists; it was not changed."""


class NotFound(StorageError):
    """There is no object with this name."""


class TooShort(StorageError):
    """The object ends before the requested bytes."""


class Unreadable(StorageError):
    """This object cannot be read, but others in the same store can."""


class AccessDenied(StorageError):
    """Access was denied: missing permission, or invalid or expired credentials."""


class StoreFull(StorageError):
    """No space left: the disk is full, or a quota or size limit was reached."""


class StoreUnavailable(StorageError):
    """The store cannot be reached, or it fails. Retrying later may help."""


class StorageTimeout(StorageError):
    """The operation timed out. A write may have taken effect: read the object to find out."""


class BadName(StorageError, ValueError):
    """The object name is invalid."""


class BadURL(StorageError, ValueError):
    """The store URL is invalid."""
