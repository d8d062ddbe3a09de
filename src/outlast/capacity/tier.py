"""The hard rules for choosing a tier. Pure; no prices and no simulation.

The plan builds on this: it follows the rule unless the arithmetic, with real prices, contradicts.
"""

from dataclasses import dataclass

from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.vocabulary import Kind, Tier
from outlast.capacity.worktime import start_seconds, work_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class TierChoice:
    """A tier that can be rendered, and why, as a sentence."""

    tier: Tier
    reason: str


def choose_tier_by_rule(workload: WorkloadSpec) -> TierChoice:
    """The tier that the rules choose; a tier that the workload names is kept."""
    if workload.tier is not Tier.AUTO:
        return TierChoice(tier=workload.tier, reason="The workload names this tier.")
    if workload.kind is Kind.SERVING:
        return TierChoice(
            tier=Tier.ON_DEMAND, reason="Requests wait for no node, so servers stay on-demand."
        )
    if not workload.resumable:
        return _unresumable(workload)
    if not workload.interruptible:
        return _uninterruptible(workload)
    if workload.kind in (Kind.SWEEP, Kind.CI, Kind.BATCH_INFERENCE):
        return TierChoice(
            tier=Tier.SPOT, reason=f"An eviction costs a {workload.kind} workload one small piece."
        )
    if workload.deadline is not None:
        return TierChoice(
            tier=Tier.HYBRID,
            reason="There is a deadline and interruptions are tolerated: Spot while there is some, "
            "dearer capacity when there is none.",
        )
    return TierChoice(
        tier=Tier.SPOT, reason="It resumes from its checkpoints, and nothing hurries."
    )


def has_flex_start(workload: WorkloadSpec) -> bool:
    """Whether its machines can be had by flex-start at all."""
    return workload.accelerator is not None or workload.machine_type.startswith("h4d")


def _unresumable(workload: WorkloadSpec) -> TierChoice:
    seconds = work_seconds(workload)
    if not has_flex_start(workload):
        return TierChoice(
            tier=Tier.ON_DEMAND, reason="It cannot resume, so it must not be evicted."
        )
    if seconds is None:
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason="It cannot resume, and may take longer than a flex-start node lives.",
        )
    if start_seconds(workload) + seconds > workload.max_run.total_seconds():
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason="It cannot resume, and takes longer than a flex-start node lives.",
        )
    return TierChoice(
        tier=Tier.FLEX_START,
        reason="It cannot resume, so it must not be evicted, and it fits into one lease.",
    )


def _uninterruptible(workload: WorkloadSpec) -> TierChoice:
    if not has_flex_start(workload):
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason="It must not be preempted, and flex-start has accelerators and h4d machines "
            "only.",
        )
    return TierChoice(
        tier=Tier.FLEX_START,
        reason="It must not be preempted; a flex-start node stays until its lease ends.",
    )
