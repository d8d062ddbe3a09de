"""A run whose checkpoints are gone is not started over without a word."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import CheckpointsMissing
from outlast.checkpoint.runs.catalog import COMMITTED, manifest_names
from outlast.cli.app import run
from outlast.journal import AttemptFailed, read_journal
from outlast.storage import StorageError, Store, StoreEntry, StoreUnavailable, open_store
from tests.faults.stores import AroundStore, FailingStore, wrapped
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved


def blank() -> dict[str, Any]:
    return {"x": np.zeros(30_000), "n": 0}


def lose(url: str | Path, *prefixes: str) -> None:
    store = open_store(url)
    for prefix in prefixes:
        store.delete([entry.name for entry in store.list(prefix)])


@pytest.mark.parametrize("saves", [1, 3])
@pytest.mark.parametrize("lost", [["manifests/"], ["manifests/", "packs/"]], ids=str)
def test_a_run_whose_checkpoints_are_gone_is_refused(saves: int, lost: list[str]) -> None:
    url = memory_url()
    for step in range(1, saves + 1):
        saved(url, blank(), step=step)
    lose(url, *lost)

    for _ in range(2):
        with pytest.raises(CheckpointsMissing, match="has saved checkpoints before") as caught:
            resumed(url, blank())

    assert url in str(caught.value)
    assert "another URL" in str(caught.value.hint)
    assert "delete" in str(caught.value.hint)
    # A sign of life may have been written after it.
    events = read_journal(open_store(url))[-1].events
    [failure] = [event for event in events if isinstance(event, AttemptFailed)]
    assert "CheckpointsMissing" in failure.error


def test_what_is_left_is_named(tmp_path: Path) -> None:
    saved(str(tmp_path), blank(), step=1)
    shutil.rmtree(tmp_path / "manifests")

    with pytest.raises(
        CheckpointsMissing, match="Still present: 2 files in attempts/ and 1 in packs/"
    ):
        resumed(str(tmp_path), blank())


def test_without_the_marker_the_journal_is_proof_enough() -> None:
    url = memory_url()
    for step in (1, 2):
        saved(url, blank(), step=step)
    lose(url, "manifests/", COMMITTED)

    with pytest.raises(CheckpointsMissing):
        resumed(url, blank())


def test_without_a_journal_the_marker_is_proof_enough() -> None:
    url = memory_url()
    saved(url, blank(), step=1)
    lose(url, "manifests/", "journal/", "attempts/")

    with pytest.raises(CheckpointsMissing):
        resumed(url, blank())


def test_a_run_killed_before_its_first_commit_starts_from_zero_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = memory_url()
    with monkeypatch.context() as patch:
        stores: list[FailingStore] = []

        def wrap(store: Store) -> Store:
            stores.append(FailingStore(store, "manifests/"))
            return stores[-1]

        wrapped(patch, wrap)
        checkpointer = Checkpointer(url, blank(), every_steps=NEVER)
        checkpointer.resume()
        # As after a kill, what was written for the manifest stays.
        checkpointer._session.saver._packs.discard = lambda: None  # type: ignore[method-assign]
        stores[0].error = StoreUnavailable("It was cut off.")
        checkpointer.save(1)
        with pytest.raises(StorageError):
            checkpointer.wait()
        checkpointer.close()
    assert open_store(url).list("packs/")

    for _ in range(3):
        caplog.clear()
        assert resumed(url, blank()) == 0
        assert "contains packs from earlier attempts (1)" in caplog.text


def test_a_run_that_lost_all_but_its_packs_and_attempts_starts_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = memory_url()
    saved(url, blank(), step=1)
    lose(url, "manifests/", "journal/", COMMITTED)
    caplog.clear()

    assert resumed(url, blank()) == 0

    [record] = [r for r in caplog.records if "Starting from step 0" in r.getMessage()]
    assert record.levelname == "WARNING"
    assert url in record.getMessage()
    assert "restore manifests/" in record.getMessage()


def test_a_new_run_starts_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    url = memory_url()

    assert resumed(url, blank()) == 0
    assert resumed(url, blank()) == 0

    assert not caplog.records


def test_an_older_run_that_has_never_saved_starts_from_zero() -> None:
    url = memory_url()
    store = open_store(url)
    store.create("attempts/000001.json", [b'{"id": "1"}'])
    store.create("journal/000001-000001.jsonl", [b'{"kind":"progress","step":5}\n'])

    assert resumed(url, blank()) == 0


def test_a_listing_during_which_a_manifest_is_replaced_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class MissesOnce(AroundStore):
        """Lists manifests as if each had been replaced behind the reader's back."""

        left = 1

        def list(self, prefix: str = "", **options: Any) -> list[StoreEntry]:
            found = super().list(prefix, **options)
            if prefix == "manifests/" and self.left:
                self.left -= 1
                return []
            return found

    url = memory_url()
    saved(url, blank(), step=4)
    with monkeypatch.context() as patch:
        wrapped(patch, MissesOnce)
        assert resumed(url, blank()) == 4


def test_a_marker_that_cannot_be_written_is_written_with_the_next_save(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stores: list[FailingStore] = []

    def wrap(store: Store) -> Store:
        stores.append(FailingStore(store, COMMITTED))
        return stores[-1]

    url, state = memory_url(), blank()
    with monkeypatch.context() as patch:
        wrapped(patch, wrap)
        with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
            checkpointer.resume()
            stores[0].error = StoreUnavailable("the server answered 503")
            checkpointer.save(1)
            checkpointer._session.saver.wait()
            assert not open_store(url).list(COMMITTED)
            stores[0].error = None
            checkpointer.save(2)

    assert [entry.name for entry in open_store(url).list(COMMITTED)] == [COMMITTED]


def test_pruning_never_leaves_a_run_without_checkpoints(tmp_path: Path) -> None:
    url = str(tmp_path / "run")
    for step in (1, 2, 3, 4):
        saved(url, blank(), step=step)

    assert run(["checkpoints", url, "--prune", "--keep-last", "1", "--force"]) == 0

    assert len(manifest_names(open_store(url))) >= 1
    assert resumed(url, blank()) == 4
