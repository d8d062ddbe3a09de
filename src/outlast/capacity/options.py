"""What one tier would mean for a workload: cost, finish, chance, waste, from many simulated runs.

Pure, and reproducible by its seed. Money is `Decimal`, to the cent.
"""

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from statistics import NormalDist

import numpy as np

from outlast._base.durations import format_duration
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

CHANCE_MIN = 0.9
"""A tier that meets the deadline less often than this is left for a safer one."""

HORIZON_FACTOR = 20
_RUNS_MIN = 200
_LIVES_IN_ALL = 5e6
_CENT = Decimal("0.01")
_DRAWN = 1000


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
    """Mean hours that were not work, and their share of all the time.

    Of one Pod, where many work side by side; a training run on many nodes counts as one.
    """

    redone_hours: float
    save_hours: float
    restart_hours: float
    wait_hours: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One tier. `why_not` says why it cannot be taken, if so; the figures may be there anyway.

    `first` is where its nodes come from, and `fallback` what a hybrid turns to when there are none.
    `interruptions` are those of one Pod, as in `Waste`; cost and finish are of the whole.
    """

    tier: Tier
    first: Tier
    fallback: Tier | None
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
    """How a tier is bought: its price, if known, its fallback's, and what stands against it.

    `lease_seconds` is how long a flex-start node lives, whoever takes one.
    """

    tier: Tier
    first: Tier
    lease_seconds: float
    fallback: Tier | None = None
    price: Price | None = None
    fallback_price: Price | None = None
    why_not: str | None = None

    @property
    def is_priced(self) -> bool:
        has_fallback_price = self.fallback is None or self.fallback_price is not None
        return self.price is not None and has_fallback_price


def weigh(
    assumptions: Assumptions,
    terms: Terms,
    *,
    deadline_seconds: float | None,
    runs: int,
    seed: int,
) -> Option:
    """Simulate a workload on one tier."""
    job, supply = job_on(assumptions, terms.first), supply_of(assumptions, terms)
    if terms.why_not is not None and outlives_lease(assumptions, terms):
        return _without_figures(terms, job, assumptions, terms.why_not)
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
    return tally.option(job, horizon)


def outlives_lease(assumptions: Assumptions, terms: Terms) -> bool:
    """Whether work that cannot resume would be cut off by the end of its flex-start node."""
    if assumptions.is_resumable or Tier.FLEX_START not in (terms.first, terms.fallback):
        return False
    return undisturbed_seconds(assumptions, Tier.FLEX_START) > terms.lease_seconds


def undisturbed_seconds(assumptions: Assumptions, tier: Tier) -> float:
    """From the node to the end of the work, if nothing happens."""
    return assumptions.restart_seconds + job_on(assumptions, tier).undisturbed_seconds


def job_on(assumptions: Assumptions, tier: Tier) -> Job:
    """The job as it would run on a tier: the interval depends on what is lost there."""
    interval = assumptions.interval_seconds(is_spot=tier is Tier.SPOT)
    return Job(
        work_seconds=assumptions.work_seconds,
        interval_seconds=interval,
        save_seconds=assumptions.stall_seconds,
        durable_seconds=assumptions.save_seconds,
        restart_seconds=assumptions.restart_seconds,
    )


def supply_of(assumptions: Assumptions, terms: Terms) -> Supply:
    """How machines of a tier come and go."""
    wait = assumptions.wait_seconds[terms.first]
    fallback = terms.fallback
    lasting = Supply(
        first_wait_seconds=wait,
        wait_seconds=wait,
        patience_seconds=math.inf if fallback is None else PATIENCE_SECONDS,
        fallback_wait_seconds=assumptions.wait_seconds[fallback] if fallback else 0.0,
        fallback_lease_seconds=_lease_seconds(terms, fallback),
        lease_seconds=_lease_seconds(terms, terms.first),
    )
    if terms.first is not Tier.SPOT:
        return lasting
    return replace(
        lasting,
        lifetimes=assumptions.lifetimes,
        announced_share=1 - assumptions.unannounced_share,
        kept_share=assumptions.kept_share,
        leave_seconds=min(assumptions.grace_seconds, assumptions.save_seconds),
        back_off=BackOff() if assumptions.has_back_off else None,
    )


def _lease_seconds(terms: Terms, tier: Tier | None) -> float:
    return terms.lease_seconds if tier is Tier.FLEX_START else math.inf


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
        if self._terms.is_priced:
            self._cost.add(self._amounts(outcomes))

    def _amounts(self, outcomes: Outcomes) -> Floats:
        terms = self._terms
        assert terms.price is not None
        amounts: Floats = outcomes.paid_seconds * (float(terms.price.amount) / HOUR_SECONDS)
        if terms.fallback_price is not None:
            extra = float(terms.fallback_price.amount - terms.price.amount) / HOUR_SECONDS
            amounts = amounts + outcomes.fallback_seconds * extra
        return amounts * self._assumptions.crew_nodes

    def option(self, job: Job, horizon_seconds: float) -> Option:
        paid, fallback, wait, restart, save, redone, leave, interruptions = (
            float(total) / self._runs for total in self._sums
        )
        why_not = self._terms.why_not
        if self._unfinished and why_not is None:
            share = self._unfinished / self._runs
            why_not = (
                f"{share:.1%} of the simulated runs were not done after "
                f"{format_duration(horizon_seconds)}."
            )
        has_saves = self._assumptions.stall_seconds > 0
        return Option(
            tier=self._terms.tier,
            first=self._terms.first,
            fallback=self._terms.fallback,
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
            fallback_share=fallback / paid if self._terms.fallback is not None else None,
            cost_spread=self._over_all(self._cost, self._busy_crews)
            if self._terms.is_priced
            else None,
            finish_spread=self._over_all(self._finish),
        )

    def _spread_of_cost(self, paid_seconds: float, fallback_seconds: float) -> Cost | None:
        price, fallback = self._terms.price, self._terms.fallback_price
        if price is None or not self._terms.is_priced:
            return None
        crews = Decimal(repr(self._busy_crews))
        expected = _hours(paid_seconds) * price.amount
        if fallback is not None:
            expected += _hours(fallback_seconds) * (fallback.amount - price.amount)
        low, middle, high = (Decimal(repr(value)) * crews for value in self._quantiles(self._cost))
        return Cost(
            expected=_cents(expected * self._assumptions.crew_nodes * crews),
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

    def _over_all(self, spread: Spread, times: float = 1.0) -> Spread:
        """How the whole spreads: as `_quantiles` tells it, drawn out."""
        crews = self._assumptions.crews
        if crews == 1:
            return spread
        width = max(spread.deviation / math.sqrt(crews), spread.mean * 1e-9)
        inverse = NormalDist(spread.mean, width).inv_cdf
        values = np.array([inverse((index + 0.5) / _DRAWN) for index in range(_DRAWN)])
        whole = Spread()
        whole.add(np.maximum(values, spread.least) * times)
        return whole

    @property
    def _busy_crews(self) -> float:
        """How many crews are paid for, in the mean over the time of the work."""
        return self._assumptions.crews * self._assumptions.busy_share

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
        first=terms.first,
        fallback=terms.fallback,
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
