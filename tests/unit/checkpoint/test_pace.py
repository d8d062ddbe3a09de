"""When a save is due follows from what was measured."""

import math
from typing import Any

import numpy as np
import pytest

from outlast._base.interval import IntervalPolicy, Observed, SaveCost
from outlast.checkpoint.catalogue import manifest_names
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format import order_of
from outlast.checkpoint.pace import Pace
from outlast.storage import open_store
from tests.faults.stores import SlowStore, wrapped
from tests.unit.checkpoint.stores import memory_url

HOUR = 3600.0


def committed(pace: Pace, *, durable_seconds: float = 10.0, step: int = 0) -> None:
    pace.commit(
        stall_seconds=1.0, durable_seconds=durable_seconds, size_bytes=1000, step=step, now=0.0
    )


def test_what_steps_lose_while_a_save_is_written_makes_saves_rarer() -> None:
    slow, calm = (Pace(IntervalPolicy(), final_seconds=math.inf) for _ in range(2))
    for pace, steps_meanwhile in ((slow, 4), (calm, 9)):
        pace.begin(0, now=0.0)
        pace.start(100, now=100.0)
        pace.go_on(now=101.0)

        committed(pace, step=100 + steps_meanwhile)

    assert slow.interval().seconds > 2 * calm.interval().seconds  # type: ignore[operator]  # both are by time


def test_too_few_steps_say_nothing_about_how_slow_they_were() -> None:
    pace = Pace(IntervalPolicy(), final_seconds=math.inf)
    pace.begin(0, now=0.0)
    pace.start(2, now=100.0)
    pace.go_on(now=101.0)

    committed(pace, step=2)

    assert "costs the loop 1 s" in pace.interval().why


def test_when_no_final_save_fits_into_the_grace_saves_come_closer() -> None:
    roomy, tight = (Pace(IntervalPolicy(), final_seconds=seconds) for seconds in (60.0, 5.0))
    for pace in (roomy, tight):
        pace.look_back(
            Observed(running_seconds=10 * HOUR, announced=5),
            [SaveCost(stall_seconds=1.0, durable_seconds=20.0)],
            1000,
        )

    assert tight.interval().seconds < roomy.interval().seconds / 2  # type: ignore[operator]  # by time


def test_fixed_steps_are_saved_exactly_even_while_one_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = memory_url()
    wrapped(monkeypatch, lambda store: SlowStore(store, 0.05))
    state: dict[str, Any] = {"x": np.zeros(3)}
    with Checkpointer(url, state, every_steps=2, keep_last=100) as checkpointer:
        checkpointer.resume()
        for step in range(1, 9):
            state["x"] += 1
            checkpointer.tick(step)

    assert [order_of(name) for name in manifest_names(open_store(url))] == [
        (1, step, 0) for step in (8, 6, 4, 2)
    ]


def test_saves_by_time_never_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    url = memory_url()
    wrapped(monkeypatch, lambda store: SlowStore(store, 0.3))
    state: dict[str, Any] = {"x": np.zeros(3)}
    with Checkpointer(url, state, every_seconds=0.001, keep_last=100) as checkpointer:
        checkpointer.resume()
        for step in range(1, 200):
            state["x"] += 1
            checkpointer.tick(step)

    assert len(manifest_names(open_store(url))) < 5
