"""What happens around a save costs the same however long the run, and never loses a checkpoint."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.encoding import encode
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import (
    ROUTINE,
    Buffer,
    Limits,
    StorageTimeout,
    Store,
    StoreEntry,
    StoreUnavailable,
    open_store,
)
from tests.faults.counting import CountingStore
from tests.faults.stores import AroundStore, wrapped
from tests.unit.checkpoint.stores import NEVER, manifest_of, memory_url, saved

T = TypeVar("T")


@contextmanager
def opened(
    monkeypatch: pytest.MonkeyPatch, url: str, wrap: Callable[[Store], Store], **options: Any
) -> Iterator[tuple[Any, Checkpointer, dict[str, Any]]]:
    """A checkpointer whose store is wrapped; the wrapped store, itself, and its state."""
    stores: list[Store] = []

    def wrap_and_keep(store: Store) -> Store:
        stores.append(wrap(store))
        return stores[-1]

    with monkeypatch.context() as patch:
        wrapped(patch, wrap_and_keep)
        state: dict[str, Any] = {"frozen": np.arange(30_000.0), "x": np.zeros(20_000), "n": 0}
        checkpointer = Checkpointer(url, state, every_steps=NEVER, **options)
    try:
        yield stores[0], checkpointer, state
    finally:
        checkpointer.close()


def advance(checkpointer: Checkpointer, state: dict[str, Any], step: int) -> None:
    state["x"] += 1
    state["n"] = step
    checkpointer.save(step)


def quiet(checkpointer: Checkpointer) -> None:
    """Wait until the save and what follows it in the same thread are done."""
    checkpointer._session.saver._thread.wait()


def steps_in(url: str) -> list[int]:
    store = open_store(url)
    return [read_manifest(store, name).step for name in manifest_names(store)]


def assert_all_verify(url: str) -> None:
    store = open_store(url)
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []


def with_kept(count: int) -> str:
    """A run that holds so many milestones, all of which share their packs."""
    url = memory_url()
    state = {"frozen": np.arange(30_000.0), "x": np.zeros(20_000), "n": 0}
    saved(url, state, step=10, keep_every=10)
    store = open_store(url)
    first = manifest_of(store, manifest_names(store)[0])
    for number in range(2, count + 1):
        more = replace(first, step=10 * number)
        store.create(more.name, [encode(more)])
    return url


def costs_of_three_saves(monkeypatch: pytest.MonkeyPatch, kept: int) -> list[tuple[int, ...]]:
    """What each save asks of the store in the thread that writes, and all threads' reads of it."""
    url = with_kept(kept)
    found: list[tuple[int, ...]] = []
    with opened(monkeypatch, url, CountingStore, keep_every=10) as (store, checkpointer, state):
        checkpointer.resume()
        for step in (10 * kept + 10, 10 * kept + 20, 10 * kept + 30):
            store.reset()
            advance(checkpointer, state, step)
            quiet(checkpointer)
            checkpointer._session.saver._collector.wait()
            writer = "outlast-saver"
            found.append(
                (
                    store.count("read", thread=writer),
                    store.listed(thread=writer),
                    store.count("read") if step > 10 * kept + 10 else 0,
                )
            )
    assert len(steps_in(url)) == kept + 3
    return found


def test_what_a_save_asks_of_the_store_does_not_grow_with_the_kept_checkpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert costs_of_three_saves(monkeypatch, 1000) == costs_of_three_saves(monkeypatch, 10)


class HeldDeletes(AroundStore):
    """Cleans nothing up before it is told to."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked, self.may_delete = threading.Event(), threading.Event()

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        for name in names:
            if threading.current_thread().name.startswith("outlast-garbage"):
                self.asked.set()
                assert self.may_delete.wait(60)
            super().delete([name], limits=limits)


def test_what_became_garbage_during_a_slow_cleanup_goes_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = memory_url()
    with opened(monkeypatch, url, HeldDeletes, keep_last=2) as (store, checkpointer, state):
        checkpointer.resume()
        for step in (1, 2, 3):
            advance(checkpointer, state, step)
        assert store.asked.wait(60)
        for step in (4, 5):
            advance(checkpointer, state, step)
            quiet(checkpointer)
        store.may_delete.set()

    assert steps_in(url) == [5, 4]
    assert_all_verify(url)


class OnceBad(AroundStore):
    """Fails one request, by its number: before it is done, or after it."""

    def __init__(self, store: Store, number: int, *, error: Exception, late: bool) -> None:
        super().__init__(store)
        self._left = number
        self._error = error
        self._late = late
        self._lock = threading.Lock()
        self.failed = ""

    def create(self, name: str, parts: Any, *, limits: Limits = ROUTINE) -> None:
        self._do(f"create {name}", lambda: self.inner.create(name, parts, limits=limits))

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        inner = self.inner
        return self._do(
            f"read {name}", lambda: inner.read(name, start=start, length=length, limits=limits)
        )

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        inner = self.inner
        self._do(
            f"read {name}", lambda: inner.read_into(name, *buffers, start=start, limits=limits)
        )

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        return self._do(f"list {prefix}", lambda: self.inner.list(prefix, limits=limits))

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        for name in names:
            self._do(f"delete {name}", lambda: self.inner.delete([name], limits=limits))  # noqa: B023

    def _do(self, what: str, work: Callable[[], T]) -> T:
        with self._lock:
            is_bad = self._left == 0
            self._left -= 1
        if not is_bad:
            return work()
        self.failed = what
        if self._late:
            work()
        raise self._error


@pytest.mark.parametrize("late", [False, True], ids=["refused", "done but not confirmed"])
@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("the server answered 503"), StorageTimeout("It took too long.")],
    ids=lambda error: type(error).__name__,
)
def test_whichever_request_fails_every_listed_checkpoint_verifies_and_no_garbage_stays(
    monkeypatch: pytest.MonkeyPatch, error: Exception, late: bool
) -> None:
    for number in range(200):
        url = memory_url()

        def wrap(inner: Store) -> Store:
            return OnceBad(inner, number, error=error, late=late)  # noqa: B023

        options = {"keep_last": 2, "on_error": "warn"}
        with opened(monkeypatch, url, wrap, **options) as (store, checkpointer, state):
            try:
                checkpointer.resume()
            except type(error):
                assert store.failed
                continue
            for step in range(1, 6):
                advance(checkpointer, state, step)
                quiet(checkpointer)
                checkpointer._session.saver._collector.wait()
                assert_all_verify(url)
        assert_all_verify(url)
        assert steps_in(url)[0] >= 4, store.failed
        saved(url, state, step=6, keep_last=2)
        # The checkpoint that was resumed from stays during an attempt, and then goes.
        saved(url, state, step=7, keep_last=2)
        assert steps_in(url) == [7, 6], store.failed
        if not store.failed:
            break
    assert number > 30


def test_a_second_copy_that_cannot_be_written_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoSecondCopies(AroundStore):
        packs = 0

        def before(self, name: str, limits: Limits) -> None:
            if name.startswith("packs/"):
                self.packs += 1
                if self.packs == 3:
                    raise StoreUnavailable("Could not write the pack.")

    caplog.set_level(logging.WARNING)
    url = memory_url()
    with opened(monkeypatch, url, NoSecondCopies, keep_last=1) as (_, checkpointer, state):
        checkpointer.resume()
        for step in (1, 2, 3):
            advance(checkpointer, state, step)
            quiet(checkpointer)

    assert "Could not write second copies for the checkpoint of step 2" in caplog.text
    assert "Could not write the pack." in caplog.text
    assert "cleaned up" not in caplog.text
    assert steps_in(url) == [3]
    assert_all_verify(url)


def test_a_save_that_failed_takes_nothing_from_one_whose_commit_was_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ambiguous(AroundStore):
        """Keeps the second manifest but times out, also when asked for it; then refuses packs."""

        manifests, refuses, doubtful = 0, False, ""

        def create(self, name: str, parts: Any, *, limits: Limits = ROUTINE) -> None:
            if name.startswith("packs/") and self.refuses:
                raise StoreUnavailable("Could not write the pack.")
            super().create(name, parts, limits=limits)

        def after(self, name: str) -> None:
            self.manifests += name.startswith("manifests/")
            if name.startswith("manifests/") and self.manifests == 2:
                self.refuses, self.doubtful = True, name
                raise StorageTimeout("It took too long.")

        def read(self, name: str, **options: Any) -> bytes:
            if name == self.doubtful:
                self.doubtful = ""
                raise StorageTimeout("It took too long.")
            return super().read(name, **options)

    url = memory_url()
    options = {"keep_last": 1, "on_error": "warn"}
    with opened(monkeypatch, url, Ambiguous, **options) as (store, checkpointer, state):
        checkpointer.resume()
        for step in (1, 2, 3):
            advance(checkpointer, state, step)
            quiet(checkpointer)
        assert steps_in(url) == [2, 1]
        assert_all_verify(url)
        store.refuses = False
        advance(checkpointer, state, 4)

    assert steps_in(url) == [4]
    assert_all_verify(url)
