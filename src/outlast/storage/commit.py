"""Commit a small object, and find out what happened when the store's answer is ambiguous."""

from outlast.storage.errors import AlreadyExists, NotFound, StorageError, StoreUnavailable
from outlast.storage.limits import ROUTINE, Countdown, Limits
from outlast.storage.protocol import Store


def create_or_confirm(store: Store, name: str, data: bytes, *, limits: Limits = ROUTINE) -> None:
    """Create `name`, or make sure that what stands there are exactly our bytes.

    A server may answer 503 after a write that lasted; the retry is then told that the object
    exists. So `data` must hold something that no other writer has, such as a save id: then
    equal bytes mean that the object is ours. Raises `AlreadyExists` if it is not.

    If killed: the object is there whole, or not at all.
    """
    countdown = Countdown(limits, f"Trying to commit {name!r} in {store.url}")
    try:
        store.create(name, [data], limits=limits)
    except (AlreadyExists, StoreUnavailable) as error:
        if not _holds(store, name, data, countdown, error):
            raise


def _holds(store: Store, name: str, data: bytes, countdown: Countdown, first: StorageError) -> bool:
    try:
        found = store.read(name, length=len(data) + 1, limits=countdown.limits_left())
    except NotFound:
        return False
    except StorageError:
        # A store that fails twice over has nothing to add to its first answer.
        if isinstance(first, StoreUnavailable):
            return False
        raise
    return found == data
