"""A store that fails: told at the next boundary, earlier checkpoints intact; and the final save."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.journal import (
    Ending,
    FinalChoice,
    FinalDecision,
    Saved,
    SaveFailed,
    read_journal,
    summarize,
)
from outlast.storage import (
    ROUTINE,
    AccessDenied,
    Limits,
    StorageError,
    StorageTimeout,
    Store,
    StoreFull,
    StoreUnavailable,
    open_store,
)
from tests.faults.stores import AroundStore, FailingStore, SlowStore, wrapped
from tests.patience import PATIENCE_SECONDS, eventually
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved

ERRORS = [
    StoreFull("No space left on device.", hint="Free some space."),
    StoreUnavailable("Input/output error."),
    AccessDenied("The credentials have expired."),
    StorageTimeout("It took longer than allowed."),
]


def failing(
    monkeypatch: pytest.MonkeyPatch, prefix: str, **options: Any
) -> tuple[FailingStore, Checkpointer, dict[str, Any]]:
    found: list[FailingStore] = []

    def wrap(store: Store) -> Store:
        found.append(FailingStore(store, prefix))
        return found[-1]

    with monkeypatch.context() as patch:
        wrapped(patch, wrap)
        state = {"x": np.zeros(20_000), "n": 0}
        checkpointer = Checkpointer(memory_url(), state, every_steps=1, **options)
    checkpointer.resume()
    return found[0], checkpointer, state


def settle(checkpointer: Checkpointer) -> None:
    """Wait until nothing is in progress, without asking how it went."""
    checkpointer._session.saver._thread.wait()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("prefix", ["packs/", "manifests/"])
def test_a_failed_write_is_raised_at_the_next_tick(
    monkeypatch: pytest.MonkeyPatch, error: StorageError, prefix: str
) -> None:
    store, checkpointer, state = failing(monkeypatch, prefix)
    checkpointer.tick(1)
    settle(checkpointer)
    store.error = error
    state["x"] += 1
    checkpointer.tick(2)
    settle(checkpointer)

    with pytest.raises(type(error), match=str(error)):
        checkpointer.tick(2)

    store.error = None
    assert [read_manifest(store, n).step for n in manifest_names(store)] == [1]
    assert verify_checkpoint(store, read_manifest(store, manifest_names(store)[0])) == []
    checkpointer.close()
    [record] = read_journal(store)
    [failure] = [event for event in record.events if isinstance(event, SaveFailed)]
    assert (failure.step, failure.error) == (2, str(error))


@pytest.mark.parametrize("prefix", ["packs/", "manifests/"])
def test_with_on_error_warn_the_training_goes_on_and_later_saves_succeed(
    monkeypatch: pytest.MonkeyPatch, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, checkpointer, state = failing(monkeypatch, prefix, on_error="warn")
    for step in range(1, 9):
        store.error = ERRORS[0] if 3 <= step <= 5 else None
        state["x"] += 1
        state["n"] = step
        checkpointer.tick(step)
        settle(checkpointer)
    checkpointer.close()

    assert "Saving step 3 failed; earlier checkpoints are intact. No space left" in caplog.text
    assert [read_manifest(store, n).step for n in manifest_names(store)] == [8, 7, 6]
    other: dict[str, Any] = {"x": np.zeros(20_000), "n": 0}
    assert resumed(store.url, other) == 8
    assert other["n"] == 8
    assert (other["x"] == 8).all()


def test_a_retry_of_the_same_step_after_an_ambiguous_answer_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ambiguous(AroundStore):
        """Keeps the first manifest, but times out."""

        told = False

        def after(self, name: str) -> None:
            if name.startswith("manifests/") and not self.told:
                self.told = True
                raise StorageTimeout("It took too long.")

    url, state = memory_url(), {"x": np.zeros(3)}
    with monkeypatch.context() as patch:
        wrapped(patch, Ambiguous)
        checkpointer = Checkpointer(url, state, on_error="warn")
    checkpointer.resume()

    for _ in range(2):
        checkpointer.save(4)
        settle(checkpointer)
    checkpointer.close()

    assert resumed(url, {"x": np.ones(3)}) == 4
    for name in manifest_names(open_store(url)):
        assert (
            verify_checkpoint(open_store(url), read_manifest(open_store(url), name), lambda _: None)
            == []
        )


def test_a_failure_while_cleaning_up_does_not_fail_the_save(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class CannotDelete(AroundStore):
        def delete(self, names: Any, *, limits: Limits | None = None) -> None:
            if list(names):
                raise AccessDenied("No permission to delete.")

    url, state = memory_url(), {"x": np.zeros(3)}
    with monkeypatch.context() as patch:
        wrapped(patch, CannotDelete)
        checkpointer = Checkpointer(url, state, keep_last=1)
    checkpointer.resume()
    for step in (1, 2, 3):
        state["x"] += 1
        checkpointer.save(step)
    checkpointer.close()

    assert len(manifest_names(open_store(url))) == 3
    assert "Old checkpoints could not be deleted: No permission to delete" in caplog.text


def test_a_vanished_target_is_told_and_not_made_anew(tmp_path: Path) -> None:
    url, state = tmp_path / "mount" / "run", {"x": np.zeros(3)}
    checkpointer = Checkpointer(url, state, every_steps=1)
    checkpointer.resume()
    checkpointer.tick(1)
    settle(checkpointer)
    shutil.rmtree(tmp_path / "mount")
    checkpointer.tick(2)
    settle(checkpointer)

    with pytest.raises(StoreUnavailable, match="vanished"):
        checkpointer.tick(3)

    assert not url.exists()


class Clock:
    """What is left of a grace period."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())


def decision(url: str) -> FinalDecision:
    [found] = [e for e in read_journal(open_store(url))[-1].events if isinstance(e, FinalDecision)]
    return found


def test_the_final_save_is_full_when_it_fits() -> None:
    url, state = memory_url(), {"x": np.zeros(3)}
    checkpointer = Checkpointer(url, state)
    checkpointer.resume()

    assert checkpointer.final_save(7, Clock(3600).remaining) is FinalChoice.FULL

    checkpointer.close(PATIENCE_SECONDS)
    assert resumed(url, {"x": np.ones(3)}) == 7
    saves = [e for e in read_journal(open_store(url))[0].events if isinstance(e, Saved)]
    assert [save.final for save in saves] == [True]


def test_without_a_measured_save_a_cautious_bandwidth_is_assumed() -> None:
    url, state = memory_url(), {"x": np.zeros(25_000_000, np.uint8)}
    checkpointer = Checkpointer(url, state)
    checkpointer.resume()

    assert checkpointer.final_save(7, Clock(0.3).remaining) is FinalChoice.KEEP

    checkpointer.close(PATIENCE_SECONDS)
    numbers = decision(url).numbers
    assert 0.4 < numbers["seconds_needed"] < 1.0
    assert numbers["seconds_left"] < 0.3
    assert numbers["bytes_total"] >= 25_000_000
    assert numbers["saves_measured"] == 0
    assert manifest_names(open_store(url)) == []


def test_what_earlier_attempts_measured_counts() -> None:
    url, state = memory_url(), {"x": np.zeros(25_000_000, np.uint8)}
    with Checkpointer(url, state) as first:
        first.resume()
        first.save(1)
    checkpointer = Checkpointer(url, state)
    checkpointer.resume()
    state["x"] += 1

    assert checkpointer.final_save(7, Clock(3600).remaining) is FinalChoice.FULL

    checkpointer.close(PATIENCE_SECONDS)
    assert decision(url).numbers["saves_measured"] == 1


def test_nothing_is_written_twice_when_the_step_is_durable_already() -> None:
    url, state = memory_url(), {"x": np.zeros(3)}
    checkpointer = Checkpointer(url, state)
    checkpointer.resume()
    checkpointer.save(7)
    checkpointer.wait()

    assert checkpointer.final_save(7, Clock(3600).remaining) is FinalChoice.KEEP
    assert len(manifest_names(open_store(url))) == 1


def slow(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> tuple[str, Checkpointer, dict[str, Any]]:
    url, state = memory_url(), {"x": np.zeros(3), "n": 0}
    with monkeypatch.context() as patch:
        wrapped(patch, lambda store: SlowStore(store, seconds))
        checkpointer = Checkpointer(url, state)
    checkpointer.resume()
    return url, checkpointer, state


def test_a_save_under_way_is_finished_when_a_second_one_would_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, checkpointer, state = slow(monkeypatch, 0.5)
    checkpointer.save(3)
    state["n"] = 1

    def remaining() -> float:
        return 0.2 if manifest_names(open_store(url)) else 3600.0

    assert checkpointer.final_save(4, remaining) is FinalChoice.STAGED

    checkpointer.close(PATIENCE_SECONDS)
    assert decision(url).numbers["seconds_needed"] > decision(url).numbers["seconds_left"]
    assert resumed(url, {"x": np.zeros(3), "n": 0}) == 3


def test_a_save_under_way_is_followed_by_a_full_one_when_both_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, checkpointer, state = slow(monkeypatch, 0.3)
    checkpointer.save(3)
    state["n"] = 1

    assert checkpointer.final_save(4, Clock(3600).remaining) is FinalChoice.FULL

    checkpointer.close(PATIENCE_SECONDS)
    assert resumed(url, {"x": np.zeros(3), "n": 0}) == 4


def test_a_save_that_hangs_is_left_behind_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    url, checkpointer, _ = slow(monkeypatch, 3600.0)
    checkpointer.save(3)

    assert checkpointer.final_save(4, Clock(0.6).remaining) is FinalChoice.KEEP

    checkpointer.close(0.2)
    assert manifest_names(open_store(url)) == []
    eventually(
        lambda: any(isinstance(e, SaveFailed) for e in read_journal(open_store(url))[0].events),
        "the journal has it",
    )


def test_within_a_step_only_what_is_staged_is_saved() -> None:
    url, state = memory_url(), {"x": np.zeros(3)}
    checkpointer = Checkpointer(url, state)
    checkpointer.resume()

    choice = checkpointer._session.final_save(7, Clock(3600).remaining, at_boundary=False)

    assert choice is FinalChoice.KEEP
    assert manifest_names(open_store(url)) == []


def test_a_final_save_that_fails_is_noted_and_not_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, checkpointer, _ = failing(monkeypatch, "packs/")
    store.error = ERRORS[1]

    assert checkpointer.final_save(7, Clock(3600).remaining) is FinalChoice.FULL

    assert "Saving step 7 failed; earlier checkpoints are intact. Input/output error" in caplog.text


def test_no_thread_outlives_a_checkpointer() -> None:
    before = set(threading.enumerate())
    with Checkpointer(memory_url(), {"x": np.zeros(3)}) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)

    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


class LosingStore(AroundStore):
    """Loses its connection after so many reads."""

    def __init__(self, store: Store, reads: int) -> None:
        super().__init__(store)
        self._reads_left = reads

    def read_into(self, name: str, *buffers: Any, start: int = 0, limits: Limits = ROUTINE) -> None:
        self._reads_left -= 1
        if self._reads_left < 0:
            raise StoreUnavailable("The connection was reset.", hint="Try again.")
        super().read_into(name, *buffers, start=start, limits=limits)


@pytest.mark.parametrize("reads", [0, 1, 3])
def test_a_restore_that_fails_halfway_ends_the_run_and_the_next_one_is_whole(
    monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    url = memory_url()
    state = {f"a{number}": np.full(700_000, number + 1.0) for number in range(4)}
    saved(url, state, step=3)
    blank = {name: np.zeros_like(array) for name, array in state.items()}

    with monkeypatch.context() as patch:
        wrapped(patch, lambda store: LosingStore(store, reads))
        halfway = Checkpointer(url, blank, every_steps=NEVER)
    with pytest.raises(StoreUnavailable, match="connection was reset"):
        halfway.resume()
    with pytest.raises(RuntimeError, match="resume"):
        halfway.save(4)

    assert resumed(url, blank) == 3
    assert all(np.array_equal(blank[name], array) for name, array in state.items())
    attempts = summarize(read_journal(open_store(url))).attempts
    assert attempts[1].ending is Ending.FAILED
