"""The priority is so low that the cluster autoscaler ignores the Pods.

Why: on a Standard cluster the autoscaler treats Pods with a priority below -10 as filler: they may
use spare capacity, but never cause a node to be added. Work for Spot nodes stays Pending
indefinitely while the pool has no nodes.
Instead: use -10 or higher. A priority of -10 is still lower than the default of 0.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, KubernetesObject, Put, Review, Severity, object_rule

PRIORITY_MIN = -10


@object_rule("OL510", Severity.WARNING)
def priority_too_low(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    value = manifest.integer("value")
    if manifest.kind != "PriorityClass" or manifest.group != "scheduling.k8s.io" or value is None:
        return
    if value < PRIORITY_MIN and not review.capacity.is_autopilot:
        yield manifest.fault(
            f"The priority {value} is below {PRIORITY_MIN}, so the autoscaler adds no nodes for "
            "Pods of this class.",
            at=("value",),
            # The class is immutable, and may be intended for filler Pods.
            fix=manifest.fix(
                f"Raise it to {PRIORITY_MIN}", Put(("value",), PRIORITY_MIN), is_safe=False
            ),
        )
