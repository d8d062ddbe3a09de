"""The model of a run: a job, and the supply of machines that it runs on.

Plain values in seconds, validated on creation:

- The job waits for a machine (unpaid), then the program starts (`restart_seconds`, paid), then it
  alternates between `interval_seconds` of work and a save that blocks it for `save_seconds`. It
  also saves at the end. A save protects the work before it once it is durable, `durable_seconds`
  after it started.
- An interruption ends the life of a machine. If it was announced and the final save fits, all work
  is kept; otherwise the work since the last durable save has to be redone.
- Before the next start, a Kubernetes Job waits for its backoff, which doubles with every lost Pod.
"""

import math
from dataclasses import dataclass, field

from outlast._base.checks import check_above_zero, check_from_zero
from outlast.capacity.simulation.lifetimes import LifetimeDistribution, NoInterruptions

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3600.0
# Beyond this, exp() overflows.
_EXPONENT_MAX = 700.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedJob:
    """The amount of work, and the cost of saving. An infinite interval saves only at the end."""

    work_seconds: float
    interval_seconds: float = math.inf
    save_seconds: float = 0.0
    durable_seconds: float = 0.0
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_above_zero("work_seconds", self.work_seconds)
        if not self.interval_seconds > 0:
            raise ValueError(
                f"interval_seconds: expected a number above 0, got {self.interval_seconds!r}."
            )
        for name in ("save_seconds", "durable_seconds", "restart_seconds"):
            check_from_zero(name, getattr(self, name))

    @property
    def lag_seconds(self) -> float:
        """The time from when the loop continues until the save is durable."""
        return max(0.0, self.durable_seconds - self.save_seconds)

    @property
    def saves(self) -> int:
        """The number of saves in a run without interruptions, including the one at the end."""
        return max(1, math.ceil(self.work_seconds / self.interval_seconds))

    @property
    def uninterrupted_seconds(self) -> float:
        """The time for work and saves without interruptions."""
        return self.work_seconds + self.saves * self.save_seconds + self.lag_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartBackoff:
    """The wait before the next Pod of a Kubernetes Job, which doubles with every lost Pod."""

    first_seconds: float = 10.0
    ceiling_seconds: float = 600.0

    def seconds(self, lost: int) -> float:
        """The wait after `lost` Pods, which is at least 1."""
        return min(self.first_seconds * 2.0 ** min(lost - 1, 60), self.ceiling_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineSupply:
    """How machines come and go.

    A share `announced_share` of the interruptions comes with a notice, after which the machine is
    gone in `leave_seconds`; a share `kept_share` ends with all work saved. Machines expire after
    `lease_seconds` at the latest, which is known in advance and loses no work. The mean wait for
    the first machine is `first_wait_seconds`, for later ones `wait_seconds`. After waiting for
    `patience_seconds`, the job takes a fallback machine, which arrives after a mean of
    `fallback_wait_seconds` and stays until its own lease ends, if it has one.
    """

    lifetimes: LifetimeDistribution = field(default_factory=NoInterruptions)
    announced_share: float = 0.0
    kept_share: float = 0.0
    leave_seconds: float = 0.0
    lease_seconds: float = math.inf
    first_wait_seconds: float = 0.0
    wait_seconds: float = 0.0
    patience_seconds: float = math.inf
    fallback_wait_seconds: float = 0.0
    fallback_lease_seconds: float = math.inf
    backoff: RestartBackoff | None = None

    @property
    def dead_seconds(self) -> float:
        """The mean time from an interruption to the next machine, without backoff."""
        return self.announced_share * self.leave_seconds + self.wait_seconds

    def __post_init__(self) -> None:
        for name in ("announced_share", "kept_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a share from 0 to 1, got {value!r}.")
        if self.kept_share > self.announced_share:
            raise ValueError(
                f"kept_share is {self.kept_share!r}, but must not exceed announced_share, which is "
                f"{self.announced_share!r}: only announced interruptions can keep their work."
            )
        waits = ("first_wait_seconds", "wait_seconds", "fallback_wait_seconds")
        for name in ("leave_seconds", *waits):
            check_from_zero(name, getattr(self, name))
        for name in ("lease_seconds", "patience_seconds", "fallback_lease_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected a number above 0, got {getattr(self, name)!r}.")


def long_run_useful_share(job: SimulatedJob, supply: MachineSupply) -> float:
    """The share of time that becomes lasting work in a long run with random interruptions.

    The rest is waiting, restarting, saving and redoing work. The backoff is taken at its ceiling,
    and fallback machines and leases are ignored: the limit of a long run on Spot.
    """
    interval = min(job.interval_seconds, job.work_seconds)
    cycle = interval + job.save_seconds
    if isinstance(supply.lifetimes, NoInterruptions):
        return interval / cycle
    mean = supply.lifetimes.mean_seconds
    dead = supply.dead_seconds
    if supply.backoff is not None:
        dead += supply.backoff.ceiling_seconds
    reached = math.exp(-cycle / mean)
    at_save = math.exp(-interval / mean)
    # The work of a cycle that ends with a notice: up to the interval, and none during the save.
    announced = mean * (1 - at_save) - interval * at_save + interval * (at_save - reached)
    gained = interval * reached * math.exp(-job.lag_seconds / mean) + supply.kept_share * announced
    if job.restart_seconds / mean >= _EXPONENT_MAX:
        return 0.0
    return gained / ((1 - reached) * (mean + dead) * math.exp(job.restart_seconds / mean))
