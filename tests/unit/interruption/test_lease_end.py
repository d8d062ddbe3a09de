"""How long a process stays on a node whose lease has ended. Time is what the clock says."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from outlast.interruption.exiting import ScheduledExit
from outlast.interruption.lease_end import LeaseEnd


@dataclass
class Clock:
    """Reports these seconds, one after the other."""

    readings: Iterator[float]
    source: str = "a test"
    asked: list[float] = field(default_factory=list)

    def seconds_left(self) -> float:
        self.asked.append(next(self.readings))
        return self.asked[-1]


def lease_end(*readings: float) -> LeaseEnd:
    scheduled = ScheduledExit(at=0.0, code=75, seconds_max=1.0)
    return LeaseEnd(clock=Clock(iter(readings)), exit=scheduled, budget_seconds=13.0)


def test_it_stays_until_the_shutdown() -> None:
    ending = lease_end(300.0)
    ending.on_shutdown(time.monotonic())

    assert ending.wait()


def test_it_gives_up_once_the_clock_must_be_wrong() -> None:
    assert not lease_end(-119.999, -120.0).wait()


def test_it_follows_a_clock_that_is_corrected() -> None:
    ending = lease_end(-119.999, -120.001)

    assert not ending.wait()
    clock = ending.clock
    assert isinstance(clock, Clock)
    assert clock.asked == [-119.999, -120.001]


def test_after_the_signal_the_process_has_its_budget_and_no_more() -> None:
    ending = lease_end()

    ending.on_shutdown(1000.0)
    # A repeated signal grants no more time.
    ending.on_shutdown(1010.0)

    assert ending.scheduled_exit().at == 1013.0
    assert ending.scheduled_exit().code == 75
