"""Rules for choosing a tier without prices or simulation. Pure.

A plan starts from the rule, and deviates from it if the simulation with real prices disagrees.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast.capacity.google_cloud import offers_flex_start
from outlast.capacity.vocabulary import Tier, WorkloadKind

if TYPE_CHECKING:
    from outlast.capacity.workload.spec import WorkloadSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class TierChoice:
    """A tier, and the reason for it as a sentence."""

    tier: Tier
    reason: str


def choose_tier_by_rule(workload: "WorkloadSpec") -> TierChoice:
    """The tier that the rules choose. A tier set in the workload file is kept."""
    if workload.tier is not Tier.AUTO:
        return TierChoice(tier=workload.tier, reason="The workload file sets this tier.")
    if workload.kind is WorkloadKind.SERVING:
        return TierChoice(
            tier=Tier.ON_DEMAND, reason="Requests cannot wait for a node, so servers run on demand."
        )
    if not workload.resumable:
        return _unresumable(workload)
    if not workload.interruptible:
        return _uninterruptible(workload)
    if workload.kind in (WorkloadKind.SWEEP, WorkloadKind.CI, WorkloadKind.BATCH_INFERENCE):
        kind = "CI" if workload.kind is WorkloadKind.CI else workload.kind
        return TierChoice(
            tier=Tier.SPOT,
            reason=f"In a {kind} workload, an eviction loses only the piece of work in progress.",
        )
    if workload.deadline is not None:
        return TierChoice(
            tier=Tier.HYBRID,
            reason="It has a deadline and tolerates interruptions: use Spot while it is available, "
            "and more expensive capacity otherwise.",
        )
    return TierChoice(tier=Tier.SPOT, reason="It can resume from checkpoints and has no deadline.")


def _unresumable(workload: "WorkloadSpec") -> TierChoice:
    seconds, cannot_resume = workload.work_seconds, _cannot_resume(workload)
    if not offers_flex_start(workload.machine_type):
        return TierChoice(
            tier=Tier.ON_DEMAND, reason=f"{cannot_resume}, so it must not be evicted."
        )
    if seconds is None:
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason=f"{cannot_resume}, and may run longer than a flex-start node lives.",
        )
    if workload.start_seconds + seconds > workload.max_run.total_seconds():
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason=f"{cannot_resume}, and runs longer than a flex-start node lives.",
        )
    return TierChoice(
        tier=Tier.FLEX_START,
        reason=f"{cannot_resume}, so it must not be evicted, and it fits within the lifetime of "
        "one flex-start node.",
    )


def _cannot_resume(workload: "WorkloadSpec") -> str:
    """The start of a sentence, with what it would need unless the workload file denies it."""
    if "resumable" in workload.model_fields_set:
        return "It cannot resume"
    is_training = workload.kind is WorkloadKind.TRAINING
    return f"Without a {'checkpoint' if is_training else 'queue or a checkpoint'}, it cannot resume"


def _uninterruptible(workload: "WorkloadSpec") -> TierChoice:
    if not offers_flex_start(workload.machine_type):
        return TierChoice(
            tier=Tier.ON_DEMAND,
            reason="It must not be preempted, and flex-start is not known to offer its machine "
            "type.",
        )
    return TierChoice(
        tier=Tier.FLEX_START,
        reason="It must not be preempted, and a flex-start node stays for its full lifetime.",
    )
