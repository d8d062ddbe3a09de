"""Memory for a save is made ready in the background, and no save waits for that."""

import threading
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.saving import staging
from outlast.journal import FinalChoice
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed

WARM = "outlast-warm-up"
PIECE = 64 * 1024


class Pieces:
    """Notes who makes which piece of memory ready, and holds the background back at its first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.by: list[str] = []
        self._populate = staging._populate
        monkeypatch.setattr(staging, "_PIECE_BYTES", PIECE)
        monkeypatch.setattr(staging, "_populate", self._note)

    def _note(self, *where: Any) -> None:
        name = threading.current_thread().name
        self.by.append(name)
        if name == WARM:
            self.begun.set()
            assert self.go_on.wait(60)
        self._populate(*where)


def opened(url: str, size: int = 1_000_000, **options: Any) -> tuple[Checkpointer, dict[str, Any]]:
    state = {"x": np.ones(size), "y": np.zeros(3)}
    checkpointer = Checkpointer(url, state, **{"every_steps": NEVER, **options})
    checkpointer.resume()
    return checkpointer, state


def release_once_stopped(pieces: Pieces, checkpointer: Checkpointer) -> threading.Thread:
    """Lets the background go on only once it was told to stop."""

    def release() -> None:
        assert checkpointer._session.saver._staging._warm_enough.wait(60)
        pieces.go_on.set()

    thread = threading.Thread(target=release)
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["save", "tick", "final save"])
def test_a_save_takes_over_instead_of_waiting(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    pieces, url = Pieces(monkeypatch), memory_url()
    checkpointer, state = opened(url, every_steps=1)
    assert pieces.begun.wait(60)
    helper = release_once_stopped(pieces, checkpointer)

    if how == "save":
        checkpointer.save(1)
    elif how == "tick":
        checkpointer.tick(1)
    else:
        assert checkpointer.final_save(1, lambda: 60.0) is FinalChoice.FULL
    checkpointer.wait()

    helper.join()
    assert pieces.by.count(WARM) == 1
    checkpointer.close()
    other = {"x": np.zeros(1_000_000), "y": np.ones(3)}
    assert resumed(url, other) == 1
    assert np.array_equal(other["x"], state["x"])


def test_a_save_by_time_comes_when_memory_is_ready_but_not_much_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces, url = Pieces(monkeypatch), memory_url()
    checkpointer, _ = opened(url, every_steps=None, every_seconds=0.000_001)
    checkpointer._session._is_warm = True
    assert pieces.begun.wait(60)

    checkpointer.tick(1)
    assert checkpointer._session.saver.pending_step is None
    assert checkpointer._session.saver.committed_step == 0
    helper = release_once_stopped(pieces, checkpointer)
    monkeypatch.setattr("outlast.checkpoint.session._WARM_SECONDS_MAX", 0.0)
    checkpointer.tick(2)

    helper.join()
    checkpointer.close()
    assert resumed(url, {"x": np.zeros(1_000_000), "y": np.ones(3)}) == 2


def test_a_state_that_grew_is_made_ready_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = Pieces(monkeypatch)
    checkpointer, state = opened(memory_url())
    assert pieces.begun.wait(60)
    helper = release_once_stopped(pieces, checkpointer)

    # The optimizer makes its moments in the first step.
    state["moments"] = np.zeros(2_000_000)
    checkpointer.tick(1)

    helper.join()
    warming = checkpointer._session.saver._staging._warming
    assert warming is not None
    warming.join()
    assert pieces.by.count(WARM) > 24_000_000 // PIECE
    checkpointer.close()


def test_closing_does_not_wait_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = Pieces(monkeypatch)
    checkpointer, _ = opened(memory_url())
    assert pieces.begun.wait(60)
    helper = release_once_stopped(pieces, checkpointer)

    checkpointer.close()

    helper.join()
    assert pieces.by.count(WARM) == 1
