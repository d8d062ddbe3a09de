"""Decide when the next save is due, and how long one takes, from measured saves and interruptions.

Keeps the measurements; the arithmetic is in `_base/interval.py`. The loop's thread reads what the
writer's thread updates, one number at a time.
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

EXIT_SECONDS = 0.2
"""How much of the remaining time is reserved for exiting."""

_ASSUMED_BYTES_PER_SECOND = 100e6
_CAUTION = 1.2
# Fewer steps are not enough to measure how long one takes.
_STEPS_MIN = 3


class SaveSchedule:
    """When to save. `final_seconds` is the time that a final save will have, infinite if unknown.

    Times are monotonic seconds. `saved_step` is the step of the last staged save.
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
        """Whether the steps to save are fixed, so that a save waits for the previous one."""
        return self._policy.every_steps is not None

    def use_history(
        self, observed: Observed, costs: Sequence[SaveCost], bytes_last: int | None
    ) -> None:
        """Start from the measurements of earlier attempts."""
        self._observed = observed
        self._costs = list(costs)[-COSTS_KEPT:]
        self._bytes_last = bytes_last

    def begin(self, step: int, *, now: float) -> None:
        """Note that the loop starts at this step, which is saved."""
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
        """The step and the time before which no save can be due."""
        interval = self.interval()
        if interval.steps is not None:
            return (self.saved_step // interval.steps + 1) * interval.steps, math.inf
        assert interval.seconds is not None
        return math.inf, self._saved_at + interval.seconds

    def interval(self) -> Interval:
        age_seconds = max(0.0, self._saved_at - self._begun_at)
        return choose_interval(
            self._policy,
            cost=typical_cost(self._costs),
            observed=replace(
                self._observed, running_seconds=self._observed.running_seconds + age_seconds
            ),
            final_fits=self._needed_last() <= self._final_seconds,
            age_seconds=age_seconds,
        )

    def start(self, step: int, *, now: float) -> None:
        """Note that a save of this step starts, and the loop waits."""
        if self._quiet_from is not None:
            steps, seconds = step - self._quiet_from[0], now - self._quiet_from[1]
            if steps >= _STEPS_MIN:
                self._step_seconds = seconds / steps
            self._quiet_from = None
        self.saved_step = step

    def staged(self, *, now: float) -> None:
        """Note that the state is staged, and the loop continues."""
        self._saved_at = now

    def commit(
        self,
        *,
        stall_seconds: float,
        durable_seconds: float,
        size_bytes: int,
        step: int,
        now: float,
    ) -> SaveCost:
        """Note that the save is durable, while the loop has reached `step`. Returns its cost."""
        steps = step - self.saved_step
        slow = 0.0
        if self._step_seconds is not None and steps >= _STEPS_MIN:
            # On average, the current step is half done.
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
        return cost

    def needed_seconds(self, size_bytes: int) -> float:
        """How long a full save of this size takes until it is durable, and the process exits."""
        if not self._costs:
            return _CAUTION * size_bytes / _ASSUMED_BYTES_PER_SECOND + EXIT_SECONDS
        growth = max(1.0, size_bytes / self._bytes_last) if self._bytes_last else 1.0
        durable = statistics.median(cost.durable_seconds for cost in self._costs)
        return _CAUTION * growth * durable + EXIT_SECONDS

    @property
    def saves_measured(self) -> int:
        return len(self._costs)

    def _needed_last(self) -> float:
        """How long a save of the last size takes; 0 before the first measurement."""
        return self.needed_seconds(self._bytes_last) if self._bytes_last and self._costs else 0.0
