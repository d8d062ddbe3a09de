"""Which checkpoint goes when the store is full: never the last one that reads back."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import ROUTINE, Limits, Store, StoreFull, open_store
from tests.faults.stores import AroundStore, wrapped
from tests.unit.checkpoint.stores import NEVER


class Small(AroundStore):
    """Takes packs only up to so many bytes in all."""

    bytes_max = 10**9

    def create(self, name: str, parts: Any, *, limits: Limits = ROUTINE) -> None:
        used = sum(entry.size_bytes for entry in self.inner.list("packs/"))
        if name.startswith("packs/") and used + sum(len(part) for part in parts) > self.bytes_max:
            raise StoreFull("No space left on device.", hint="Free some space.")
        super().create(name, parts, limits=limits)


def opened(
    monkeypatch: pytest.MonkeyPatch, url: Path, **options: Any
) -> tuple[Small, Checkpointer, dict[str, Any]]:
    stores: list[Small] = []

    def wrap(store: Store) -> Store:
        stores.append(Small(store))
        return stores[-1]

    with monkeypatch.context() as patch:
        wrapped(patch, wrap)
        state: dict[str, Any] = {"frozen": np.arange(50_000.0), "x": np.zeros(200_000)}
        checkpointer = Checkpointer(url, state, every_steps=NEVER, **options)
    checkpointer.resume()
    return stores[0], checkpointer, state


def save(checkpointer: Checkpointer, state: dict[str, Any], *steps: int) -> None:
    for step in steps:
        state["x"] += 1
        checkpointer.save(step)
        checkpointer._session.saver.wait()
        checkpointer._session.saver._collector.wait()


def steps_in(url: Path) -> list[int]:
    store = open_store(url)
    return [read_manifest(store, name).step for name in manifest_names(store)]


def fill(store: Small) -> None:
    """From now on, there is room for nothing more."""
    store.bytes_max = sum(entry.size_bytes for entry in store.inner.list("packs/"))


def damage(url: Path, step: int) -> None:
    """Spoil what only this checkpoint has."""
    store = open_store(url)
    manifests = [read_manifest(store, name) for name in manifest_names(store)]
    [wanted] = [manifest for manifest in manifests if manifest.step == step]
    others = set().union(*(manifest.packs for manifest in manifests if manifest.step != step))
    for pack in wanted.packs - others:
        (url / pack).write_bytes(b"")


def test_the_oldest_goes_and_the_shared_bytes_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store, checkpointer, state = opened(monkeypatch, tmp_path)
    save(checkpointer, state, 1, 2, 3)
    fill(store)

    save(checkpointer, state, 4)

    checkpointer.close()
    assert steps_in(tmp_path) == [4, 3, 2]
    for name in manifest_names(store):
        assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []
    assert (
        "No space for the checkpoint of step 4, so the oldest checkpoint was deleted: "
        "manifests/000000000001-000001.json. Saving step 4 again." in caplog.text
    )


def test_milestones_are_not_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store, checkpointer, state = opened(monkeypatch, tmp_path, keep_every=2)
    save(checkpointer, state, 2, 3, 4)
    fill(store)

    save(checkpointer, state, 5)
    assert steps_in(tmp_path) == [5, 4, 2]
    fill(store)
    with pytest.raises(StoreFull):
        # The newest and two milestones are left.
        save(checkpointer, state, 6)

    assert steps_in(tmp_path) == [5, 4, 2]


def test_the_newest_that_reads_back_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, checkpointer, state = opened(monkeypatch, tmp_path)
    save(checkpointer, state, 1, 2, 3)
    damage(tmp_path, 2)
    damage(tmp_path, 3)
    fill(store)

    with pytest.raises(StoreFull):
        save(checkpointer, state, 4)

    assert 1 in steps_in(tmp_path)


def test_the_checkpoint_resumed_from_goes_only_once_there_is_a_newer_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, checkpointer, state = opened(monkeypatch, tmp_path, keep_last=1)
    save(checkpointer, state, 1)
    checkpointer.close()
    store, checkpointer, state = opened(monkeypatch, tmp_path, keep_last=1)
    packs = store.inner.list("packs/")
    store.bytes_max = sum(entry.size_bytes for entry in packs)
    with pytest.raises(StoreFull):
        save(checkpointer, state, 2)
    assert steps_in(tmp_path) == [1]

    store.bytes_max = 10**9
    save(checkpointer, state, 3)
    fill(store)
    save(checkpointer, state, 4)

    assert steps_in(tmp_path) == [4]
    checkpointer.close()
    store_ = open_store(tmp_path)
    [name] = manifest_names(store_)
    assert verify_checkpoint(store_, read_manifest(store_, name), lambda _: None) == []


def test_a_store_that_stays_full_says_so_and_loses_one_checkpoint_at_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, checkpointer, state = opened(monkeypatch, tmp_path)
    save(checkpointer, state, 1, 2, 3)
    store.bytes_max = 0

    with pytest.raises(StoreFull, match="No space left"):
        save(checkpointer, state, 4)

    assert steps_in(tmp_path) == [3, 2]
