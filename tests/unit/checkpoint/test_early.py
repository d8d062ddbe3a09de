"""The beginning of a large state is written while the rest is still being copied."""

import ctypes
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch  # noqa: F401 - the killed program and this one have the same random generators

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.checkpoint.saving import copying, early, packing, staging
from outlast.checkpoint.saving.early import EarlyWrites, early_ends
from outlast.checkpoint.state.tree import capture
from outlast.storage import Limits, Store, StoreFull, open_store
from outlast.storage.local import store as local_store
from tests.faults.stores import AroundStore, wrapped
from tests.patience import PATIENCE_SECONDS
from tests.unit.checkpoint.stores import NEVER, manifest_of, resumed

ELEMENTS = 20_000
MIB = 2**20


class WatchedStore(AroundStore):
    """Notes when a pack is durable. The next pack can be refused once, or held up."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.has_pack = threading.Event()
        self.refuses = False
        self.has_refused = threading.Event()
        self.has_begun = threading.Event()
        self.may_write = threading.Event()
        self.may_write.set()

    def before(self, name: str, limits: Limits) -> None:
        if not name.startswith("packs/"):
            return
        self.has_begun.set()
        assert self.may_write.wait(PATIENCE_SECONDS)
        if self.refuses:
            self.refuses = False
            self.has_refused.set()
            raise StoreFull("No space left on device.", hint="Free some space.")

    def after(self, name: str) -> None:
        if name.startswith("packs/"):
            self.has_pack.set()


def allow_small(monkeypatch: pytest.MonkeyPatch, early_bytes: int) -> None:
    """Write small states early, too."""
    access = replace(local_store._ACCESS, early_create_bytes=early_bytes)
    monkeypatch.setattr(local_store, "_ACCESS", access)
    monkeypatch.setattr(packing, "_EARLY_STATE_BYTES_MIN", 0)


class Save:
    """A run whose copies of the array `last` wait for `go`, or fail then with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: Path, **options: Any) -> None:
        self.url = url
        self.state = {
            name: np.random.default_rng(seed).random(ELEMENTS)
            for seed, name in enumerate(("first", "last"))
        }
        self.is_at_last = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.error: BaseException | None = None
        stores: list[WatchedStore] = []

        def wrap(store: Store) -> Store:
            stores.append(WatchedStore(store))
            return stores[-1]

        allow_small(monkeypatch, early_bytes=100_000)
        monkeypatch.setattr(copying, "ctypes", SimpleNamespace(memmove=self._memmove))
        with monkeypatch.context() as patch:
            wrapped(patch, wrap)
            self.checkpointer = Checkpointer(url, self.state, every_steps=NEVER, **options)
        self.checkpointer.resume()
        self.store = stores[0]
        self._pool = ThreadPoolExecutor(1)

    def _memmove(self, target: int, source: int, length: int) -> None:
        if source == self.state["last"].ctypes.data:
            self.is_at_last.set()
            assert self.go.wait(PATIENCE_SECONDS)
            if self.error is not None:
                raise self.error
        ctypes.memmove(target, source, length)

    def save(self, step: int) -> None:
        self.change()
        self.checkpointer.save(step)
        self.settle()

    def settle(self) -> None:
        self.checkpointer._session.saver.wait()
        self.checkpointer._session.saver._collector.wait()

    def change(self) -> None:
        for array in self.state.values():
            array += 1

    def start(self, step: int) -> "Future[None]":
        """Save in another thread, until `last` is about to be copied."""
        self.change()
        self.go.clear()
        self.is_at_last.clear()
        self.store.has_pack.clear()
        self.store.has_begun.clear()
        future = self._pool.submit(self.checkpointer.save, step)
        assert self.is_at_last.wait(PATIENCE_SECONDS)
        return future

    def packs(self) -> set[str]:
        return {entry.name for entry in open_store(self.url).list("packs/")}

    def manifests(self) -> list[CheckpointManifest]:
        store = open_store(self.url)
        return [manifest_of(store, name) for name in manifest_names(store)]

    def steps(self) -> list[int]:
        return [manifest.step for manifest in self.manifests()]

    def check(self, step: int) -> None:
        """The newest checkpoint is that of the step, and has the bits of the state."""
        blank = {name: np.zeros_like(array) for name, array in self.state.items()}
        assert resumed(str(self.url), blank) == step
        assert all(np.array_equal(blank[name], array) for name, array in self.state.items())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Save]:
    run = Save(monkeypatch, tmp_path / "run", on_error="raise")
    yield run
    run.go.set()
    run.store.may_write.set()
    run.checkpointer.close()


def test_the_first_pack_is_durable_before_the_last_bytes_are_copied(run: Save) -> None:
    saving = run.start(1)

    assert run.store.has_pack.wait(PATIENCE_SECONDS)
    assert not saving.done()
    assert run.steps() == []
    run.go.set()
    saving.result(PATIENCE_SECONDS)
    run.checkpointer.wait()

    assert run.steps() == [1]
    run.check(1)


def test_the_loop_does_not_wait_for_what_is_written_early(run: Save) -> None:
    run.store.may_write.clear()
    saving = run.start(1)

    run.go.set()
    saving.result(PATIENCE_SECONDS)

    assert run.steps() == []
    run.store.may_write.set()
    run.checkpointer.wait()
    run.check(1)


def test_a_state_of_which_little_changes_is_hashed_before_it_is_written(run: Save) -> None:
    run.save(1)
    for step in (2, 3, 4):
        run.state["last"] += 1
        run.checkpointer.save(step)
        run.settle()

    later = [manifest for manifest in run.manifests() if manifest.step > 1]
    assert all(manifest.new_bytes < 1.5 * run.state["last"].nbytes for manifest in later)
    run.check(4)


def test_a_state_that_changes_is_written_early_from_the_third_save_on(run: Save) -> None:
    run.save(1)
    was_early = []
    for step in (2, 3, 4):
        run.store.may_write.clear()
        saving = run.start(step)
        was_early.append(bool(run.checkpointer._session.saver._packs._early.spans))
        run.store.may_write.set()
        run.go.set()
        saving.result(PATIENCE_SECONDS)
        run.settle()

    assert was_early == [False, True, True]
    run.check(4)


def test_what_was_written_early_for_nothing_is_deleted(run: Save) -> None:
    for step in (1, 2, 3):
        run.save(step)

    run.checkpointer.save(4)
    run.settle()
    run.checkpointer.save(5)
    run.settle()

    used = set().union(*(manifest.packs for manifest in run.manifests()))
    assert run.packs() == used
    run.check(5)


def test_a_copy_that_fails_meanwhile_commits_nothing_and_leaves_no_packs(run: Save) -> None:
    for step in (1, 2):
        run.save(step)
    packs = run.packs()
    run.error = OSError(5, "the array is gone")
    saving = run.start(3)
    assert run.store.has_pack.wait(PATIENCE_SECONDS)

    run.go.set()
    with pytest.raises(OSError, match="the array is gone"):
        saving.result(PATIENCE_SECONDS)

    assert max(run.steps()) == 2
    assert run.packs() == packs
    assert not run.checkpointer._session.saver.busy
    run.error = None
    run.save(3)
    run.check(3)


def test_a_copy_that_fails_waits_until_its_memory_is_not_read_anymore(run: Save) -> None:
    run.store.may_write.clear()
    run.error = OSError(5, "the array is gone")
    saving = run.start(1)
    assert run.store.has_begun.wait(PATIENCE_SECONDS)

    run.go.set()
    with pytest.raises(TimeoutError):
        saving.result(0.1)
    run.store.may_write.set()
    with pytest.raises(OSError, match="the array is gone"):
        saving.result(PATIENCE_SECONDS)

    run.error = None
    run.save(2)
    run.check(2)


def test_a_disk_that_is_full_meanwhile_gets_room_and_the_save_is_complete(run: Save) -> None:
    for step in (1, 2, 3):
        run.save(step)
    run.store.refuses = True
    saving = run.start(4)
    assert run.store.has_refused.wait(PATIENCE_SECONDS)

    run.go.set()
    saving.result(PATIENCE_SECONDS)
    run.checkpointer.wait()

    assert max(run.steps()) == 4
    run.check(4)


def test_a_disk_that_stays_full_fails_the_save_and_not_the_copy(run: Save) -> None:
    run.store.refuses = True
    saving = run.start(1)
    assert run.store.has_refused.wait(PATIENCE_SECONDS)

    run.go.set()
    saving.result(PATIENCE_SECONDS)
    with pytest.raises(StoreFull):
        run.checkpointer.wait()

    assert run.steps() == []
    run.save(2)
    run.check(2)


KILLED = """
import ctypes, os, signal, sys, time
from dataclasses import replace
from types import SimpleNamespace
from pathlib import Path
import numpy as np
import torch
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.saving import copying, packing
from outlast.storage.local import store

packing._EARLY_STATE_BYTES_MIN = 0
store._ACCESS = replace(store._ACCESS, early_create_bytes=100_000)
packs = Path(sys.argv[1]) / "packs"
state = {name: np.random.default_rng(0).random(20_000) for name in ("first", "last")}
before = None

def memmove(target, source, length):
    if before is not None and source == state["last"].ctypes.data:
        while not set(packs.iterdir()) - before:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.memmove(target, source, length)

copying.ctypes = SimpleNamespace(memmove=memmove)
checkpointer = Checkpointer(sys.argv[1], state, every_steps=10**9)
checkpointer.resume()
for step in (1, 2, 3):
    before = set(packs.iterdir()) if step == 3 else None
    checkpointer.save(step)
    checkpointer.wait()
    for array in state.values():
        array += 1
"""


def test_a_kill_while_packs_are_written_and_bytes_are_copied_leaves_the_previous_checkpoint(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], timeout=PATIENCE_SECONDS, check=False
    )

    assert done.returncode == -9
    store = open_store(tmp_path)
    newest = manifest_of(store, manifest_names(store)[0])
    assert newest.step == 2
    assert verify_checkpoint(store, newest, lambda _: None) == []
    expected = np.random.default_rng(0).random(20_000)
    blank = {"first": np.zeros(20_000), "last": np.zeros(20_000)}
    assert resumed(str(tmp_path), blank) == 2
    assert np.array_equal(blank["first"], expected + 1)


@pytest.mark.parametrize("seed", range(10))
def test_arrays_that_change_or_do_not_keep_their_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    allow_small(monkeypatch, early_bytes=int(chance.integers(1, 1_000_000)))
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 500_000)
    monkeypatch.setattr(packing, "_EARLY_NEW_SHARE_MIN", 0.3)
    monkeypatch.setattr(early, "_GROWTH", 1 + int(chance.integers(1, 4)))
    state = {f"a{number}": np.zeros(chance.integers(1, 20_000)) for number in range(40)}
    with Checkpointer(tmp_path / "run", state, every_steps=NEVER, keep_last=3) as checkpointer:
        checkpointer.resume()
        for step in range(1, 9):
            # Arrays that change, do not, become equal to another, or go back to what they were.
            for array in state.values():
                array[:] = chance.choice([array[0], chance.integers(5), step, chance.random()])
            checkpointer.save(step)
            checkpointer._session.saver.wait()
            checkpointer._session.saver._collector.wait()
            # A resume in the same place would fence this run off.
            copy = shutil.copytree(tmp_path / "run", tmp_path / str(step))
            blank = {name: np.full_like(array, -1) for name, array in state.items()}
            assert resumed(str(copy), blank) == step
            assert all(np.array_equal(blank[name], array) for name, array in state.items())


@pytest.mark.parametrize(
    ("first", "size", "ends"),
    [
        (None, 1024 * MIB, []),
        (64 * MIB, 100 * MIB, []),
        (64 * MIB, 128 * MIB, [64]),
        (64 * MIB, 1024 * MIB, [64, 256]),
        (64 * MIB, 8192 * MIB, [64, 256, 1024, 4096]),
    ],
)
def test_each_early_part_is_larger_and_the_second_half_is_left(
    first: int | None, size: int, ends: list[int]
) -> None:
    assert list(early_ends(first, size)) == [end * MIB for end in ends]


def test_leaves_are_cut_where_one_reaches_an_end() -> None:
    leaves = capture({str(number): np.zeros(10, np.uint8) for number in range(6)}).leaves
    places = [Span(start=10 * (5 - number), length=10) for number in range(6)]

    parts = list(staging._parts(list(zip(leaves, places, strict=True)), [15, 20, 45]))

    assert [[place.start for _, place in part] for part in parts] == [[0, 10], [20, 30, 40], [50]]


def test_without_memory_for_a_thread_nothing_is_written_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room() -> None:
        raise MemoryError

    monkeypatch.setattr(early, "ensure_room_for_thread", no_room)
    writes = EarlyWrites(1)

    writes.start([[Span(start=0, length=1)]], lambda _: pytest.fail("It was written."))

    assert writes.spans == set()
    assert writes.finish() == {}
