"""One small byte store behind one protocol: a folder, an object store, or memory."""

from outlast.storage.commit import create_or_confirm
from outlast.storage.errors import (
    AccessDenied,
    AlreadyExists,
    BadName,
    BadURL,
    MissingExtra,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreFull,
    StoreUnavailable,
    TooShort,
)
from outlast.storage.limits import ROUTINE, Limits, final
from outlast.storage.opening import open_store
from outlast.storage.protocol import Buffer, Entry, Store

__all__ = [
    "ROUTINE",
    "AccessDenied",
    "AlreadyExists",
    "BadName",
    "BadURL",
    "Buffer",
    "Entry",
    "Limits",
    "MissingExtra",
    "NotFound",
    "StorageError",
    "StorageTimeout",
    "Store",
    "StoreFull",
    "StoreUnavailable",
    "TooShort",
    "create_or_confirm",
    "final",
    "open_store",
]
