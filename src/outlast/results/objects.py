"""Results in a folder or an object store, each in a small file of its own.

The store cannot overwrite, so a newer result is a new object beside the older one, and the largest
token counts, whoever reads. That needs neither a lock nor an exclusive create, and so holds on
mounted buckets, too. What was replaced is deleted afterwards. The first line of a file says whose
result it is, the rest is the result.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

from outlast.queue.key_names import encode_key
from outlast.results.errors import ResultDamaged, SinkUnavailable, SinkUrlError
from outlast.results.object_names import (
    TOP_FOLDERS,
    ResultName,
    fingerprint,
    folder_of_key,
    name_of,
    parse_name,
)
from outlast.results.protocol import Result
from outlast.storage.errors import AlreadyExists, BadURL, NotFound, StorageError
from outlast.storage.limits import Limits
from outlast.storage.opening import open_store

_REQUESTS_AT_ONCE = 32
# From so many folders on, it is less work to list all of them.
_FOLDERS_MAX = 512
_HEAD_BYTES_MAX = 16 * 1024
_LIMITS = Limits(
    connect_seconds_max=4.0, request_seconds_max=30.0, attempts_max=4, total_seconds_max=60.0
)

T = TypeVar("T")
A = TypeVar("A")


class ObjectSink:
    """One object per key below a folder or a URL such as `gs://bucket/prefix`.

    `done` and `store` ask for all keys at the same time: they take as long as one or two requests
    do. `count` and `results` list everything.
    """

    def __init__(self, url: str) -> None:
        try:
            self._store = open_store(url)
        except BadURL as error:
            raise SinkUrlError(
                f"No sink can be opened there: {error}",
                hint="Use sqlite:///file, postgresql://host/database, gs://bucket/prefix or a "
                "folder.",
            ) from None
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    @property
    def url(self) -> str:
        return self._store.url

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        wanted = fingerprint(version)
        newest = {
            encoded: max(names, key=_age).version for encoded, names in self._found(keys).items()
        }
        return {key for key in keys if newest.get(encode_key(key)) == wanted}

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        """Store all results and give the keys that were refused because a newer lease stored them.

        If killed: each result is there whole or not at all. What a newer one replaced may be left
        beside it, does not count, and goes when the key is next stored.
        """
        payloads = dict(results)
        self._all(lambda key: self._create(key, payloads[key], token, version), payloads)
        # Looked at only now: a newer result that was there before ours is seen, and whoever stores
        # a newer one later sees ours.
        refused = set()
        outdated: list[str] = []
        for encoded, names in self._found(payloads).items():
            names.sort(key=_age)
            outdated += [name.text for name in names[:-1]]
            if names[-1].token > token:
                refused.add(encoded)
        if outdated:
            with _translated():
                self._store.delete(outdated, limits=_LIMITS)
        return {key for key in payloads if encode_key(key) in refused}

    def count(self, *, version: str | None = None) -> int:
        wanted = None if version is None else fingerprint(version)
        return sum(wanted in (None, name.version) for name in self._newest())

    def results(self) -> Iterator[Result]:
        """Every result, by key. The names are held in memory, the results are not."""
        names = self._newest()
        hidden = [name for name in names if name.key is None]
        keys = dict(zip(hidden, self._all(self._key_in, hidden), strict=True))
        source = iter(sorted((name.key or keys[name], name) for name in names))
        while window := list(islice(source, _REQUESTS_AT_ONCE)):
            for result in self._all(lambda pair: self._read(pair[1]), window):
                if result is not None:
                    yield result

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None

    def _create(self, key: str, payload: str, token: int, version: str) -> None:
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        head = {"key": key, "version": version, "token": token, "stored_at": at}
        text = f"{json.dumps(head, ensure_ascii=False)}\n{payload}\n"
        name = name_of(key, token=token, version=version)
        # Of this name is only what the same lease stored: we did, and have forgotten, or were told
        # that it failed when it had not.
        with contextlib.suppress(AlreadyExists):
            self._store.create(name.text, [text.encode()], limits=_LIMITS)

    def _read(self, name: ResultName) -> Result | None:
        data = self._bytes(name)
        if data is None:
            return None
        head, _, rest = data.partition(b"\n")
        try:
            return Result(self._key(head, name), rest.decode().removesuffix("\n"))
        except UnicodeDecodeError:
            raise self._damaged(name) from None

    def _key_in(self, name: ResultName) -> str:
        """The key of a result whose name does not tell it."""
        start = self._bytes(name, _HEAD_BYTES_MAX)
        return "" if start is None else self._key(start.partition(b"\n")[0], name)

    def _bytes(self, name: ResultName, length: int | None = None) -> bytes | None:
        """What stands under this name, or what replaced it meanwhile; None if that is gone."""
        while True:
            try:
                return self._store.read(name.text, length=length, limits=_LIMITS)
            except NotFound:
                folder = name.text[: name.text.rindex("/") + 1]
                names = [one for one in self._names_in(folder) if one.encoded == name.encoded]
                newer = max(names, key=_age, default=None)
                if newer is None or _age(newer) <= _age(name):
                    return None
                name = newer

    def _key(self, head: bytes, name: ResultName) -> str:
        try:
            key = json.loads(head)["key"]
            if isinstance(key, str) and encode_key(key) == name.encoded:
                return key
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise self._damaged(name)

    def _damaged(self, name: ResultName) -> ResultDamaged:
        return ResultDamaged(
            f"The result {name.text!r} in {self.url} is damaged.",
            hint="Delete it and compute it anew; its item does not come back by itself.",
        )

    def _newest(self) -> list[ResultName]:
        return [max(names, key=_age) for names in self._found(None).values()]

    def _found(self, keys: Iterable[str] | None) -> dict[str, list[ResultName]]:
        """The names of all results of these keys, or of all keys, by the encoded key."""
        wanted = None if keys is None else {encode_key(key): folder_of_key(key) for key in keys}
        folders = TOP_FOLDERS if wanted is None else tuple(sorted(set(wanted.values())))
        if len(folders) > _FOLDERS_MAX:
            folders = TOP_FOLDERS
        found: dict[str, list[ResultName]] = {}
        for names in self._all(self._names_in, folders):
            for name in names:
                if wanted is None or name.encoded in wanted:
                    found.setdefault(name.encoded, []).append(name)
        return found

    def _names_in(self, folder: str) -> list[ResultName]:
        entries = self._store.list(folder, limits=_LIMITS)
        return [name for entry in entries if (name := parse_name(entry.name)) is not None]

    def _all(self, act: Callable[[A], T], each: Iterable[A]) -> list[T]:
        """Do this for each, many at the same time."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                # A forked child inherits a pool, but none of its threads.
                self._pool = ThreadPoolExecutor(_REQUESTS_AT_ONCE, "outlast-results")
                self._pid = os.getpid()
            pool = self._pool
        with _translated():
            return list(pool.map(act, each))


def _age(name: ResultName) -> tuple[int, str]:
    return name.token, name.version


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise SinkUnavailable(str(error), hint=error.hint) from error
