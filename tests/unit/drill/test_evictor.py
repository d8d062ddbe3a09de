"""An eviction that is to strike in a save strikes while one is being written. Time is given."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from outlast.drills.run.evictor import Evictor, JobTiming, LiveAttempt
from outlast.drills.run.records import EvictionMoment
from outlast.drills.run.schedule import Clock, JobClocks, PlannedEviction, Schedule

if TYPE_CHECKING:
    from outlast.drills.run.node import SimulatedNode

HABITS = JobTiming(grace_seconds=5.0, patience_seconds=1.0, unheard_seconds=1.0)


class StillNode:
    """A node that nothing happens on."""

    def kill(self) -> None:
        pass


def live() -> LiveAttempt:
    node = cast("SimulatedNode", StillNode())
    return LiveAttempt(number=1, worker=0, node=node, log=Path("log"), started=0.0, ready=0.0)


def struck_at(saving: list[float], pause: float) -> tuple[float, bool]:
    """When it strikes if changes are seen at these times, looked at every millisecond."""
    planned = PlannedEviction(
        number=1,
        at_seconds=0.0,
        notice=False,
        moment=EvictionMoment.SAVE,
        overlap=False,
        draw=0.5,
        pause_seconds=pause,
    )
    schedule = Schedule(clock=Clock.WORK, evictions=(planned,), needed=1)
    victim = live()
    evictor = Evictor(schedule, JobClocks(now=0.0), HABITS, lambda _: None)
    for number in range(2000):
        now = number / 1000
        seen = any(now - 0.001 < at <= now for at in saving)
        evictor.evict_if_due([victim], now=now, saving=seen)
        if victim.evicted_at is not None:
            return victim.evicted_at, victim.hit
    return math.inf, False


def test_a_long_save_is_struck_in_its_middle() -> None:
    long = [0.1 + n / 1000 for n in range(50)]

    at, hit = struck_at(long, pause=0.02)

    assert at == pytest.approx(0.12, abs=0.002)
    assert hit


def test_a_save_that_is_over_before_the_strike_is_let_go_and_the_next_is_struck_at_once() -> None:
    at, hit = struck_at([0.1, 0.3, 0.5], pause=0.02)

    assert at == pytest.approx(0.3, abs=0.002)
    assert hit


def test_without_another_save_it_strikes_when_its_patience_ends_and_says_so() -> None:
    at, hit = struck_at([0.1], pause=0.02)

    assert at == pytest.approx(1.0, abs=0.002)
    assert not hit
