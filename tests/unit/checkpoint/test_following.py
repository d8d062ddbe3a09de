"""A large state is written while its last bytes are still being copied."""

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch  # noqa: F401 - the killed program and this one have the same random generators

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.saving import copying, packing, saver
from outlast.checkpoint.saving.copying import CopyFailed, CopyQueue
from outlast.storage import Limits, Store, StoreFull, open_store
from tests.faults.stores import AroundStore, wrapped
from tests.patience import PATIENCE_SECONDS, eventually
from tests.unit.checkpoint.stores import NEVER, manifest_of, resumed


class WatchedStore(AroundStore):
    """Notes when a pack is durable. The next pack can be refused once."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.has_pack = threading.Event()
        self.refuses = False
        self.has_refused = threading.Event()

    def before(self, name: str, limits: Limits) -> None:
        if self.refuses and name.startswith("packs/"):
            self.refuses = False
            self.has_refused.set()
            raise StoreFull("No space left on device.", hint="Free some space.")

    def after(self, name: str) -> None:
        if name.startswith("packs/"):
            self.has_pack.set()


class Save:
    """A run whose copies of the array `last` wait for `go`, or fail then with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: Path, **options: Any) -> None:
        self.url = url
        self.state = {
            name: np.random.default_rng(seed).random(20_000)
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

        monkeypatch.setattr(saver, "_FOLLOWED_BYTES_MIN", 0)
        monkeypatch.setattr(packing, "PACK_BYTES_MAX", 1)
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
        self.checkpointer._session.saver.wait()
        self.checkpointer._session.saver._collector.wait()

    def change(self) -> None:
        for array in self.state.values():
            array += 1

    def start(self, step: int) -> "Future[None]":
        """Save in another thread, until `first` is durable and `last` is about to be copied."""
        self.change()
        self.go.clear()
        self.is_at_last.clear()
        self.store.has_pack.clear()
        future = self._pool.submit(self.checkpointer.save, step)
        assert self.is_at_last.wait(PATIENCE_SECONDS)
        return future

    def steps(self) -> list[int]:
        store = open_store(self.url)
        return [read_manifest(store, name).step for name in manifest_names(store)]

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
    run.checkpointer.close()


def test_the_first_packs_are_durable_before_the_last_bytes_are_copied(run: Save) -> None:
    run.save(1)
    saving = run.start(2)

    assert run.store.has_pack.wait(PATIENCE_SECONDS)
    assert not saving.done()
    assert run.steps() == [1]
    run.go.set()
    saving.result(PATIENCE_SECONDS)
    run.checkpointer.wait()

    assert run.steps() == [2, 1]
    run.check(2)


def test_a_copy_that_fails_meanwhile_commits_nothing_and_leaves_no_packs(run: Save) -> None:
    run.save(1)
    packs = [entry.name for entry in run.store.list("packs/")]
    run.error = OSError(5, "the array is gone")
    saving = run.start(2)
    assert run.store.has_pack.wait(PATIENCE_SECONDS)

    run.go.set()
    with pytest.raises(OSError, match="the array is gone"):
        saving.result(PATIENCE_SECONDS)

    assert run.steps() == [1]
    assert [entry.name for entry in run.store.list("packs/")] == packs
    assert not run.checkpointer._session.saver.busy
    assert run.checkpointer._session.saver.pending_step is None
    run.error = None
    run.save(3)
    run.check(3)


def test_an_interrupt_in_the_copy_commits_nothing(run: Save) -> None:
    run.save(1)
    run.error = KeyboardInterrupt()
    saving = run.start(2)
    assert run.store.has_pack.wait(PATIENCE_SECONDS)

    run.go.set()
    with pytest.raises(KeyboardInterrupt):
        saving.result(PATIENCE_SECONDS)

    assert run.steps() == [1]
    run.error = None
    run.save(2)
    run.check(2)


def test_a_disk_that_is_full_meanwhile_gets_room_and_the_save_is_complete(run: Save) -> None:
    run.save(1)
    run.save(2)
    run.store.refuses = True
    saving = run.start(3)
    assert run.store.has_refused.wait(PATIENCE_SECONDS)

    run.go.set()
    saving.result(PATIENCE_SECONDS)
    run.checkpointer.wait()

    assert run.steps() == [3, 2]
    run.check(3)


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


def test_a_notice_during_the_copy_waits_for_what_is_being_staged(run: Save) -> None:
    run.save(1)
    saving = run.start(2)
    assert run.store.has_pack.wait(PATIENCE_SECONDS)
    session = run.checkpointer._session

    with ThreadPoolExecutor(1) as pool:
        final = pool.submit(session.final_save, 2, lambda: PATIENCE_SECONDS, at_boundary=False)
        run.go.set()
        saving.result(PATIENCE_SECONDS)
        final.result(PATIENCE_SECONDS)

    assert run.steps()[0] == 2
    run.check(2)


def priorities(prefix: str) -> list[int]:
    """The nice values of the threads with such a name."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]
    return [
        os.getpriority(os.PRIO_PROCESS, thread.native_id) for thread in threads if thread.native_id
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no priorities of threads")
def test_threads_that_follow_get_low_priority_when_the_copies_have_ended(run: Save) -> None:
    normal = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    saving = run.start(1)
    assert run.store.has_pack.wait(PATIENCE_SECONDS)

    assert priorities("outlast-saver") == [normal]
    assert priorities("outlast-hasher") == [normal]
    run.go.set()
    saving.result(PATIENCE_SECONDS)
    run.checkpointer.wait()

    eventually(lambda: priorities("outlast-saver") == [min(19, normal + 10)], "it has low priority")
    assert priorities("MainThread") == [normal]


KILLED = """
import ctypes, os, signal, sys, time
from types import SimpleNamespace
from pathlib import Path
import numpy as np
import torch
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.saving import copying, packing, saver

saver._FOLLOWED_BYTES_MIN = 0
packing.PACK_BYTES_MAX = 1
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
checkpointer.save(1)
checkpointer.wait()
for array in state.values():
    array += 1
before = set(packs.iterdir())
checkpointer.save(2)
"""


def test_a_kill_while_packs_are_written_and_bytes_are_copied_leaves_the_previous_checkpoint(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], timeout=PATIENCE_SECONDS, check=False
    )

    assert done.returncode == -9
    store = open_store(tmp_path)
    [name] = manifest_names(store)
    manifest = manifest_of(store, name)
    assert manifest.step == 1
    assert len(store.list("packs/")) > len(manifest.packs)
    assert verify_checkpoint(store, manifest, lambda _: None) == []
    expected = np.random.default_rng(0).random(20_000)
    blank = {"first": np.zeros(20_000), "last": np.zeros(20_000)}
    assert resumed(str(tmp_path), blank) == 1
    assert np.array_equal(blank["first"], expected)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_reported_as_copied_is_copied(seed: int) -> None:
    chance = np.random.default_rng(seed)
    ends = [int(end) for end in np.cumsum(chance.integers(1, 50, size=200))]
    starts = [0, *ends[:-1]]
    target = np.zeros(ends[-1], np.uint8)
    waiting: dict[int, threading.Event] = {}

    def copy(start: int, end: int) -> None:
        turn = waiting[start] = threading.Event()
        assert turn.wait(PATIENCE_SECONDS)
        target[start:end] = 1

    def release() -> None:
        """Let one copy of those under way end, and then another, in a random order."""
        for _ in starts:
            eventually(lambda: waiting, "a copy is under way")
            waiting.pop(int(chance.choice(list(waiting)))).set()

    queue = CopyQueue(
        (start, (copy, (start, end))) for start, end in zip(starts, ends, strict=True)
    )
    threads = [threading.Thread(target=work) for work in (release, *[queue.work] * 3)]
    for thread in threads:
        thread.start()
    for end in ends:
        queue.wait_for(end)
        assert target[:end].all()
    for thread in threads:
        thread.join()
    queue.end()

    assert queue.wait_ended() > 0


def test_whoever_follows_is_told_of_an_error() -> None:
    def fail() -> None:
        raise OSError("the array is gone")

    queue = CopyQueue((start, (fail, ())) for start in (0, 10, 20))
    with pytest.raises(OSError, match="gone"):
        queue.work()

    for wait in (lambda: queue.wait_for(30), lambda: queue.wait_for(5), queue.wait_ended):
        with pytest.raises(CopyFailed, match="the array is gone"):
            wait()


def new_bytes(run: Save, step: int) -> int:
    store = open_store(run.url)
    manifests = [manifest_of(store, name) for name in manifest_names(store)]
    return next(manifest.new_bytes for manifest in manifests if manifest.step == step)


def test_a_state_that_has_always_changed_and_now_has_not_is_not_written_again(run: Save) -> None:
    for step in (1, 2, 3):
        run.save(step)
    assert new_bytes(run, 3) >= 320_000

    run.checkpointer.save(4)
    run.checkpointer.wait()

    assert new_bytes(run, 4) < 100_000
    run.check(4)


@pytest.mark.parametrize("seed", range(10))
def test_arrays_that_change_or_do_not_while_they_are_followed_keep_their_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    monkeypatch.setattr(saver, "_FOLLOWED_BYTES_MIN", 0)
    monkeypatch.setattr(packing, "PACK_BYTES_MAX", 500_000)
    state = {f"a{number}": np.zeros(10_000) for number in range(40)}
    with Checkpointer(tmp_path / "run", state, every_steps=NEVER, keep_last=3) as checkpointer:
        checkpointer.resume()
        for step in range(1, 9):
            # Arrays that change, do not, become equal to another, or go back to what they were.
            for array in state.values():
                array[:] = chance.choice([array[0], chance.integers(5), step])
            checkpointer.save(step)
            checkpointer._session.saver.wait()
            checkpointer._session.saver._collector.wait()
            # A resume in the same place would fence this run off.
            copy = shutil.copytree(tmp_path / "run", tmp_path / str(step))
            blank = {name: np.full_like(array, -1) for name, array in state.items()}
            assert resumed(str(copy), blank) == step
            assert all(np.array_equal(blank[name], array) for name, array in state.items())
