"""A small protocol for storing bytes: in a folder, an object store, or memory."""

from outlast.storage.errors import (
    AccessDenied,
    AlreadyExists,
    BadName,
    BadURL,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreFull,
    StoreUnavailable,
    TooShort,
    Unreadable,
)
from outlast.storage.limits import ROUTINE, Limits, final
from outlast.storage.opening import open_store
from outlast.storage.protocol import AccessPattern, Buffer, Store, StoreEntry, create_or_confirm
from outlast.storage.small_json import read_json_object

__all__ = [
    "ROUTINE",
    "AccessDenied",
    "AccessPattern",
    "AlreadyExists",
    "BadName",
    "BadURL",
    "Buffer",
    "Limits",
    "NotFound",
    "StorageError",
    "StorageTimeout",
    "Store",
    "StoreEntry",
    "StoreFull",
    "StoreUnavailable",
    "TooShort",
    "Unreadable",
    "create_or_confirm",
    "final",
    "open_store",
    "read_json_object",
]
