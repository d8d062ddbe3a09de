"""A run simulated the plain way, event by event, to hold the vectorised simulation against."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from outlast.capacity.simulation.model import MachineSupply, SimulatedJob


@dataclass(kw_only=True, slots=True)
class Tally:
    """Where the time of a run went."""

    paid: float = 0.0
    wait: float = 0.0
    restart: float = 0.0
    save: float = 0.0
    redone: float = 0.0
    leave: float = 0.0
    interruptions: int = 0

    @property
    def elapsed(self) -> float:
        return self.paid + self.wait


def run_events(
    job: SimulatedJob, supply: MachineSupply, lifetimes: Iterator[float], chance: random.Random
) -> Tally:
    """One run: machines come, work, save and go, one thing after the other."""
    tally = Tally()
    remaining = job.work_seconds
    mean_wait = supply.first_wait_seconds
    while True:
        if mean_wait:
            tally.wait += chance.expovariate(1 / mean_wait)
        left = next(lifetimes)
        if left < job.restart_seconds:
            tally.paid += left
            tally.restart += left
        else:
            tally.paid += job.restart_seconds
            tally.restart += job.restart_seconds
            left -= job.restart_seconds
            remaining, is_done = _live(job, supply, remaining, left, tally, chance)
            if is_done:
                return tally
            _say_goodbye(supply, tally, told=None)
            mean_wait = supply.wait_seconds
            continue
        _say_goodbye(supply, tally, told=chance.random() < supply.announced_share)
        mean_wait = supply.wait_seconds


def _live(
    job: SimulatedJob,
    supply: MachineSupply,
    remaining: float,
    left: float,
    tally: Tally,
    chance: random.Random,
) -> tuple[float, bool]:
    """Work on one machine; what is left to do afterwards, and whether all is done."""
    worked = 0.0
    durable = 0.0
    pending: list[tuple[float, float]] = []
    now = 0.0
    while remaining - worked > 1e-9:
        piece = min(job.interval_seconds, remaining - worked)
        if now + piece >= left:
            begun = left - now
            return _end(
                job, supply, remaining, worked + begun, durable, pending, left, tally, chance
            )
        now += piece
        worked += piece
        if now + job.save_seconds >= left:
            tally.save += left - now
            return _end(job, supply, remaining, worked, durable, pending, left, tally, chance)
        now += job.save_seconds
        tally.save += job.save_seconds
        pending.append((now + job.lag_seconds, worked))
    if pending and pending[-1][0] > left:
        tally.save += left - now
        return _end(job, supply, remaining, worked, durable, pending, left, tally, chance)
    if pending:
        tally.save += job.lag_seconds
        now += job.lag_seconds
    tally.paid += now
    return 0.0, True


def _end(
    job: SimulatedJob,
    supply: MachineSupply,
    remaining: float,
    worked: float,
    durable: float,
    pending: list[tuple[float, float]],
    left: float,
    tally: Tally,
    chance: random.Random,
) -> tuple[float, bool]:
    """The machine is lost: what of the work is kept?"""
    tally.paid += left
    for at, saved in pending:
        if at <= left:
            durable = saved
    drawn = chance.random()
    if drawn < supply.announced_share:
        tally.leave += supply.leave_seconds
        tally.paid += supply.leave_seconds
    kept = worked if drawn < supply.kept_share else durable
    tally.redone += worked - kept
    return remaining - kept, False


def _say_goodbye(supply: MachineSupply, tally: Tally, *, told: bool | None) -> None:
    """Note a loss, and wait as long as a Kubernetes Job does before it starts anew."""
    if told:
        tally.leave += supply.leave_seconds
        tally.paid += supply.leave_seconds
    tally.interruptions += 1
    if supply.backoff is not None:
        wait = supply.backoff.first_seconds
        for _ in range(1, tally.interruptions):
            wait = min(2 * wait, supply.backoff.ceiling_seconds)
        tally.wait += min(wait, supply.backoff.ceiling_seconds)


def endless(draw: Callable[[], float]) -> Iterator[float]:
    while True:
        yield draw()


def exponential_lifetimes(mean_seconds: float, chance: random.Random) -> Iterator[float]:
    return endless(
        lambda: chance.expovariate(1 / mean_seconds) if mean_seconds < math.inf else math.inf
    )
