"""The workload requests more accelerators than the quota allows.

Why: Compute Engine creates no nodes beyond the project's quota, so the remaining Pods stay Pending.
Spot and flex-start VMs use the preemptible quota, which is separate from the on-demand quota.
Instead: run fewer Pods at once, or request a higher quota and then update it in the workload file.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    NodeTier,
    PodCount,
    Review,
    Severity,
    object_rule,
    pods_at_once,
)


@object_rule("OL604", Severity.WARNING)
def exceeds_quota(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    quota = review.capacity.quota
    asked: dict[frozenset[NodeTier], list[tuple[int, PodCount]]] = {}
    for pod in review.pods_in(manifest):
        count, tiers = pods_at_once(pod), review.placement(pod).tiers
        if count is not None and tiers and pod.accelerators:
            asked.setdefault(tiers, []).append((count.pods * pod.accelerators, count))
    for tiers, parts in asked.items():
        # Spot and flex-start share one quota; on-demand has its own.
        kinds = {tier is NodeTier.ON_DEMAND: quota.of(tier) for tier in tiers}
        limits = [limit for limit in kinds.values() if limit is not None]
        total = sum(accelerators for accelerators, _ in parts)
        if len(limits) == len(kinds) and total > sum(limits):
            _, largest = max(parts, key=lambda part: part[0])
            word = " or ".join("on-demand" if one else "preemptible" for one in sorted(kinds))
            yield manifest.fault(
                f"{total} accelerators are requested at once, but the {word} quota is "
                f"{sum(limits)}.",
                at=largest.at,
            )
