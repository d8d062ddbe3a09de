"""Results in a folder or an object store, one small object per result.

Objects are never overwritten: a newer result is a new object next to the older one, and the names
show which one is current. That needs neither a lock nor an exclusive create, so it also works on
mounted buckets. Replaced objects are deleted afterwards. The first line of an object identifies the
result, and the rest is the result itself.

`epochs/0000000007.json` names the queue and version of the seventh run that stored results here.
"""

import contextlib
import json
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from outlast._base.batches import batched
from outlast.queue.key_names import encode_key
from outlast.results.errors import ResultDamaged, SinkUnavailable, SinkUrlError
from outlast.results.object_names import (
    TOP_FOLDERS,
    ResultName,
    fingerprint,
    folder_of_key,
    name_of,
    newest,
    parse_name,
)
from outlast.results.protocol import Result
from outlast.storage.errors import AlreadyExists, BadURL, NotFound, StorageError
from outlast.storage.limits import SMALL_OBJECTS
from outlast.storage.opening import open_store
from outlast.storage.protocol import create_or_confirm

_REQUESTS_AT_ONCE = 32
# Above this many folders, listing all of them is cheaper.
_FOLDERS_MAX = 512
_HEAD_BYTES_MAX = 16 * 1024
_RUN_BYTES_MAX = 64 * 1024
_TRIES_MAX = 100
_PAUSE_SECONDS = 0.1

T = TypeVar("T")
A = TypeVar("A")


class ObjectSink:
    """One object per key in a folder, or at a URL such as `gs://bucket/prefix`.

    `done` and `store` send the requests for all keys concurrently, so they take as long as one or
    two requests. `count` and `results` list everything.
    """

    def __init__(self, url: str) -> None:
        try:
            self._store = open_store(url)
        except BadURL as error:
            raise SinkUrlError(
                f"Invalid sink URL: {error}",
                hint="Use sqlite:///file, postgresql://host/database, gs://bucket/prefix or a "
                "folder.",
            ) from None
        self._lock = threading.Lock()
        self._epochs_lock = threading.Lock()
        self._epochs: dict[tuple[str, str], int] = {}
        self._runs: dict[int, tuple[str, str]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    @property
    def url(self) -> str:
        return self._store.url

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        wanted = fingerprint(version)
        found = {encoded: newest(names).version for encoded, names in self._found(keys).items()}
        return {key for key in keys if found.get(encode_key(key)) == wanted}

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        """Store all results. Returns the keys that were refused because newer results exist.

        If killed: each result is stored completely or not at all. Results that were replaced may be
        left; they are ignored, and deleted when the key is stored again.
        """
        payloads = dict(results)
        if not payloads:
            return set()
        epoch = self._epoch(queue, version)
        named = {
            key: name_of(key, epoch=epoch, token=token, queue=queue, version=version)
            for key in payloads
        }
        head = {"version": version, "token": token, "queue": queue, "epoch": epoch}
        self._all(lambda key: self._create(key, named[key], head, payloads[key]), payloads)
        # Listed only now: this shows any newer result stored before ours, and whoever stores a
        # newer one later sees ours.
        found = self._found(payloads)
        counting = {encoded: newest(names) for encoded, names in found.items()}
        outdated = [
            name.text
            for encoded, names in found.items()
            for name in sorted(names, key=lambda name: name.token)
            if name != counting[encoded]
        ]
        if outdated:
            with _translated():
                self._store.delete(outdated, limits=SMALL_OBJECTS)
        # If it is not found at all, a newer one was stored and replaced in the meantime.
        return {key for key, name in named.items() if counting.get(name.encoded) != name}

    def count(self, *, version: str | None = None) -> int:
        wanted = None if version is None else fingerprint(version)
        return sum(wanted in (None, name.version) for name in self._newest())

    def results(self) -> Iterator[Result]:
        """All results, sorted by key. The names are kept in memory, the results are not."""
        names = self._newest()
        hidden = [name for name in names if name.key is None]
        keys = dict(zip(hidden, self._all(self._key_in, hidden), strict=True))
        pairs = sorted((name.key or keys[name], name) for name in names)
        for window in batched(pairs, lambda pair: pair[1].size_bytes, count_max=_REQUESTS_AT_ONCE):
            for result in self._all(lambda pair: self._read(pair[1]), window):
                if result is not None:
                    yield result

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None

    def _epoch(self, queue: str, version: str) -> int:
        """The number of the run; a new one if the queue's latest run has another version.

        A process keeps its number, or two versions on one queue would keep replacing each other.
        """
        with self._epochs_lock:
            if (queue, version) not in self._epochs:
                with _translated():
                    self._epochs[queue, version] = self._find_epoch(queue, version)
            return self._epochs[queue, version]

    def _find_epoch(self, queue: str, version: str) -> int:
        for _ in range(_TRIES_MAX):
            self._read_runs()
            latest = max((n for n, run in self._runs.items() if run[0] == queue), default=0)
            if latest and self._runs[latest][1] == version:
                return latest
            number = max(self._runs, default=0) + 1
            # The ID identifies our entry: a store may report a failure although it succeeded.
            fields = {"queue": queue, "version": version, "id": uuid.uuid4().hex}
            data = json.dumps(fields, ensure_ascii=False).encode()
            try:
                create_or_confirm(self._store, _epoch_name(number), data, limits=SMALL_OBJECTS)
            except AlreadyExists:
                # Some mounted folders show a new file only after a delay.
                time.sleep(_PAUSE_SECONDS * random.random())
            else:
                return number
        raise SinkUnavailable(
            f"Could not register this run in {self.url} in {_TRIES_MAX} attempts.",
            hint="Start fewer workers at the same time.",
        )

    def _read_runs(self) -> None:
        """Read the entries of runs that were not read yet."""
        for entry in self._store.list("epochs/", limits=SMALL_OBJECTS):
            digits = entry.name.removeprefix("epochs/").removesuffix(".json")
            if not digits.isdecimal() or entry.name != _epoch_name(int(digits)):
                continue
            if int(digits) not in self._runs:
                self._runs[int(digits)] = self._run_in(entry.name)

    def _run_in(self, name: str) -> tuple[str, str]:
        try:
            data = self._store.read(name, length=_RUN_BYTES_MAX, limits=SMALL_OBJECTS)
            fields = json.loads(data) if len(data) < _RUN_BYTES_MAX else {}
            run = (fields["queue"], fields["version"])
            if all(isinstance(text, str) for text in run):
                return run
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        # Its number is taken, but it matches no run.
        return ("\0", "")

    def _create(
        self, key: str, name: ResultName, fields: Mapping[str, object], payload: str
    ) -> None:
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        head = {"key": key, **fields, "stored_at": at}
        text = f"{json.dumps(head, ensure_ascii=False)}\n{payload}\n"
        # An existing object of this name was stored by the same lease: by us before a restart, or
        # when the store reported a failure although it succeeded. If leases have no order, it may
        # be from another lease, and then the first result stays.
        with contextlib.suppress(AlreadyExists):
            self._store.create(name.text, [text.encode()], limits=SMALL_OBJECTS)

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
        """The key of a result whose name contains only its hash."""
        start = self._bytes(name, _HEAD_BYTES_MAX)
        return "" if start is None else self._key(start.partition(b"\n")[0], name)

    def _bytes(self, name: ResultName, length: int | None = None) -> bytes | None:
        """The object of this name, or the one that replaced it; None if that is gone too.

        Never reads more than the listed size: objects do not change.
        """
        for _ in range(_TRIES_MAX):
            wanted = max(1, name.size_bytes) if length is None else length
            try:
                return self._store.read(name.text, length=wanted, limits=SMALL_OBJECTS)
            except NotFound:
                folder = name.text[: name.text.rindex("/") + 1]
                names = [one for one in self._names_in(folder) if one.encoded == name.encoded]
                if not names or newest(names) == name:
                    return None
                name = newest(names)
        raise SinkUnavailable(
            f"Could not read the result {name.text!r} in {self.url}: it was replaced repeatedly.",
            hint="Read the results again when the workers have ended.",
        )

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
            hint="Delete it and publish its item to a new queue; it is not recomputed on its own.",
        )

    def _newest(self) -> list[ResultName]:
        return [newest(names) for names in self._found(None).values()]

    def _found(self, keys: Iterable[str] | None) -> dict[str, list[ResultName]]:
        """The names of all results of these keys, or of all keys, by encoded key."""
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
        entries = self._store.list(folder, limits=SMALL_OBJECTS)
        return [
            name
            for entry in entries
            if (name := parse_name(entry.name, entry.size_bytes)) is not None
        ]

    def _all(self, act: Callable[[A], T], each: Iterable[A]) -> list[T]:
        """Call the function for each value, many at a time."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                # A forked child inherits the pool, but not its threads.
                self._pool = ThreadPoolExecutor(_REQUESTS_AT_ONCE, "outlast-results")
                self._pid = os.getpid()
            pool = self._pool
        with _translated():
            return list(pool.map(act, each))


def _epoch_name(number: int) -> str:
    return f"epochs/{number:010}.json"


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise SinkUnavailable(str(error), hint=error.hint) from error
