"""A flex-start Pod carries a toleration for Spot nodes.

Why: the selector lets the Pod run on flex-start nodes only, so the toleration opens a door that it
can never take. Readers are led to think that the Pod may be reclaimed, and should the selector be
dropped one day, it will be.
Instead: remove the toleration. For Spot with flex-start as the fallback, use a ComputeClass.
"""

from collections.abc import Iterator

from outlast.manifests.lint.aim import tolerated_tier
from outlast.manifests.lint.changes import Remove
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import LABEL_PREFIX, Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL502", Severity.WARNING)
def spot_toleration_on_flex(pod: Pod, review: Review) -> Iterator[Fault]:
    aim = review.aim(pod)
    if not aim.is_only(Tier.FLEX_START) or not aim.is_pinned:
        return
    for toleration in pod.tolerations:
        if tolerated_tier(toleration, review.pools) is not Tier.SPOT:
            continue
        last = len(pod.listed("spec", "tolerations")) == 1
        path = ("spec", "tolerations") if last else ("spec", "tolerations", toleration.index)
        yield pod.fault(
            f"The Pod runs on flex-start nodes only; it tolerates {str(toleration)!r} of Spot "
            "nodes for no reason.",
            at=("spec", "tolerations", toleration.index, "key"),
            # A taint of our own may be on flex-start nodes that no file here tells of.
            fix=pod.fix(
                "Remove the toleration",
                Remove(path),
                is_safe=toleration.key.startswith(LABEL_PREFIX),
            ),
        )
