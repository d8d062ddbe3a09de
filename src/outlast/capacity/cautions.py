"""What to warn of before a workload is submitted. Pure; a warning tells its numbers."""

import re
from collections.abc import Iterator

from outlast._base.durations import format_duration
from outlast.capacity.assumptions import Assumptions
from outlast.capacity.cluster import CRITICAL_SECONDS, LONG_WINDOW
from outlast.capacity.options import Option
from outlast.capacity.price import region_of
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
    *,
    bucket_location: str | None = None,
) -> Iterator[str]:
    """All warnings for a workload on the chosen tier."""
    yield from _about_quota(workload, chosen.tier)
    yield from _about_allocation(workload, chosen.tier)
    yield from _about_grace(workload, assumptions, chosen.tier)
    yield from _about_bucket(workload, bucket_location)
    yield from _about_lease(workload, assumptions, chosen.tier)
    yield from _about_prices(workload, chosen)
    yield from _about_pending(workload, assumptions, chosen.tier)


def _about_quota(workload: WorkloadSpec, tier: Tier) -> Iterator[str]:
    quota, wanted = workload.cluster.quota, workload.accelerators_total
    is_on_demand = tier is Tier.ON_DEMAND
    allowed = quota.on_demand if is_on_demand else quota.preemptible
    if allowed is not None and wanted > allowed:
        name = "on-demand" if is_on_demand else "preemptible"
        yield (
            f"It asks for {wanted} accelerators at once, and the {name} quota is {allowed}. "
            f"Ask for more quota, or run it in chunks of {allowed or 1} or fewer."
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


def _about_grace(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> Iterator[str]:
    saves = assumptions.is_resumable and assumptions.piece_seconds is None
    if tier not in (Tier.SPOT, Tier.HYBRID) or not saves:
        return
    if assumptions.final_fits_share >= _FITS_SHARE_MIN:
        return
    cluster = workload.cluster
    can_stretch = cluster.mode is ClusterMode.STANDARD and cluster.shutdown_window != LONG_WINDOW
    long_seconds = LONG_WINDOW.total_seconds() - CRITICAL_SECONDS
    advice = ""
    if can_stretch and assumptions.save_seconds < long_seconds:
        advice = f" cluster.shutdown_window: 120s gives {long_seconds:.0f} s."
    yield (
        f"The grace period is too short for a final save: it takes about "
        f"{format_duration(assumptions.save_seconds)}, and {assumptions.grace_seconds:.0f} s are "
        f"given when a Spot node is reclaimed. Work since the last save is lost then.{advice}"
    )


def _about_bucket(workload: WorkloadSpec, location: str | None) -> Iterator[str]:
    checkpoint = workload.checkpoint
    if checkpoint is None:
        return
    region = region_of(workload.cluster.location)
    bucket = checkpoint.url.partition("://")[2].partition("/")[0]
    if location is None:
        named = _REGION.search(bucket)
        location = named[0] if named else None
        if location is not None and region_of(location) != region:
            yield (
                f"The bucket {bucket!r} is, by its name, in {location}, and the nodes are in "
                f"{region}: saves would be slower, and traffic between regions is paid for."
            )
    elif location.lower() not in (region, *_around(region)):
        yield (
            f"The bucket {bucket!r} is in {location.lower()}, and the nodes are in {region}: saves "
            "would be slower, and traffic between regions is paid for."
        )


def _around(region: str) -> tuple[str, ...]:
    """The multi-regions that a region belongs to."""
    return {"us": ("us",), "europe": ("eu",), "asia": ("asia",)}.get(region.partition("-")[0], ())


def _about_lease(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> Iterator[str]:
    lease_seconds = workload.max_run.total_seconds()
    if tier is Tier.FLEX_START and assumptions.work_seconds > lease_seconds:
        yield (
            f"The work takes {format_duration(assumptions.work_seconds)}, and a flex-start node "
            f"lives {format_duration(lease_seconds)}: it must resume on the next one."
        )


def _about_prices(workload: WorkloadSpec, chosen: Option) -> Iterator[str]:
    if chosen.price is None:
        yield (
            f"No price is known for {workload.machine_type}, so nothing is said of costs. "
            "Give one with --prices."
        )
    elif chosen.is_estimate:
        yield f"The {chosen.tier} price is an estimate. Put in the real one with --prices."


def _about_pending(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> Iterator[str]:
    if workload.kind is Kind.SERVING:
        return
    source = Tier.SPOT if tier is Tier.HYBRID else tier
    usual_seconds = max(_PENDING_MIN_SECONDS, 3 * assumptions.wait_seconds[source])
    given = workload.alerts.pending
    seconds = given.total_seconds() if given is not None else usual_seconds
    yield f"Alert somebody when a Pod is Pending for longer than {format_duration(seconds)}."
