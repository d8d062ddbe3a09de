"""What to warn of before a workload is submitted. Pure; a warning tells its numbers."""

import re
from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.capacity.assumptions import Assumptions, PlanError
from outlast.capacity.cluster import CRITICAL_SECONDS, LONG_WINDOW
from outlast.capacity.options import CHANCE_MIN, Option, undisturbed_seconds
from outlast.capacity.price import region_of
from outlast.capacity.regions import covers
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.vocabulary import ClusterMode, Kind, Tier

ALLOCATION_MAX = 64
"""More accelerators than this at once are seldom handed out in one piece."""

_FITS_SHARE_MIN = 0.95
_REGION = re.compile(
    r"(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-[a-z]+\d{1,2}", re.ASCII
)
_PENDING_MIN_SECONDS = 900.0


def cautions(
    workload: WorkloadSpec,
    assumptions: Assumptions,
    chosen: Option,
    options: Sequence[Option],
    *,
    bucket_location: str | None = None,
) -> Iterator[str]:
    """All warnings for a workload on the chosen tier, of those that were weighed.

    Raises `PlanError` for a location of the bucket that is none.
    """
    yield from about_deadline(chosen, options)
    yield from _about_quota(workload, chosen)
    yield from _about_allocation(workload, chosen.tier)
    yield from _about_grace(workload, assumptions, chosen)
    yield from _about_interval(workload, chosen)
    yield from _about_bucket(workload, bucket_location)
    yield from _about_lease(workload, assumptions, chosen.tier)
    yield from _about_prices(workload, chosen, options)
    yield from _about_pending(workload, assumptions, chosen)


def about_deadline(chosen: Option, options: Sequence[Option]) -> Iterator[str]:
    """That the chosen tier often misses the deadline, and whether another would not."""
    if chosen.chance is None or chosen.chance >= CHANCE_MIN:
        return
    timed = [option for option in options if option.is_possible and option.chance is not None]
    best = max(timed, key=lambda option: option.chance or 0.0, default=chosen)
    if (best.chance or 0.0) < CHANCE_MIN:
        yield (
            f"No tier meets the deadline surely. The surest is {best.tier}, in time in "
            f"{best.chance:.1%} of all runs."
        )
    else:
        yield (
            f"With {chosen.tier} the deadline is met in only {chosen.chance:.1%} of all runs, with "
            f"{best.tier} in {best.chance:.1%}."
        )


def _about_quota(workload: WorkloadSpec, chosen: Option) -> Iterator[str]:
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
        advice = f", or run it in chunks of {chunk} or fewer" if chunk else ""
        yield (
            f"It asks for {wanted} accelerators at once, and the {name} quota is {allowed}. "
            f"Ask for more quota{advice}."
        )


def _about_allocation(workload: WorkloadSpec, tier: Tier) -> Iterator[str]:
    wanted = workload.accelerators_total
    if wanted <= ALLOCATION_MAX or tier is Tier.ON_DEMAND:
        return
    if workload.kind is Kind.TRAINING:
        advice = "Fewer nodes, or a reservation, would start sooner."
    else:
        parts = -(-wanted // ALLOCATION_MAX)
        advice = f"Run it as {parts} Jobs of at most {ALLOCATION_MAX} accelerators each."
    yield f"{wanted} accelerators are more than is usually handed out in one piece. {advice}"


def _about_grace(workload: WorkloadSpec, assumptions: Assumptions, chosen: Option) -> Iterator[str]:
    saves = assumptions.is_resumable and assumptions.piece_seconds is None
    share = assumptions.final_fits_share
    if chosen.first is not Tier.SPOT or not saves or share >= _FITS_SHARE_MIN:
        return
    cluster = workload.cluster
    can_stretch = cluster.mode is ClusterMode.STANDARD and cluster.shutdown_window != LONG_WINDOW
    long_seconds = LONG_WINDOW.total_seconds() - CRITICAL_SECONDS
    word, advice = "tight" if share >= 0.5 else "too short", ""
    if can_stretch and assumptions.save_seconds < long_seconds:
        advice = f" cluster.shutdown_window: 120s gives {long_seconds:.0f} s."
    yield (
        f"The grace period is {word} for a final save: "
        f"it takes about {format_duration(assumptions.save_seconds)}, and "
        f"{assumptions.grace_seconds:.0f} s are given when a Spot node is reclaimed. It fits in "
        f"about {share:.0%} of all cases; else the work since the last save is lost.{advice}"
    )


def _about_interval(workload: WorkloadSpec, chosen: Option) -> Iterator[str]:
    steps = workload.checkpoint.interval if workload.checkpoint else None
    if isinstance(steps, int) and chosen.save_every is not None:
        yield (
            f"checkpoint.interval is {steps:,} steps, and how long a step takes is not known here: "
            f"{format_duration(chosen.save_every.total_seconds())} of work between two saves are "
            "reckoned with. A duration such as 10m would be kept."
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
                f"The bucket {bucket!r} is, by its name, in {named[0]}, and the nodes are in "
                f"{region}: saves would be slower, and traffic between regions is paid for."
            )
        return
    is_near = covers(location.lower(), region)
    if is_near is None:
        raise PlanError(
            f"The location of the bucket is {location!r}, which no bucket has.",
            hint="Name a region such as us-central1, a pair such as nam4, or us, eu or asia.",
        )
    if not is_near:
        yield (
            f"The bucket {bucket!r} is in {location.lower()}, and the nodes are in {region}: saves "
            "would be slower, and traffic between regions is paid for."
        )


def _about_lease(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> Iterator[str]:
    lease_seconds = workload.max_run.total_seconds()
    over_seconds = undisturbed_seconds(assumptions, Tier.FLEX_START) - lease_seconds
    if tier is Tier.FLEX_START and over_seconds > 0:
        yield (
            f"With its start and its saves the work takes {format_duration(over_seconds)} longer "
            f"than a flex-start node lives, {format_duration(lease_seconds)}: it must resume on "
            "the next one."
        )


def _about_prices(
    workload: WorkloadSpec, chosen: Option, options: Sequence[Option]
) -> Iterator[str]:
    if chosen.cost is None and chosen.price is None:
        is_only_one = any(option.price is not None for option in options)
        what, whose = (f"{chosen.first} price", "its cost") if is_only_one else ("price", "costs")
        yield (
            f"No {what} is known for {workload.machine_type}, so nothing is said of {whose}. "
            "Give one with --prices."
        )
    elif chosen.is_estimate:
        yield f"The {chosen.tier} price is an estimate. Put in the real one with --prices."


def _about_pending(
    workload: WorkloadSpec, assumptions: Assumptions, chosen: Option
) -> Iterator[str]:
    if workload.kind is Kind.SERVING:
        return
    usual_seconds = max(_PENDING_MIN_SECONDS, 3 * assumptions.wait_seconds[chosen.first])
    given = workload.alerts.pending
    seconds = given.total_seconds() if given is not None else usual_seconds
    yield f"Alert somebody when a Pod is Pending for longer than {format_duration(seconds)}."
