"""Evaluate one tier for a workload: cost, finish time, deadline and wasted time, by simulation.

Pure, and reproducible by its seed. Money is `Decimal`, to the cent.
"""

import math
from dataclasses import replace
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from statistics import NormalDist

import numpy as np

from outlast._base.durations import format_duration
from outlast.capacity.planning.assumptions import Assumptions
from outlast.capacity.planning.options import (
    CostEstimate,
    FinishTime,
    TierOption,
    TierTerms,
    WastedTime,
)
from outlast.capacity.simulation.lifetimes import Floats
from outlast.capacity.simulation.model import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MachineSupply,
    RestartBackoff,
    SimulatedJob,
    long_run_useful_share,
)
from outlast.capacity.simulation.simulate import QuantileSketch, SimulationOutcomes, simulate
from outlast.capacity.vocabulary import Tier

PATIENCE_SECONDS = 600.0
"""How long a hybrid waits for Spot before it takes more expensive capacity."""

USEFUL_SHARE_MIN = 0.1
"""Below this, a tier is not simulated: it would not finish in a reasonable time."""

HORIZON_FACTOR = 20
_RUNS_MIN = 200
_LIVES_IN_ALL = 5e6
_CENT = Decimal("0.01")


_DRAWN = 1000


def evaluate_tier(
    assumptions: Assumptions,
    terms: TierTerms,
    *,
    deadline_seconds: float | None,
    runs: int,
    seed: int,
) -> TierOption:
    """Simulate a workload on one tier."""
    job, supply = job_on(assumptions, terms.primary), supply_of(assumptions, terms)
    if terms.why_not is not None and outlives_lease(assumptions, terms):
        return _without_simulation(terms, job, assumptions, terms.why_not)
    share = long_run_useful_share(job, supply)
    # The share is valid for random losses; for other distributions only the simulation tells.
    is_random = assumptions.node_lifetimes is None and supply.patience_seconds == math.inf
    if share < USEFUL_SHARE_MIN and is_random:
        why = terms.why_not or (
            f"Only {share:.1%} of the time on {terms.tier} would be lasting work, so it would "
            "hardly make progress."
        )
        return _without_simulation(terms, job, assumptions, why)
    tally = _OutcomeTotals(assumptions, terms, deadline_seconds)
    horizon = HORIZON_FACTOR * job.work_seconds + 30 * DAY_SECONDS
    # Random variation averages out in a long job, so fewer runs are enough.
    lives = 1 + job.work_seconds / min(supply.lifetimes.mean_seconds, supply.lease_seconds)
    runs = min(runs, max(_RUNS_MIN, round(_LIVES_IN_ALL / lives)))
    for outcomes in simulate(job, supply, runs=runs, seed=seed, horizon_seconds=horizon):
        tally.add(outcomes)
    return tally.option(job, horizon)


def outlives_lease(assumptions: Assumptions, terms: TierTerms) -> bool:
    """Whether work that cannot resume would exceed the lifetime of its flex-start node."""
    if assumptions.is_resumable or Tier.FLEX_START not in (terms.primary, terms.fallback):
        return False
    return uninterrupted_seconds(assumptions, Tier.FLEX_START) > terms.lease_seconds


def uninterrupted_seconds(assumptions: Assumptions, tier: Tier) -> float:
    """The time from a new node to the end of the work, without interruptions."""
    return assumptions.restart_seconds + job_on(assumptions, tier).uninterrupted_seconds


def job_on(assumptions: Assumptions, tier: Tier) -> SimulatedJob:
    """The job as it would run on a tier; the save interval depends on the losses there."""
    interval = assumptions.interval_seconds(is_spot=tier is Tier.SPOT)
    return SimulatedJob(
        work_seconds=assumptions.work_seconds,
        interval_seconds=interval,
        save_seconds=assumptions.stall_seconds,
        durable_seconds=assumptions.save_seconds,
        restart_seconds=assumptions.restart_seconds,
    )


def supply_of(assumptions: Assumptions, terms: TierTerms) -> MachineSupply:
    """How machines of a tier come and go."""
    wait = assumptions.wait_seconds[terms.primary]
    fallback = terms.fallback
    lasting = MachineSupply(
        first_wait_seconds=wait,
        wait_seconds=wait,
        patience_seconds=math.inf if fallback is None else PATIENCE_SECONDS,
        fallback_wait_seconds=assumptions.wait_seconds[fallback] if fallback else 0.0,
        fallback_lease_seconds=_lease_seconds(terms, fallback),
        lease_seconds=_lease_seconds(terms, terms.primary),
    )
    if terms.primary is not Tier.SPOT:
        return lasting
    return replace(
        lasting,
        lifetimes=assumptions.lifetimes,
        announced_share=1 - assumptions.unannounced_share,
        kept_share=assumptions.kept_share,
        leave_seconds=min(assumptions.grace_seconds, assumptions.save_seconds),
        backoff=RestartBackoff() if assumptions.has_backoff else None,
    )


def _lease_seconds(terms: TierTerms, tier: Tier | None) -> float:
    return terms.lease_seconds if tier is Tier.FLEX_START else math.inf


class _OutcomeTotals:
    """Aggregates the outcomes of a simulation, batch by batch."""

    def __init__(
        self, assumptions: Assumptions, terms: TierTerms, deadline_seconds: float | None
    ) -> None:
        self._assumptions = assumptions
        self._terms = terms
        self._deadline_seconds = deadline_seconds
        self._finish, self._cost = QuantileSketch(), QuantileSketch()
        self._sums = np.zeros(8)
        self._runs = self._unfinished = self._in_time = 0

    def add(self, outcomes: SimulationOutcomes) -> None:
        elapsed = outcomes.elapsed_seconds
        self._runs += elapsed.size
        self._unfinished += int((~outcomes.finished).sum())
        if self._deadline_seconds is not None:
            self._in_time += int((outcomes.finished & (elapsed <= self._deadline_seconds)).sum())
        self._finish.add(elapsed)
        self._sums += [
            float(part.sum())
            for part in (
                outcomes.paid_seconds,
                outcomes.fallback_seconds,
                outcomes.wait_seconds,
                outcomes.restart_seconds,
                outcomes.save_seconds,
                outcomes.redone_seconds,
                outcomes.leave_seconds,
                outcomes.interruptions,
            )
        ]
        if self._terms.is_priced:
            self._cost.add(self._amounts(outcomes))

    def _amounts(self, outcomes: SimulationOutcomes) -> Floats:
        terms = self._terms
        assert terms.price is not None
        amounts: Floats = outcomes.paid_seconds * (float(terms.price.amount) / HOUR_SECONDS)
        if terms.fallback_price is not None:
            extra = float(terms.fallback_price.amount - terms.price.amount) / HOUR_SECONDS
            amounts = amounts + outcomes.fallback_seconds * extra
        return amounts * self._assumptions.nodes_per_replica

    def option(self, job: SimulatedJob, horizon_seconds: float) -> TierOption:
        paid, fallback, wait, restart, save, redone, leave, interruptions = (
            float(total) / self._runs for total in self._sums
        )
        why_not = self._terms.why_not
        if self._unfinished and why_not is None:
            share = self._unfinished / self._runs
            why_not = (
                f"{share:.1%} of the simulated runs had not finished after "
                f"{format_duration(horizon_seconds)}."
            )
        has_saves = self._assumptions.stall_seconds > 0
        return TierOption(
            tier=self._terms.tier,
            primary=self._terms.primary,
            fallback=self._terms.fallback,
            why_not=why_not,
            price=self._terms.price,
            fallback_price=self._terms.fallback_price,
            cost=self._spread_of_cost(paid, fallback),
            finish=self._spread_of_finish(),
            chance=self._chance(),
            waste=WastedTime(
                redone_hours=redone / HOUR_SECONDS,
                save_hours=(save + leave) / HOUR_SECONDS,
                restart_hours=restart / HOUR_SECONDS,
                wait_hours=wait / HOUR_SECONDS,
                share=max(0.0, 1 - job.work_seconds / (paid + wait)),
            ),
            save_every=timedelta(seconds=round(job.interval_seconds)) if has_saves else None,
            saves=job.saves if has_saves else None,
            interruptions=interruptions,
            fallback_share=fallback / paid if self._terms.fallback is not None else None,
            cost_distribution=self._over_all(self._cost, self._busy_replicas)
            if self._terms.is_priced
            else None,
            finish_distribution=self._over_all(self._finish),
        )

    def _spread_of_cost(self, paid_seconds: float, fallback_seconds: float) -> CostEstimate | None:
        price, fallback = self._terms.price, self._terms.fallback_price
        if price is None or not self._terms.is_priced:
            return None
        replicas = Decimal(repr(self._busy_replicas))
        expected = _hours(paid_seconds) * price.amount
        if fallback is not None:
            expected += _hours(fallback_seconds) * (fallback.amount - price.amount)
        low, middle, high = (
            Decimal(repr(value)) * replicas for value in self._quantiles(self._cost)
        )
        return CostEstimate(
            expected=_cents(expected * self._assumptions.nodes_per_replica * replicas),
            p5=_cents(low),
            p50=_cents(middle),
            p95=_cents(high),
            currency=price.currency,
        )

    def _spread_of_finish(self) -> FinishTime:
        low, middle, high = (
            timedelta(seconds=round(value)) for value in self._quantiles(self._finish)
        )
        return FinishTime(p5=low, p50=middle, p95=high)

    def _quantiles(self, spread: QuantileSketch) -> tuple[float, float, float]:
        replicas = self._assumptions.replicas
        if replicas == 1:
            return spread.quantile(0.05), spread.quantile(0.5), spread.quantile(0.95)
        # Many replicas share the work, so random variation averages out.
        reach = NormalDist().inv_cdf(0.95) * spread.deviation / math.sqrt(replicas)
        return max(spread.least, spread.mean - reach), spread.mean, spread.mean + reach

    def _over_all(self, spread: QuantileSketch, times: float = 1.0) -> QuantileSketch:
        """The distribution over all replicas, consistent with `_quantiles`."""
        replicas = self._assumptions.replicas
        if replicas == 1:
            return spread
        width = max(spread.deviation / math.sqrt(replicas), spread.mean * 1e-9)
        inverse = NormalDist(spread.mean, width).inv_cdf
        values = np.array([inverse((index + 0.5) / _DRAWN) for index in range(_DRAWN)])
        combined = QuantileSketch()
        combined.add(np.maximum(values, spread.least) * times)
        return combined

    @property
    def _busy_replicas(self) -> float:
        """The mean number of replicas that are paid for."""
        return self._assumptions.replicas * self._assumptions.busy_share

    def _chance(self) -> float | None:
        if self._deadline_seconds is None:
            return None
        if self._assumptions.replicas == 1:
            return self._in_time / self._runs
        width = self._finish.deviation / math.sqrt(self._assumptions.replicas)
        if width == 0:
            return float(self._finish.mean <= self._deadline_seconds)
        return NormalDist(self._finish.mean, width).cdf(self._deadline_seconds)


def _without_simulation(
    terms: TierTerms, job: SimulatedJob, assumptions: Assumptions, why: str
) -> TierOption:
    every = job.interval_seconds
    return TierOption(
        tier=terms.tier,
        primary=terms.primary,
        fallback=terms.fallback,
        why_not=why,
        price=terms.price,
        fallback_price=terms.fallback_price,
        save_every=timedelta(seconds=round(every)) if assumptions.stall_seconds > 0 else None,
    )


def _hours(seconds: float) -> Decimal:
    return Decimal(repr(seconds)) / 3600


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, rounding=ROUND_HALF_EVEN)
