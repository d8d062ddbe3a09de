"""When a save is due follows from what was measured."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.format.manifest import order_of
from outlast.checkpoint.runs.catalog import manifest_names
from outlast.checkpoint.saving.schedule import SaveSchedule
from outlast.journal import FinalChoice, Saved, read_journal
from outlast.run.run import Run
from outlast.storage import open_store
from tests.faults.stores import SlowStore, wrapped
from tests.unit.checkpoint.stores import memory_url

HOUR = 3600.0
PAGE = Path(__file__).parents[3] / "docs/explanation/interval.md"


def committed(schedule: SaveSchedule, *, durable_seconds: float = 10.0, step: int = 0) -> None:
    schedule.commit(
        stall_seconds=1.0, durable_seconds=durable_seconds, size_bytes=1000, step=step, now=0.0
    )


def test_what_steps_lose_while_a_save_is_written_makes_saves_rarer() -> None:
    slow, calm = (SaveSchedule(IntervalPolicy(), final_seconds=math.inf) for _ in range(2))
    for schedule, steps_meanwhile in ((slow, 4), (calm, 9)):
        schedule.begin(0, now=0.0)
        schedule.start(100, now=100.0)
        schedule.staged(now=101.0)

        committed(schedule, step=100 + steps_meanwhile)

    assert slow.interval().seconds > 2 * calm.interval().seconds  # type: ignore[operator]  # both are by time


def test_the_journal_says_what_steps_lost_while_a_save_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cost = SaveCost(stall_seconds=0.1, durable_seconds=5.0, slow_seconds=2.5)
    monkeypatch.setattr(SaveSchedule, "commit", lambda self, **_: cost)

    with Run("memory://slow-saves", {"x": np.zeros(3)}, every_steps=1) as run:
        for _ in run.steps(3):
            pass

    [attempt] = read_journal(open_store("memory://slow-saves"))
    saves = [event for event in attempt.events if isinstance(event, Saved)]
    assert saves
    assert {save.slow_seconds for save in saves} == {2.5}


def test_too_few_steps_say_nothing_about_how_slow_they_were() -> None:
    schedule = SaveSchedule(IntervalPolicy(), final_seconds=math.inf)
    schedule.begin(0, now=0.0)
    schedule.start(2, now=100.0)
    schedule.staged(now=101.0)

    committed(schedule, step=2)

    assert "costs the loop 1 s" in schedule.interval().why


def test_when_no_final_save_fits_into_the_grace_saves_come_closer() -> None:
    roomy, tight = (
        SaveSchedule(IntervalPolicy(), final_seconds=seconds) for seconds in (60.0, 5.0)
    )
    for schedule in (roomy, tight):
        schedule.use_history(
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


def test_a_final_save_is_chosen_by_what_was_measured_on_this_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, slow_seconds = memory_url(), 0.5
    state: dict[str, Any] = {"x": np.zeros(3)}
    wrapped(monkeypatch, lambda store: SlowStore(store, slow_seconds))
    with Checkpointer(url, state, every_steps=10**9) as checkpointer:
        checkpointer.resume()
        # Nothing has been measured yet, and 24 bytes should take no time.
        assert checkpointer.final_save(1, lambda: 60.0) is FinalChoice.FULL
        state["x"] += 1
        assert checkpointer.final_save(2, lambda: slow_seconds) is FinalChoice.KEEP
    wrapped(monkeypatch, lambda store: store)

    # The next attempt knows it from the journal, before it has saved itself.
    with Checkpointer(url, state, every_steps=10**9) as checkpointer:
        assert checkpointer.resume() == 1
        state["x"] += 1
        assert checkpointer.final_save(2, lambda: slow_seconds) is FinalChoice.KEEP
        assert checkpointer.final_save(2, lambda: 60.0) is FinalChoice.FULL


@pytest.mark.parametrize(
    ("observed", "age_hours", "seconds"),
    [
        (Observed(), 0, 209),
        (Observed(running_seconds=24 * 3600), 24, 858),
        (Observed(running_seconds=24 * 3600, announced=4, unannounced=4), 0, 209),
        (Observed(running_seconds=24 * 3600, announced=4, unannounced=4), 6, 361),
    ],
    ids=["nothing", "quiet", "new", "old"],
)
def test_the_intervals_on_the_page_about_them_are_right(
    observed: Observed, age_hours: float, seconds: int
) -> None:
    cost = SaveCost(stall_seconds=0.5, slow_seconds=1.5, durable_seconds=40)

    interval = choose_interval(
        IntervalPolicy(), cost=cost, observed=observed, age_seconds=age_hours * 3600
    )

    assert interval.seconds is not None
    assert round(interval.seconds) == seconds
    assert f"| {seconds} s |" in PAGE.read_text()


def test_fixed_steps_are_multiples_from_zero() -> None:
    interval = choose_interval(IntervalPolicy(every_steps=500), cost=None, observed=Observed())

    assert not interval.is_due(steps_done=1499, steps_saved=1234, seconds_since_save=60)
    assert interval.is_due(steps_done=1500, steps_saved=1234, seconds_since_save=60)
