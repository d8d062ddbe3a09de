"""When a run that has already started is going to finish, by simulation of the rest of its work.

Pure, and reproducible by its seed: the same model as `outlast plan`, with what the run itself has
measured, and without the wait for the first node if it has one.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from outlast.capacity.planning.assumptions import Assumptions, assume
from outlast.capacity.planning.evaluation import HORIZON_FACTOR, job_on, supply_of
from outlast.capacity.planning.learn import LearnedValues
from outlast.capacity.planning.options import TierTerms
from outlast.capacity.planning.plan import tier_terms
from outlast.capacity.pricing.prices import built_in_prices
from outlast.capacity.simulation.model import DAY_SECONDS, RestartBackoff
from outlast.capacity.simulation.simulate import QuantileSketch, simulate
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.sections import Work
from outlast.capacity.workload.spec import WorkloadSpec

RUNS = 2000
INTERRUPTIONS_MIN = 3
"""With fewer interruptions, how often they come is not known well from the run itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemainingWork:
    """What is left of a run. `interruptions` are those so far, `is_running` if it has a node."""

    seconds: float
    interruptions: int
    is_running: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishEstimate:
    """When it finishes, from now. `chance` is that of the deadline, None without one."""

    p10: timedelta
    p50: timedelta
    p90: timedelta
    chance: float | None
    runs: int


def estimate_finish(
    workload: WorkloadSpec,
    tier: Tier,
    remaining: RemainingWork,
    *,
    learned: LearnedValues | None = None,
    deadline_seconds: float | None = None,
    runs: int = RUNS,
    seed: int = 0,
) -> FinishEstimate | None:
    """Simulate the rest of a run on its tier; None if runs on this tier would never finish."""
    current = _with_measured(workload, remaining, learned)
    assumptions = assume(current)
    terms = _terms(current, assumptions, tier)
    job, supply = job_on(assumptions, terms.primary), supply_of(assumptions, terms)
    if remaining.is_running:
        supply = replace(supply, first_wait_seconds=0.0)
    if supply.backoff is not None:
        # The pause of a Job has doubled with every earlier interruption.
        first = RestartBackoff().seconds(remaining.interruptions + 1)
        supply = replace(supply, backoff=RestartBackoff(first_seconds=first))
    horizon = HORIZON_FACTOR * job.work_seconds + 30 * DAY_SECONDS
    finish, in_time, unfinished, count = QuantileSketch(), 0, 0, 0
    for outcomes in simulate(job, supply, runs=runs, seed=seed, horizon_seconds=horizon):
        elapsed = outcomes.elapsed_seconds
        if remaining.is_running:
            # The program has already started.
            elapsed = (elapsed - job.restart_seconds).clip(min=0.0)
        finish.add(elapsed)
        count += elapsed.size
        unfinished += int((~outcomes.finished).sum())
        if deadline_seconds is not None:
            in_time += int((outcomes.finished & (elapsed <= deadline_seconds)).sum())
    if unfinished > count * 0.05:
        return None
    p10, p50, p90 = (timedelta(seconds=round(finish.quantile(q))) for q in (0.1, 0.5, 0.9))
    chance = None if deadline_seconds is None else in_time / count
    return FinishEstimate(p10=p10, p50=p50, p90=p90, chance=chance, runs=count)


def _with_measured(
    workload: WorkloadSpec, remaining: RemainingWork, learned: LearnedValues | None
) -> WorkloadSpec:
    hours = max(remaining.seconds, 1.0) / 3600
    changes: dict[str, object] = {"work": Work(hours=hours)}
    if learned is not None:
        names = ["save", "stall", "restart", "grace", "waiting"]
        if remaining.interruptions >= INTERRUPTIONS_MIN:
            names += ["between_interruptions", "unannounced"]
        found = {name: getattr(learned, name) for name in names}
        known = {name: value for name, value in found.items() if value is not None}
        changes["measured"] = workload.measured.model_copy(update=known)
    return workload.model_copy(update=changes)


def _terms(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> TierTerms:
    every = tier_terms(workload, assumptions, built_in_prices())
    return next(terms for terms in every if terms.tier is tier)
