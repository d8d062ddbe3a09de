"""When the next save is due, and what one needs: from what saves took and interruptions cost.

Keeps the figures; the arithmetic is in `_base/interval.py`. The loop's thread asks and the writer's
thread tells, each of them one number at a time.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from outlast._base.interval import (
    COSTS_KEPT,
    Interval,
    IntervalPolicy,
    Observed,
    SaveCost,
    choose_interval,
    slow_seconds,
    typical_cost,
)

LEAVE_SECONDS = 0.2
"""What is kept of the time left, for leaving."""

_ASSUMED_BYTES_PER_SECOND = 100e6
_CAUTION = 1.2
# Fewer steps than this say nothing about how long one takes.
_STEPS_MIN = 3


class Pace:
    """`final_seconds` is what a final save will have, infinite if nobody knows.

    Times are monotonic seconds. `saved_step` is the step of the last save that was staged.
    """

    def __init__(self, policy: IntervalPolicy, *, final_seconds: float) -> None:
        self._policy = policy
        self._final_seconds = final_seconds
        self._costs: list[SaveCost] = []
        self._observed = Observed()
        self._bytes_last: int | None = None
        self._begun_at = 0.0
        self._saved_at = 0.0
        self._quiet_from: tuple[int, float] | None = None
        self._step_seconds: float | None = None
        self.saved_step = 0

    @property
    def is_exact(self) -> bool:
        """Whether the steps to save are fixed, so that a save waits for the one before."""
        return self._policy.every_steps is not None

    def look_back(
        self, observed: Observed, costs: Sequence[SaveCost], bytes_last: int | None
    ) -> None:
        """Take what earlier attempts have measured."""
        self._observed = observed
        self._costs = list(costs)[-COSTS_KEPT:]
        self._bytes_last = bytes_last

    def begin(self, step: int, *, now: float) -> None:
        """The loop starts with so many steps done, all of them saved."""
        self.saved_step = step
        self._begun_at = self._saved_at = now
        self._quiet_from = (step, now)

    def is_due(self, step: int, *, now: float) -> bool:
        return self.interval().is_due(
            steps_done=step,
            steps_saved=self.saved_step,
            seconds_since_save=now - self._saved_at,
        )

    def next_due(self) -> tuple[float, float]:
        """The step and the time before which nothing can be due."""
        interval = self.interval()
        if interval.steps is not None:
            return (self.saved_step // interval.steps + 1) * interval.steps, math.inf
        assert interval.seconds is not None
        return math.inf, self._saved_at + interval.seconds

    def interval(self) -> Interval:
        return choose_interval(
            self._policy,
            cost=typical_cost(self._costs),
            observed=replace(
                self._observed,
                running_seconds=self._observed.running_seconds
                + max(0.0, self._saved_at - self._begun_at),
            ),
            final_fits=self._needed_last() <= self._final_seconds,
        )

    def start(self, step: int, *, now: float) -> None:
        """A save of this step begins, and with it the stall."""
        if self._quiet_from is not None:
            steps, seconds = step - self._quiet_from[0], now - self._quiet_from[1]
            if steps >= _STEPS_MIN:
                self._step_seconds = seconds / steps
            self._quiet_from = None
        self.saved_step = step

    def go_on(self, *, now: float) -> None:
        """The state is staged, and the loop goes on."""
        self._saved_at = now

    def commit(
        self,
        *,
        stall_seconds: float,
        durable_seconds: float,
        size_bytes: int,
        step: int,
        now: float,
    ) -> None:
        """The save is durable, and the loop is at this step by now."""
        steps = step - self.saved_step
        slow = 0.0
        if self._step_seconds is not None and steps >= _STEPS_MIN:
            # The step under way is, on average, half done.
            seconds = (durable_seconds - stall_seconds) - self._step_seconds / 2
            slow = slow_seconds(
                steps=steps, seconds=max(0.0, seconds), step_seconds=self._step_seconds
            )
        cost = SaveCost(
            stall_seconds=stall_seconds, durable_seconds=durable_seconds, slow_seconds=slow
        )
        self._costs = [*self._costs, cost][-COSTS_KEPT:]
        self._bytes_last = size_bytes
        self._quiet_from = (step, now)

    def needed_seconds(self, size_bytes: int) -> float:
        """What a full save of so many bytes needs until it is durable, and for leaving."""
        if not self._costs:
            return _CAUTION * size_bytes / _ASSUMED_BYTES_PER_SECOND + LEAVE_SECONDS
        growth = max(1.0, size_bytes / self._bytes_last) if self._bytes_last else 1.0
        durable = statistics.median(cost.durable_seconds for cost in self._costs)
        return _CAUTION * growth * durable + LEAVE_SECONDS

    @property
    def saves_measured(self) -> int:
        return len(self._costs)

    def _needed_last(self) -> float:
        """What a save of the last size needs; 0 before one was measured."""
        return self.needed_seconds(self._bytes_last) if self._bytes_last and self._costs else 0.0
