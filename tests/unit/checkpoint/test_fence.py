"""Two processes of one run: the older one is told and stops, and nothing gets mixed."""

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointError, Fenced
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs import fence
from outlast.checkpoint.runs.catalog import manifest_names, newest_first, read_manifest
from outlast.checkpoint.saving import committing
from outlast.checkpoint.saving.saver import Saver
from outlast.storage import ROUTINE, AccessPattern, Limits, Store, StoreEntry, open_store
from outlast.storage.memory import MemoryStore
from tests.faults.stores import AroundStore, wrapped
from tests.patience import PATIENCE_SECONDS
from tests.unit.checkpoint.stores import memory_url, resumed

NEVER = 10**9


def opened(url: str, value: int = 0, **options: Any) -> tuple[Checkpointer, dict[str, Any]]:
    state = {"x": np.full(30_000, value), "n": value}
    checkpointer = Checkpointer(url, state, every_steps=NEVER, **options)
    checkpointer.resume()
    return checkpointer, state


def assert_all_verify(store: Store) -> None:
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []


def test_attempts_are_numbered_and_the_newest_wins() -> None:
    store = MemoryStore()

    assert [fence.claim(store, after=0) for _ in range(3)] == [1, 2, 3]
    fence.check(store, 3)
    with pytest.raises(Fenced, match="Attempt 3 of this run has started, so attempt 2 stops") as e:
        fence.check(store, 2)
    assert e.value.newer_attempt == 3


@pytest.mark.parametrize("name", ["attempts/000999999999.json", "attempts/1000000000000.json"])
def test_a_number_that_leaves_room_for_no_other_is_named_as_its_file_is(name: str) -> None:
    url = memory_url()
    open_store(url).create(name, [b"{}"])

    with pytest.raises(CheckpointError, match=name) as caught:
        opened(url)

    assert f"then delete {name}." in str(caught.value.hint)
    open_store(url).delete([name])
    opened(url)


def test_a_stale_writer_is_fenced_at_its_next_save_and_leaves_nothing() -> None:
    url = memory_url()
    stale, state = opened(url)
    stale.save(1)
    stale.wait()
    fresh, _ = opened(url)
    state["x"] += 1
    state["n"] = 99

    stale.save(2)
    with pytest.raises(Fenced, match="attempt 1 stops"):
        stale.wait()

    fresh.save(2)
    fresh.close()
    assert [name for name in manifest_names(open_store(url)) if "-000001" in name] == [
        "manifests/000000000001-000001.json"
    ]
    assert_all_verify(open_store(url))
    final: dict[str, Any] = {"x": np.zeros(30_000, int), "n": -1}
    assert resumed(url, final) == 2
    assert final["n"] == 0


def test_a_stale_writer_is_fenced_at_a_tick_even_without_a_save() -> None:
    url = memory_url()
    stale, _ = opened(url)
    opened(url)

    with pytest.raises(Fenced):
        for step in range(1000):
            stale._session._fence_at = stale._session._due_at = -1e9
            stale.tick(step)
            stale._session.saver._thread.wait()


def test_even_with_on_error_warn_a_stale_writer_stops() -> None:
    url = memory_url()
    stale, _ = opened(url, on_error="warn")
    opened(url)

    with pytest.raises(Fenced):
        stale.save(5)
        stale.wait()


class PausedStore(AroundStore):
    """Lets something happen just before the first manifest is committed."""

    def __init__(self, store: Store, meanwhile: Any) -> None:
        super().__init__(store)
        self._meanwhile = meanwhile

    def before(self, name: str, limits: Limits) -> None:
        if name.startswith("manifests/") and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()


@pytest.mark.parametrize("keep_last", [1, 3])
def test_what_a_paused_writer_commits_late_verifies_but_outranks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_last: int
) -> None:
    url = str(tmp_path / "run")
    first, state = opened(url, 1)
    first.save(10)
    first.close()
    fresh_state: dict[str, Any] = {}

    def newer_attempt() -> None:
        fresh, fresh_state_ = opened(url, 0, keep_last=keep_last)
        fresh_state.update(fresh_state_)
        for step in (11, 12, 13):
            fresh_state_["n"] = 1000 + step
            fresh_state_["x"][:] = step
            fresh.save(step)
        fresh.close()

    with monkeypatch.context() as patch:
        stores = iter([lambda s: PausedStore(s, newer_attempt)])
        wrapped(patch, lambda store: next(stores, lambda s: s)(store))
        stale, state = opened(url)
        state["x"][:] = 77
        stale.save(500)
        # The newer attempt ran and cleaned up while the stale one stood before its commit.
        with pytest.raises(Fenced):
            stale._session.saver.wait()

    store = open_store(url)
    assert any("000000000500-000002" in name for name in manifest_names(store))
    assert_all_verify(store)
    final: dict[str, Any] = {"x": np.zeros(30_000, int), "n": -1}
    assert resumed(url, final) == 13
    assert final["n"] == 1013
    assert (final["x"] == 13).all()


def test_a_later_attempt_outranks_a_higher_step() -> None:
    names = [
        "manifests/000000000900-000006.json",
        "manifests/000000000400-000007.json",
        "manifests/000000000400-000007-001.json",
        "manifests/000000000400-000007-1000.json",
        "manifests/garbage.json",
    ]

    assert newest_first(names) == [names[3], names[2], names[1], names[0]]


def test_garbage_of_killed_attempts_goes_once_it_is_safe(tmp_path: Path) -> None:
    url = str(tmp_path / "run")
    store = open_store(url)
    first, state = opened(url)
    orphan = "packs/000001-" + "0" * 32 + ".pack"
    first.save(1)
    first.close()
    store.create(orphan, [b"left by a kill"])
    for step in (2, 3, 4):
        # Each attempt resumes from the one before; the orphan's own attempt is soon history.
        attempt, state = opened(url)
        state["x"] += 1
        attempt.save(step)
        attempt.close()
        found = orphan in [entry.name for entry in store.list("packs/")]
        assert found == (step == 2)


def test_a_failed_save_leaves_no_packs_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "run")
    stale, _ = opened(url)
    opened(url)
    stale.save(1)
    with pytest.raises(Fenced):
        stale.wait()

    assert open_store(url).list("packs/") == []


def test_steps_only_grow(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    checkpointer, _ = opened(memory_url())
    checkpointer.save(5)
    checkpointer.wait()

    with pytest.raises(ValueError, match="Cannot save step 4: step 5 is already saved"):
        checkpointer.save(4)


def test_saving_before_resuming_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"Call resume\(\) first"):
        Checkpointer(memory_url(), {}).save(1)


def test_resuming_twice_is_refused() -> None:
    checkpointer, _ = opened(memory_url())

    with pytest.raises(RuntimeError, match="already resumed"):
        checkpointer.resume()
    assert isinstance(checkpointer._session.saver, Saver)


class DistantStore(AroundStore):
    """Writes two packs at once. `log` has the order of what is asked of it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.log: list[str] = []
        self._is_checked = threading.Event()

    @property
    def access(self) -> AccessPattern:
        return AccessPattern(read_bytes=1, reads_at_once=2, creates_at_once=2)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        if prefix == "attempts/":
            self.log.append("check")
            self._is_checked.set()
        return super().list(prefix, limits=limits)

    def before(self, name: str, limits: Limits) -> None:
        if name.startswith("packs/"):
            # Never written if the check came only afterwards.
            assert self._is_checked.wait(PATIENCE_SECONDS)

    def after(self, name: str) -> None:
        self.log.append(name.partition("/")[0])

    def forget(self) -> None:
        self.log.clear()
        self._is_checked.clear()


def distant(monkeypatch: pytest.MonkeyPatch) -> list[DistantStore]:
    stores: list[DistantStore] = []

    def wrap(store: Store) -> Store:
        stores.append(DistantStore(store))
        return stores[-1]

    wrapped(monkeypatch, wrap)
    return stores


def test_a_distant_store_is_asked_for_newer_attempts_while_it_is_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = distant(monkeypatch)
    # However slow this machine is.
    monkeypatch.setattr(committing, "_CHECK_VALID_SECONDS", 1e9)
    checkpointer, _ = opened(memory_url())
    stores[0].forget()

    checkpointer.save(1)
    checkpointer.wait()

    log = [entry for entry in stores[0].log if entry != "journal"]
    assert log[:3] == ["check", "packs", "manifests"]


def test_a_check_that_is_long_ago_is_repeated_before_the_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores = distant(monkeypatch)
    monkeypatch.setattr(committing, "_CHECK_VALID_SECONDS", -1.0)
    checkpointer, _ = opened(memory_url())
    stores[0].forget()

    checkpointer.save(1)
    checkpointer.wait()

    log = [entry for entry in stores[0].log if entry != "journal"]
    assert log[:4] == ["check", "packs", "check", "manifests"]


def test_a_stale_writer_of_a_distant_store_is_fenced_before_its_packs_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distant(monkeypatch)
    url = memory_url()
    stale, _ = opened(url)
    opened(url)

    stale.save(1)
    with pytest.raises(Fenced, match="attempt 1 stops"):
        stale.wait()

    assert manifest_names(open_store(url)) == []
    assert open_store(url).list("packs/") == []
