"""A record of published keys and dead letters, for a queue that cannot provide them.

In a folder or an object store:

    keys/00000001.jsonl   the new keys of one publish, one per line
    dead/KEY.json         a dead letter with its errors

A publish writes its keys under the next number, and only if that number is not taken. So each key
is recorded once, even with concurrent publishers, and a recorded key was published.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from outlast._base.batches import batched
from outlast.queue.errors import QueueUnavailable, QueueUrlError
from outlast.queue.items import DeadLetter, Item
from outlast.queue.key_names import encode_key
from outlast.storage.errors import AlreadyExists, BadURL, NotFound, StorageError
from outlast.storage.limits import SMALL_OBJECTS
from outlast.storage.opening import open_store
from outlast.storage.protocol import create_or_confirm

_KEYS_PER_PAGE = 10_000
_HEAD_BYTES_MAX = 200
_REQUESTS_AT_ONCE = 16
_TRIES_MAX = 1000
_PAUSE_SECONDS = 0.1

T = TypeVar("T")
A = TypeVar("A")


class Ledger:
    """The ledger in a folder, or at a URL such as `gs://bucket/folder`."""

    def __init__(self, url: str) -> None:
        try:
            self._store = open_store(url)
        except BadURL as error:
            raise QueueUrlError(
                f"Invalid ledger URL: {error}",
                hint="Use a folder, or a URL such as gs://bucket/folder.",
            ) from None
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        self._read: set[str] = set()
        self._counts: dict[str, int] = {}

    def count(self) -> int:
        """How many keys are recorded."""
        with self._lock, _translated():
            names = self._pages()
            unread = [name for name in names if name not in self._counts]
            self._counts |= zip(unread, self._all(self._count_in, unread), strict=True)
            return sum(self._counts[name] for name in names)

    def unknown(self, keys: Iterable[str]) -> set[str]:
        """The keys among these that are not recorded yet."""
        with self._lock, _translated():
            self._refresh()
            return set(keys) - self._keys

    def record(self, keys: Sequence[str]) -> int:
        """Record published keys. Returns how many were not recorded by anyone else.

        If killed: some pages are written, each completely or not at all.
        """
        with self._lock, _translated():
            return sum(
                self._record(keys[start : start + _KEYS_PER_PAGE])
                for start in range(0, len(keys), _KEYS_PER_PAGE)
            )

    def add_dead(self, letters: Iterable[DeadLetter]) -> None:
        """Store dead letters. If killed: each is stored completely or not at all."""
        with _translated():
            self._all(self._add_dead, letters)

    def dead_letters(self) -> Iterator[DeadLetter]:
        """All dead letters, oldest first. Only a few are in memory at a time."""
        with _translated():
            entries = sorted(
                self._store.list("dead/", limits=SMALL_OBJECTS), key=lambda entry: entry.modified
            )
        for some in batched(entries, lambda entry: entry.size_bytes, count_max=_REQUESTS_AT_ONCE):
            with _translated():
                found = self._all(self._letter, [entry.name for entry in some])
            yield from (letter for letter in found if letter is not None)

    def dead_among(self, keys: Sequence[str]) -> set[str]:
        """The keys among these that are dead letters."""
        with _translated():
            dead = {entry.name for entry in self._store.list("dead/", limits=SMALL_OBJECTS)}
        return {key for key in keys if _dead_name(key) in dead}

    def pages(self) -> list[str]:
        """The names of all pages of keys, oldest first."""
        with _translated():
            return sorted(self._pages())

    def keys_on(self, page: str) -> list[str]:
        with _translated():
            return self._keys_in(page)

    def dead_count(self) -> int:
        with _translated():
            return len(self._store.list("dead/", limits=SMALL_OBJECTS))

    def remove_dead(self, letters: Iterable[DeadLetter]) -> None:
        """Delete these dead letters."""
        with _translated():
            names = [_dead_name(letter.item.key) for letter in letters]
            self._store.delete(names, limits=SMALL_OBJECTS)

    def _record(self, keys: Sequence[str]) -> int:
        for _ in range(_TRIES_MAX):
            new = [key for key in dict.fromkeys(keys) if key not in self._keys]
            if not new:
                return 0
            name = f"keys/{len(self._read) + 1:08}.jsonl"
            # The ID identifies our page: a store may report a failure although it succeeded.
            lines = [{"count": len(new), "id": uuid.uuid4().hex}, *new]
            data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            try:
                create_or_confirm(self._store, name, data, limits=SMALL_OBJECTS)
            except AlreadyExists:
                if not self._refresh():
                    # Some mounted folders show a new file only after a delay.
                    time.sleep(_PAUSE_SECONDS)
                continue
            self._keys.update(new)
            self._read.add(name)
            return len(new)
        raise QueueUnavailable(
            f"Could not add a page to the ledger {self._store.url}: other publishers were faster "
            f"{_TRIES_MAX:,} times.",
            hint="Run fewer publishers at the same time.",
        )

    def _refresh(self) -> bool:
        """Read pages that others have written since. Returns whether there were any."""
        unread = [name for name in self._pages() if name not in self._read]
        for name, keys in zip(unread, self._all(self._keys_in, unread), strict=True):
            self._keys.update(keys)
            self._read.add(name)
        return bool(unread)

    def _pages(self) -> list[str]:
        return [entry.name for entry in self._store.list("keys/", limits=SMALL_OBJECTS)]

    def _keys_in(self, name: str) -> list[str]:
        lines = self._store.read(name, limits=SMALL_OBJECTS).splitlines()
        return [self._parsed(name, line, str) for line in lines[1:]]

    def _count_in(self, name: str) -> int:
        head = self._store.read(name, length=_HEAD_BYTES_MAX, limits=SMALL_OBJECTS)
        fields = self._parsed(name, head.partition(b"\n")[0], dict)
        if type(count := fields.get("count")) is not int or count < 0:
            raise self._damaged(name)
        return count

    def _add_dead(self, letter: DeadLetter) -> None:
        fields = {**letter.item._asdict(), "errors": letter.errors}
        data = json.dumps(fields, ensure_ascii=False).encode(errors="backslashreplace")
        with contextlib.suppress(AlreadyExists):
            self._store.create(_dead_name(letter.item.key), [data], limits=SMALL_OBJECTS)

    def _letter(self, name: str) -> DeadLetter | None:
        try:
            fields = self._parsed(name, self._store.read(name, limits=SMALL_OBJECTS), dict)
        except NotFound:
            return None
        letter = _dead_letter(fields)
        if letter is None:
            raise self._damaged(name)
        return letter

    def _parsed(self, name: str, line: bytes, kind: type[T]) -> T:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise self._damaged(name)
        return value

    def _damaged(self, name: str) -> QueueUnavailable:
        return QueueUnavailable(
            f"{name!r} in the ledger {self._store.url} is damaged.",
            hint="Restore it from a backup, or use a new ledger and publish again.",
            permanent=True,
        )

    def _all(self, act: Callable[[A], T], each: Iterable[A]) -> list[T]:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, "outlast-ledger") as pool:
            return list(pool.map(act, each))


def _dead_name(key: str) -> str:
    return f"dead/{encode_key(key)}.json"


def _dead_letter(fields: dict[str, Any]) -> DeadLetter | None:
    """A dead letter from its JSON; None if that is not one."""
    key, payload, failures = fields.get("key"), fields.get("payload"), fields.get("failures")
    errors = fields.get("errors")
    if not isinstance(key, str) or not isinstance(payload, str) or type(failures) is not int:
        return None
    if not isinstance(errors, list) or not all(isinstance(error, str) for error in errors):
        return None
    return DeadLetter(item=Item(key, payload, failures), errors=tuple(errors))


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise QueueUnavailable(f"The ledger is unavailable: {error}", hint=error.hint) from error
