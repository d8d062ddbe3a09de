"""What a run is to the arithmetic: a job, and the supply of machines that it runs on.

Plain values in seconds, checked at birth. The exact formulas of `renewal`, the simulation and the
replay of traces all mean the same by them:

- A machine is waited for (unpaid), then the program starts (`restart_seconds`, paid), then it works
  and saves: `interval_seconds` of work, a save that stops it for `save_seconds`, and so on. The end
  of the work is saved too. A save keeps the work before it once it is durable, `durable_seconds`
  after it began.
- An interruption ends the machine's life. If it was announced and the final save fits, all work is
  kept; otherwise what was done since the last durable save is done again.
- Before the next start a Kubernetes Job waits for its back-off, which doubles with every lost Pod.
"""

import math
from dataclasses import dataclass, field

from outlast._base.checks import check_above_zero, check_from_zero
from outlast.capacity.interruptions import Lifetimes, Never

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3600.0
MINUTE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be done, and what saving costs. An infinite interval saves at the end alone."""

    work_seconds: float
    interval_seconds: float = math.inf
    save_seconds: float = 0.0
    durable_seconds: float = 0.0
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_above_zero("work_seconds", self.work_seconds)
        if not self.interval_seconds > 0:
            raise ValueError(
                f"interval_seconds is {self.interval_seconds!r}; a number above 0 is expected."
            )
        for name in ("save_seconds", "durable_seconds", "restart_seconds"):
            check_from_zero(name, getattr(self, name))

    @property
    def lag_seconds(self) -> float:
        """How long after the loop went on a save becomes durable."""
        return max(0.0, self.durable_seconds - self.save_seconds)

    @property
    def saves(self) -> int:
        """How many saves an undisturbed run makes, the one at the end included."""
        return max(1, math.ceil(self.work_seconds / self.interval_seconds))

    @property
    def undisturbed_seconds(self) -> float:
        """Work and saves, if nothing happens."""
        return self.work_seconds + self.saves * self.save_seconds + self.lag_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class BackOff:
    """The wait before the next Pod of a Kubernetes Job: doubled with every Pod that was lost."""

    first_seconds: float = 10.0
    ceiling_seconds: float = 600.0

    def seconds(self, lost: int) -> float:
        """The wait after so many lost Pods, counted from 1."""
        return min(self.first_seconds * 2.0 ** min(lost - 1, 60), self.ceiling_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """How machines come and go.

    `kept_share` of all interruptions end with their work saved; `announced_share` come with a
    notice, after which `leave_seconds` pass until the machine is gone. Machines are taken away
    after `lease_seconds` at the latest, which is known ahead and loses nothing. The wait for a
    machine is `wait_seconds` in the mean, for the first one `first_wait_seconds`; who has waited
    for `patience_seconds` turns to a fallback machine instead, which comes after
    `fallback_wait_seconds` in the mean and stays until its own lease ends, if it has one.
    """

    lifetimes: Lifetimes = field(default_factory=Never)
    announced_share: float = 0.0
    kept_share: float = 0.0
    leave_seconds: float = 0.0
    lease_seconds: float = math.inf
    first_wait_seconds: float = 0.0
    wait_seconds: float = 0.0
    patience_seconds: float = math.inf
    fallback_wait_seconds: float = 0.0
    fallback_lease_seconds: float = math.inf
    back_off: BackOff | None = None

    def __post_init__(self) -> None:
        for name in ("announced_share", "kept_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value!r}; a share is 0 to 1.")
        if self.kept_share > self.announced_share:
            raise ValueError(
                f"kept_share is {self.kept_share!r}, above announced_share, "
                f"{self.announced_share!r}: only announced interruptions can keep their work."
            )
        waits = ("first_wait_seconds", "wait_seconds", "fallback_wait_seconds")
        for name in ("leave_seconds", *waits):
            check_from_zero(name, getattr(self, name))
        for name in ("lease_seconds", "patience_seconds", "fallback_lease_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; above 0 is expected.")
