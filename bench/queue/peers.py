"""The peers on SQLite, each as its documentation says. They store no results here."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bench.queue.system import PAYLOAD, Puller


class PersistQueue:
    """`SQLiteAckQueue`: a get marks an item, an ack marks it again; chunks are unknown to it."""

    name = "persist-queue"
    knows_chunks = False

    def is_installed(self) -> bool:
        return find_spec("persistqueue") is not None

    def fill(self, place: str, count: int) -> None:
        queue = _ack_queue(place)
        for _ in range(count):
            queue.put(PAYLOAD)
        queue.close()

    def open(self, place: str) -> Puller:
        return _PersistPuller(_ack_queue(place))


class Huey:
    """`SqliteStorage` with `fsync`: a dequeue deletes, so a kill loses what was taken."""

    name = "huey"
    knows_chunks = False

    def is_installed(self) -> bool:
        return find_spec("huey") is not None

    def fill(self, place: str, count: int) -> None:
        storage = _huey_storage(place)
        for _ in range(count):
            storage.enqueue(PAYLOAD.encode())
        storage.close()

    def open(self, place: str) -> Puller:
        return _HueyPuller(_huey_storage(place))


class _PersistPuller:
    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._empty = import_module("persistqueue.exceptions").Empty

    def step(self, chunk: int) -> int:
        for taken in range(chunk):
            try:
                self._queue.ack(self._queue.get(block=False))
            except self._empty:
                return taken
        return chunk

    def close(self) -> None:
        self._queue.close()


class _HueyPuller:
    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def step(self, chunk: int) -> int:
        for taken in range(chunk):
            if self._storage.dequeue() is None:
                return taken
        return chunk

    def close(self) -> None:
        self._storage.close()


def _ack_queue(place: str) -> Any:
    make = import_module("persistqueue").SQLiteAckQueue
    return make(f"{place}/persist", auto_commit=True, timeout=60)


def _huey_storage(place: str) -> Any:
    make = import_module("huey.storage").SqliteStorage
    return make(filename=f"{place}/huey.db", fsync=True, timeout=60)
