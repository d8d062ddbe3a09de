"""What can go wrong with a store. Each error is named for the condition, whatever the backend.

No message quotes a server's answer: it may hold a signature, a token or a signed address.
"""

from outlast.errors import OutlastError


class StorageError(OutlastError):
    """A store could not do what was asked. `name` is the object concerned, if there is one."""

    def __init__(self, message: str, *, hint: str | None = None, name: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class AlreadyExists(StorageError):
    """An object of this name is there already; it was left as it is."""


class NotFound(StorageError):
    """There is no object of this name."""


class TooShort(StorageError):
    """The object ends before the bytes that were asked for."""


class AccessDenied(StorageError):
    """The store refuses us: no permission, or credentials that are wrong or have expired."""


class StoreFull(StorageError):
    """There is no room: the disk, a quota or a size limit is used up."""


class StoreUnavailable(StorageError):
    """The store cannot be reached, or it fails. Trying again later may help."""


class StorageTimeout(StorageError):
    """The time allowed was over. Whether a write took effect is not known: read to find out."""


class BadName(StorageError, ValueError):
    """This cannot be the name of an object."""


class BadURL(StorageError, ValueError):
    """This cannot be the address of a store."""


class MissingExtra(StorageError):
    """A store needs a package that is not installed. `extra` names what brings it."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs a package that is not installed.",
            hint=f"Run: pip install 'outlast[{extra}]'",
        )
        self.extra = extra
