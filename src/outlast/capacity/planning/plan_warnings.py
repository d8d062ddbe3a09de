"""Warnings about a planned workload, with the numbers they are based on. Pure."""

import re
from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.capacity.google_cloud import covers, region_of
from outlast.capacity.planning.assumptions import Assumptions, PlanError
from outlast.capacity.planning.evaluation import uninterrupted_seconds
from outlast.capacity.planning.frontier import ValueOfTime, expensive_delay
from outlast.capacity.planning.options import CHANCE_MIN, TierOption
from outlast.capacity.vocabulary import ClusterMode, Tier, WorkloadKind
from outlast.capacity.workload.cluster import CRITICAL_SECONDS, LONG_WINDOW
from outlast.capacity.workload.spec import WorkloadSpec

ALLOCATION_MAX = 64
"""Requests for more accelerators at once are rarely fulfilled."""

_DEFAULT_VALUE = ValueOfTime()
_FITS_SHARE_MIN = 0.95
_LEASE_SHARE_LEFT = 0.2
_REGION = re.compile(
    r"(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-[a-z]+\d{1,2}", re.ASCII
)
_PENDING_MIN_SECONDS = 900.0


def plan_warnings(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    chosen: TierOption,
    options: Sequence[TierOption],
    *,
    bucket_location: str | None = None,
    value: ValueOfTime = _DEFAULT_VALUE,
) -> Iterator[str]:
    """All warnings for a workload on the chosen tier.

    Raises `PlanError` if `bucket_location` is not a location of buckets.
    """
    yield from about_deadline(chosen, options)
    if (workload.deadline is None or value.is_given) and workload.kind is not WorkloadKind.SERVING:
        delay = expensive_delay(chosen, options, value)
        yield from [delay] if delay is not None else []
    yield from _about_quota(workload, chosen)
    yield from _about_allocation(workload, chosen.tier)
    yield from _about_grace(workload, assumptions, chosen)
    yield from _about_interval(workload, chosen)
    yield from _about_bucket(workload, bucket_location)
    yield from _about_lease(workload, assumptions, chosen.tier)
    yield from _about_prices(workload, chosen, options)
    yield from _about_pending(workload, assumptions, chosen)


def about_deadline(chosen: TierOption, options: Sequence[TierOption]) -> Iterator[str]:
    """Warn if the chosen tier often misses the deadline, and say whether another would not."""
    if chosen.chance is None or chosen.chance >= CHANCE_MIN:
        return
    timed = [option for option in options if option.is_possible and option.chance is not None]
    best = max(timed, key=lambda option: option.chance or 0.0, default=chosen)
    if (best.chance or 0.0) < CHANCE_MIN:
        yield (
            f"No tier meets the deadline reliably. The best is {best.tier}, which meets it in "
            f"{best.chance:.1%} of simulated runs."
        )
    else:
        yield (
            f"{chosen.tier.capitalize()} meets the deadline in only {chosen.chance:.1%} of "
            f"simulated runs; {best.tier} meets it in {best.chance:.1%}."
        )


def _about_quota(workload: WorkloadSpec, chosen: TierOption) -> Iterator[str]:
    quota, wanted = workload.cluster.quota, workload.accelerators_total
    tiers = workload.hybrid.order if chosen.tier is Tier.HYBRID else (chosen.tier,)
    limits = []
    if Tier.SPOT in tiers or Tier.FLEX_START in tiers:
        limits.append(("preemptible", quota.preemptible))
    if Tier.ON_DEMAND in tiers:
        limits.append(("on-demand", quota.on_demand))
    per_node = workload.accelerator.count if workload.accelerator else 0
    for name, allowed in limits:
        if allowed is None or wanted <= allowed:
            continue
        chunk = allowed // per_node * per_node
        advice = f", or run it in groups of at most {chunk}" if chunk else ""
        things = "accelerator" if wanted == 1 else "accelerators"
        yield (
            f"It requests {wanted} {things} at once, but the {name} quota is {allowed}. "
            f"Request more quota{advice}."
        )


def _about_allocation(workload: WorkloadSpec, tier: Tier) -> Iterator[str]:
    wanted = workload.accelerators_total
    if wanted <= ALLOCATION_MAX or tier is Tier.ON_DEMAND:
        return
    if workload.kind is WorkloadKind.TRAINING:
        advice = "Fewer nodes or a reservation would start sooner."
    else:
        parts = -(-wanted // ALLOCATION_MAX)
        advice = f"Split it into {parts} Jobs with at most {ALLOCATION_MAX} accelerators each."
    yield f"{wanted} accelerators are more than is usually available at once. {advice}"


def _about_grace(
    workload: WorkloadSpec, assumptions: Assumptions, chosen: TierOption
) -> Iterator[str]:
    saves = assumptions.is_resumable and assumptions.piece_seconds is None
    share = assumptions.final_fits_share
    if chosen.primary is not Tier.SPOT or not saves or share >= _FITS_SHARE_MIN:
        return
    cluster = workload.cluster
    can_stretch = cluster.mode is ClusterMode.STANDARD and cluster.shutdown_window != LONG_WINDOW
    long_seconds = LONG_WINDOW.total_seconds() - CRITICAL_SECONDS
    word, advice = "tight" if share >= 0.5 else "too short", ""
    if can_stretch and assumptions.save_seconds < long_seconds:
        advice = f" With cluster.shutdown_window: 120s, the grace period is {long_seconds:.0f} s."
    if share < 0.005:
        effect = "Every eviction then loses the work since the last save."
    else:
        effect = f"In about {1 - share:.0%} of cases, the work since the last save is lost."
    yield (
        f"The grace period on Spot, {assumptions.grace_seconds:.0f} s, is {word} for a final save, "
        f"which takes about {format_duration(assumptions.save_seconds)}. {effect}{advice}"
    )


def _about_interval(workload: WorkloadSpec, chosen: TierOption) -> Iterator[str]:
    steps = workload.checkpoint.interval if workload.checkpoint else None
    if isinstance(steps, int) and chosen.save_every is not None:
        yield (
            f"checkpoint.interval is {steps:,} steps, but the time per step is unknown. The plan "
            f"assumes {format_duration(chosen.save_every.total_seconds())} of work between saves. "
            "To plan with the real interval, set a duration such as 10m."
        )


def _about_bucket(workload: WorkloadSpec, location: str | None) -> Iterator[str]:
    scheme, _, rest = (workload.checkpoint.url if workload.checkpoint else "").partition("://")
    if scheme != "gs":
        return
    region, bucket = region_of(workload.cluster.location), rest.partition("/")[0]
    if location is None:
        named = _REGION.search(bucket)
        if named is not None and named[0] != region:
            yield (
                f"By its name, the bucket {bucket!r} is in {named[0]}, but the nodes are in "
                f"{region}: saves would be slower and incur charges for traffic between regions."
            )
        return
    is_near = covers(location.lower(), region)
    if is_near is None:
        raise PlanError(
            f"Unknown bucket location {location!r}.",
            hint="Use a region such as us-central1, a dual-region such as nam4, or us, eu or asia.",
        )
    if not is_near:
        yield (
            f"The bucket {bucket!r} is in {location.lower()}, but the nodes are in {region}: saves "
            "would be slower and incur charges for traffic between regions."
        )


def _about_lease(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> Iterator[str]:
    lease_seconds = workload.max_run.total_seconds()
    over_seconds = uninterrupted_seconds(assumptions, Tier.FLEX_START) - lease_seconds
    if tier is Tier.FLEX_START and over_seconds > 0:
        yield (
            f"Including startup and saves, the work takes {format_duration(over_seconds)} longer "
            f"than the maximum lifetime of a flex-start node, {format_duration(lease_seconds)}, so "
            "it must resume on another node."
        )
    is_near = over_seconds > -_LEASE_SHARE_LEFT * lease_seconds
    if tier is Tier.FLEX_START and workload.cluster.kueue is not None and is_near:
        yield (
            "When the nodes of a queued request reach their maximum lifetime, Kueue deactivates "
            "the workload, and it stays suspended until spec.active of its Workload is set to "
            "true. Split the work or raise max_run."
        )


def _about_prices(
    workload: WorkloadSpec, chosen: TierOption, options: Sequence[TierOption]
) -> Iterator[str]:
    if chosen.cost is None and chosen.price is None:
        is_only_one = any(option.price is not None for option in options)
        what, whose = (f"{chosen.primary} price", "its cost") if is_only_one else ("price", "costs")
        yield (
            f"No {what} is known for {workload.machine_type}, so {whose} cannot be computed. "
            "Supply prices with --prices."
        )
    elif chosen.is_estimate:
        yield f"The {chosen.tier} price is an estimate. Supply the actual price with --prices."


def _about_pending(
    workload: WorkloadSpec, assumptions: Assumptions, chosen: TierOption
) -> Iterator[str]:
    if workload.kind is WorkloadKind.SERVING:
        return
    usual_seconds = max(_PENDING_MIN_SECONDS, 3 * assumptions.wait_seconds[chosen.primary])
    given = workload.alerts.pending
    seconds = given.total_seconds() if given is not None else usual_seconds
    yield f"Set up an alert for Pods that are Pending for more than {format_duration(seconds)}."
