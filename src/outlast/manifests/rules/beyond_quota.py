"""More accelerators are asked for than the quota allows.

Why: Compute Engine refuses nodes beyond the quota of the project, and the Pods stay Pending. Spot
and flex-start draw on the preemptible quota, which is another one than that for on-demand.
Instead: run fewer Pods at once, or ask for more quota and then write it into the workload file.
"""

from collections.abc import Iterator

from outlast.manifests.lint.counting import Count, pods_at_once
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.view import Fault, Manifest


@object_rule("OL604", Severity.WARNING)
def beyond_quota(manifest: Manifest, review: Review) -> Iterator[Fault]:
    quota = review.capacity.quota
    asked: dict[frozenset[Tier], list[tuple[int, Count]]] = {}
    for pod in review.pods_in(manifest):
        count, tiers = pods_at_once(pod), review.aim(pod).tiers
        if count is not None and tiers and pod.accelerators:
            asked.setdefault(tiers, []).append((count.pods * pod.accelerators, count))
    for tiers, parts in asked.items():
        # Spot and flex-start share one quota, on-demand has its own.
        kinds = {tier is Tier.ON_DEMAND: quota.of(tier) for tier in tiers}
        limits = [limit for limit in kinds.values() if limit is not None]
        total = sum(accelerators for accelerators, _ in parts)
        if len(limits) == len(kinds) and total > sum(limits):
            _, largest = max(parts, key=lambda part: part[0])
            word = " or ".join("on-demand" if one else "preemptible" for one in sorted(kinds))
            yield manifest.fault(
                f"{total} accelerators are to be held at once; the {word} quota is {sum(limits)}.",
                at=largest.at,
            )
