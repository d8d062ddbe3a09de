"""Which keys were published and which items were given up, for a queue that cannot tell.

In a folder or an object store:

    keys/000001.jsonl    the keys of one publish that were new, one a line
    dead/KEY.json        an item that was given up, with its errors

A publish writes its keys under the next number, and only if nobody has taken it: so each key is
written down once, whoever publishes at the same time, and a key that is there was published.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outlast.queue.errors import QueueUnavailable, QueueUrlError
from outlast.queue.items import DeadLetter, Item
from outlast.queue.key_names import encode_key
from outlast.storage.commit import create_or_confirm
from outlast.storage.errors import AlreadyExists, BadURL, NotFound, StorageError
from outlast.storage.limits import Limits
from outlast.storage.opening import open_store

_KEYS_PER_PAGE = 10_000
_HEAD_BYTES_MAX = 200
_REQUESTS_AT_ONCE = 16
_TRIES_MAX = 1000
_PAUSE_SECONDS = 0.1
_LIMITS = Limits(
    connect_seconds_max=4.0, request_seconds_max=30.0, attempts_max=4, total_seconds_max=60.0
)

T = TypeVar("T")
A = TypeVar("A")


class Ledger:
    """The ledger below a folder or a URL such as `gs://bucket/folder`."""

    def __init__(self, url: str) -> None:
        try:
            self._store = open_store(url)
        except BadURL as error:
            raise QueueUrlError(
                f"No ledger can be kept there: {error}",
                hint="Use a folder, or a URL such as gs://bucket/folder.",
            ) from None
        self._lock = threading.Lock()
        self._keys: set[str] = set()
        self._read: set[str] = set()
        self._counts: dict[str, int] = {}

    def count(self) -> int:
        """How many keys are written down."""
        with self._lock, _translated():
            names = self._pages()
            unread = [name for name in names if name not in self._counts]
            self._counts |= zip(unread, self._all(self._count_in, unread), strict=True)
            return sum(self._counts[name] for name in names)

    def unknown(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that are not written down yet."""
        with self._lock, _translated():
            self._refresh()
            return set(keys) - self._keys

    def record(self, keys: Sequence[str]) -> int:
        """Write down that these were published; gives how many nobody else wrote down meanwhile.

        If killed: some pages are written, each whole or not at all.
        """
        with self._lock, _translated():
            return sum(
                self._record(keys[start : start + _KEYS_PER_PAGE])
                for start in range(0, len(keys), _KEYS_PER_PAGE)
            )

    def bury(self, letters: Iterable[DeadLetter]) -> None:
        """Keep items that were given up. If killed: each is kept whole or not at all."""
        with _translated():
            self._all(self._bury, letters)

    def dead_letters(self, limit: int | None = None) -> list[DeadLetter]:
        """Items that were given up, oldest first."""
        with _translated():
            entries = sorted(
                self._store.list("dead/", limits=_LIMITS), key=lambda entry: entry.modified
            )
            found = self._all(self._letter, [entry.name for entry in entries[:limit]])
        return [letter for letter in found if letter is not None]

    def dead_count(self) -> int:
        with _translated():
            return len(self._store.list("dead/", limits=_LIMITS))

    def forgive(self, letters: Iterable[DeadLetter]) -> None:
        """Forget that these were given up."""
        with _translated():
            names = [_dead_name(letter.item.key) for letter in letters]
            self._store.delete(names, limits=_LIMITS)

    def _record(self, keys: Sequence[str]) -> int:
        for _ in range(_TRIES_MAX):
            new = [key for key in dict.fromkeys(keys) if key not in self._keys]
            if not new:
                return 0
            name = f"keys/{len(self._read) + 1:08}.jsonl"
            # The id makes the page ours: a store may say that it failed when it had not.
            lines = [{"count": len(new), "id": uuid.uuid4().hex}, *new]
            data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
            try:
                create_or_confirm(self._store, name, data, limits=_LIMITS)
            except AlreadyExists:
                if not self._refresh():
                    # Some mounted folders show a new file only after a while.
                    time.sleep(_PAUSE_SECONDS)
                continue
            self._keys.update(new)
            self._read.add(name)
            return len(new)
        raise QueueUnavailable(
            f"The ledger {self._store.url} was always a page further.",
            hint="Let fewer programs publish at the same time.",
        )

    def _refresh(self) -> bool:
        """Read the pages that others have written since; whether there were any."""
        unread = [name for name in self._pages() if name not in self._read]
        for name, keys in zip(unread, self._all(self._keys_in, unread), strict=True):
            self._keys.update(keys)
            self._read.add(name)
        return bool(unread)

    def _pages(self) -> list[str]:
        return [entry.name for entry in self._store.list("keys/", limits=_LIMITS)]

    def _keys_in(self, name: str) -> list[str]:
        lines = self._store.read(name, limits=_LIMITS).splitlines()
        return [self._parsed(name, line, str) for line in lines[1:]]

    def _count_in(self, name: str) -> int:
        head = self._store.read(name, length=_HEAD_BYTES_MAX, limits=_LIMITS)
        fields = self._parsed(name, head.partition(b"\n")[0], dict)
        return int(fields["count"])

    def _bury(self, letter: DeadLetter) -> None:
        fields = {**letter.item._asdict(), "errors": letter.errors}
        data = json.dumps(fields, ensure_ascii=False).encode(errors="backslashreplace")
        with contextlib.suppress(AlreadyExists):
            self._store.create(_dead_name(letter.item.key), [data], limits=_LIMITS)

    def _letter(self, name: str) -> DeadLetter | None:
        try:
            fields = self._parsed(name, self._store.read(name, limits=_LIMITS), dict)
        except NotFound:
            return None
        item = Item(fields["key"], fields["payload"], fields["failures"])
        return DeadLetter(item=item, errors=tuple(fields["errors"]))

    def _parsed(self, name: str, line: bytes, kind: type[T]) -> T:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise QueueUnavailable(
                f"{name!r} in the ledger {self._store.url} is damaged.",
                hint="Bring it back from a copy, or use a new ledger and publish again.",
            )
        return value

    def _all(self, act: Callable[[A], T], each: Iterable[A]) -> list[T]:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, "outlast-ledger") as pool:
            return list(pool.map(act, each))


def _dead_name(key: str) -> str:
    return f"dead/{encode_key(key)}.json"


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise QueueUnavailable(f"The ledger fails: {error}", hint=error.hint) from error
