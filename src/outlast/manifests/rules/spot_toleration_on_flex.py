"""A flex-start Pod has a toleration for Spot nodes.

Why: the selector restricts the Pod to flex-start nodes, so the toleration has no effect. It
misleads readers into thinking that the Pod can be reclaimed, and if the selector is removed later,
it can be.
Instead: remove the toleration. To use Spot with flex-start as the fallback, use a ComputeClass.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    LABEL_PREFIX,
    Fault,
    NodeTier,
    Pod,
    Remove,
    Review,
    Severity,
    pod_rule,
    tolerated_tier,
)


@pod_rule("OL502", Severity.WARNING)
def spot_toleration_on_flex(pod: Pod, review: Review) -> Iterator[Fault]:
    placement = review.placement(pod)
    if not placement.is_only(NodeTier.FLEX_START) or not placement.is_pinned:
        return
    for toleration in pod.tolerations:
        if tolerated_tier(toleration, review.pools) is not NodeTier.SPOT:
            continue
        last = len(pod.listed("spec", "tolerations")) == 1
        path = ("spec", "tolerations") if last else ("spec", "tolerations", toleration.index)
        yield pod.fault(
            f"The Pod runs only on flex-start nodes, so its toleration {str(toleration)!r} for "
            "Spot nodes has no effect.",
            at=("spec", "tolerations", toleration.index, "key"),
            # A custom taint may also be on flex-start nodes that these files do not show.
            fix=pod.fix(
                "Remove the toleration",
                Remove(path),
                is_safe=toleration.key.startswith(LABEL_PREFIX),
            ),
        )
