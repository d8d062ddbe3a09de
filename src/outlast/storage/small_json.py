"""Read a small JSON object from a store, trusting neither its size nor its content."""

from typing import Any

from outlast._base.strict_json import InvalidJson, strict_json
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.protocol import Store

JSON_BYTES_MAX = 64 * 1024


def read_json_object(store: Store, name: str, *, limits: Limits = ROUTINE) -> dict[str, Any]:
    """The JSON object stored under `name`, of at most 64 KiB.

    Raises `InvalidJson`, which is a `ValueError`, for anything else, and a `StorageError` if the
    store cannot be read. Never reads more than the limit: the file may be sparse and huge.
    """
    data = store.read(name, length=JSON_BYTES_MAX + 1, limits=limits)
    if len(data) > JSON_BYTES_MAX:
        raise InvalidJson(f"it is larger than {JSON_BYTES_MAX:,} bytes")
    found = strict_json(data)
    if not isinstance(found, dict):
        raise InvalidJson("it is not a JSON object")
    return found
