"""What one tier would mean for a workload: cost, finish, chance, waste, from many simulated runs.

Pure, and reproducible by its seed. Money is `Decimal`, to the cent.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from statistics import NormalDist

import numpy as np

from outlast.capacity.assumptions import Assumptions
from outlast.capacity.interruptions import Floats
from outlast.capacity.model import DAY_SECONDS, HOUR_SECONDS, BackOff, Job, Supply
from outlast.capacity.price import Price
from outlast.capacity.renewal import useful_share
from outlast.capacity.simulation import Outcomes, simulate
from outlast.capacity.spread import Spread
from outlast.capacity.vocabulary import Tier

PATIENCE_SECONDS = 600.0
"""How long a hybrid waits for Spot until it takes dearer capacity."""

USEFUL_SHARE_MIN = 0.1
"""Below this, a tier is not simulated: it does not get ahead in any time worth the name."""

HORIZON_FACTOR = 20
_RUNS_MIN = 200
_LIVES_IN_ALL = 5e6
_CENT = Decimal("0.01")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Over all nodes. Half of all runs cost at most `p50`, and all but a twentieth `p95`."""

    expected: Decimal
    p5: Decimal
    p50: Decimal
    p95: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """How long it takes from now, waiting included."""

    p5: timedelta
    p50: timedelta
    p95: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Waste:
    """Mean hours of one run that were not work, and their share of all its time."""

    redone_hours: float
    save_hours: float
    restart_hours: float
    wait_hours: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One tier. `why_not` says why it cannot be taken, if so; the figures may be there anyway."""

    tier: Tier
    why_not: str | None
    price: Price | None
    fallback_price: Price | None
    cost: Cost | None
    finish: Finish | None
    chance: float | None
    waste: Waste | None
    save_every: timedelta | None
    saves: int | None
    interruptions: float | None
    fallback_share: float | None
    cost_spread: Spread | None
    finish_spread: Spread | None

    @property
    def is_possible(self) -> bool:
        return self.why_not is None

    @property
    def is_estimate(self) -> bool:
        """Whether its cost rests on an estimated price."""
        prices = (self.price, self.fallback_price)
        return any(price is not None and price.is_estimate for price in prices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How a tier is bought: its price, if known, its fallback's, and what stands against it."""

    tier: Tier
    price: Price | None = None
    fallback_price: Price | None = None
    lease_seconds: float = math.inf
    why_not: str | None = None


def weigh(
    assumptions: Assumptions,
    terms: Terms,
    *,
    deadline_seconds: float | None,
    runs: int,
    seed: int,
) -> Option:
    """Simulate a workload on one tier."""
    job, supply = job_on(assumptions, terms.tier), supply_of(assumptions, terms)
    share = useful_share(job, supply)
    # The share holds for random losses; under another law, only the simulation knows.
    is_random = assumptions.node_lifetimes is None and supply.patience_seconds == math.inf
    gets_ahead = share >= USEFUL_SHARE_MIN or not is_random
    if not gets_ahead:
        why = terms.why_not or (
            f"It never gets ahead: of the time on {terms.tier}, {share:.1%} would be lasting work."
        )
        return _without_figures(terms, job, assumptions, why)
    tally = _Tally(assumptions, terms, deadline_seconds)
    horizon = HORIZON_FACTOR * job.work_seconds + 30 * DAY_SECONDS
    # In a long job luck evens out by itself, and fewer runs tell as much.
    lives = 1 + job.work_seconds / min(supply.lifetimes.mean_seconds, supply.lease_seconds)
    runs = min(runs, max(_RUNS_MIN, round(_LIVES_IN_ALL / lives)))
    for outcomes in simulate(job, supply, runs=runs, seed=seed, horizon_seconds=horizon):
        tally.add(outcomes)
    return tally.option(job)


def job_on(assumptions: Assumptions, tier: Tier) -> Job:
    """The job as it would run on a tier: the interval depends on what is lost there."""
    interval = assumptions.interval_seconds(is_spot=tier in (Tier.SPOT, Tier.HYBRID))
    return Job(
        work_seconds=assumptions.work_seconds,
        interval_seconds=interval,
        save_seconds=assumptions.stall_seconds,
        durable_seconds=assumptions.save_seconds,
        restart_seconds=assumptions.restart_seconds,
    )


def supply_of(assumptions: Assumptions, terms: Terms) -> Supply:
    """How machines of a tier come and go."""
    waits = assumptions.wait_seconds
    if terms.tier in (Tier.ON_DEMAND, Tier.FLEX_START):
        wait = waits[terms.tier]
        return Supply(first_wait_seconds=wait, wait_seconds=wait, lease_seconds=terms.lease_seconds)
    return Supply(
        lifetimes=assumptions.lifetimes,
        announced_share=1 - assumptions.unannounced_share,
        kept_share=assumptions.kept_share,
        leave_seconds=min(assumptions.grace_seconds, assumptions.save_seconds),
        first_wait_seconds=waits[Tier.SPOT],
        wait_seconds=waits[Tier.SPOT],
        patience_seconds=PATIENCE_SECONDS if terms.tier is Tier.HYBRID else math.inf,
        back_off=BackOff() if assumptions.has_back_off else None,
    )


class _Tally:
    """Folds the outcomes of a simulation, batch by batch."""

    def __init__(
        self, assumptions: Assumptions, terms: Terms, deadline_seconds: float | None
    ) -> None:
        self._assumptions = assumptions
        self._terms = terms
        self._deadline_seconds = deadline_seconds
        self._finish, self._cost = Spread(), Spread()
        self._sums = np.zeros(8)
        self._runs = self._unfinished = self._in_time = 0

    def add(self, outcomes: Outcomes) -> None:
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
        if self._terms.price is not None:
            self._cost.add(self._amounts(outcomes))

    def _amounts(self, outcomes: Outcomes) -> Floats:
        terms = self._terms
        assert terms.price is not None
        amounts: Floats = outcomes.paid_seconds * (float(terms.price.amount) / HOUR_SECONDS)
        if terms.fallback_price is not None:
            extra = float(terms.fallback_price.amount - terms.price.amount) / HOUR_SECONDS
            amounts = amounts + outcomes.fallback_seconds * extra
        return amounts

    def option(self, job: Job) -> Option:
        paid, fallback, wait, restart, save, redone, leave, interruptions = (
            float(total) / self._runs for total in self._sums
        )
        why_not = self._terms.why_not
        if self._unfinished and why_not is None:
            share = self._unfinished / self._runs
            why_not = (
                f"{share:.1%} of the simulated runs were not done after {HORIZON_FACTOR} times the "
                "work."
            )
        has_saves = self._assumptions.stall_seconds > 0
        return Option(
            tier=self._terms.tier,
            why_not=why_not,
            price=self._terms.price,
            fallback_price=self._terms.fallback_price,
            cost=self._spread_of_cost(paid, fallback),
            finish=self._spread_of_finish(),
            chance=self._chance(),
            waste=Waste(
                redone_hours=redone / HOUR_SECONDS,
                save_hours=(save + leave) / HOUR_SECONDS,
                restart_hours=restart / HOUR_SECONDS,
                wait_hours=wait / HOUR_SECONDS,
                share=max(0.0, 1 - job.work_seconds / (paid + wait)),
            ),
            save_every=timedelta(seconds=round(job.interval_seconds)) if has_saves else None,
            saves=job.saves if has_saves else None,
            interruptions=interruptions,
            fallback_share=fallback / paid if self._terms.fallback_price is not None else None,
            cost_spread=self._cost if self._terms.price is not None else None,
            finish_spread=self._finish,
        )

    def _spread_of_cost(self, paid_seconds: float, fallback_seconds: float) -> Cost | None:
        price, fallback = self._terms.price, self._terms.fallback_price
        if price is None:
            return None
        nodes = self._assumptions.crews * self._assumptions.crew_nodes
        expected = _hours(paid_seconds) * price.amount
        if fallback is not None:
            expected += _hours(fallback_seconds) * (fallback.amount - price.amount)
        low, middle, high = (Decimal(repr(value)) * nodes for value in self._quantiles(self._cost))
        return Cost(
            expected=_cents(expected * nodes),
            p5=_cents(low),
            p50=_cents(middle),
            p95=_cents(high),
            currency=price.currency,
        )

    def _spread_of_finish(self) -> Finish:
        low, middle, high = (
            timedelta(seconds=round(value)) for value in self._quantiles(self._finish)
        )
        return Finish(p5=low, p50=middle, p95=high)

    def _quantiles(self, spread: Spread) -> tuple[float, float, float]:
        crews = self._assumptions.crews
        if crews == 1:
            return spread.quantile(0.05), spread.quantile(0.5), spread.quantile(0.95)
        # Many crews share the work, so that their good and bad luck evens out.
        reach = NormalDist().inv_cdf(0.95) * spread.deviation / math.sqrt(crews)
        return max(spread.least, spread.mean - reach), spread.mean, spread.mean + reach

    def _chance(self) -> float | None:
        if self._deadline_seconds is None:
            return None
        if self._assumptions.crews == 1:
            return self._in_time / self._runs
        width = self._finish.deviation / math.sqrt(self._assumptions.crews)
        if width == 0:
            return float(self._finish.mean <= self._deadline_seconds)
        return NormalDist(self._finish.mean, width).cdf(self._deadline_seconds)


def _without_figures(terms: Terms, job: Job, assumptions: Assumptions, why: str) -> Option:
    every = job.interval_seconds
    return Option(
        tier=terms.tier,
        why_not=why,
        price=terms.price,
        fallback_price=terms.fallback_price,
        cost=None,
        finish=None,
        chance=None,
        waste=None,
        save_every=timedelta(seconds=round(every)) if assumptions.stall_seconds > 0 else None,
        saves=None,
        interruptions=None,
        fallback_share=None,
        cost_spread=None,
        finish_spread=None,
    )


def _hours(seconds: float) -> Decimal:
    return Decimal(repr(seconds)) / 3600


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, rounding=ROUND_HALF_EVEN)
