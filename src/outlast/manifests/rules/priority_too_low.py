"""A priority that the cluster autoscaler ignores.

Why: on a Standard cluster the autoscaler takes Pods with a priority below -10 for filler: they may
use what room there is, and never make it add a node. Work that is meant for Spot nodes waits for
ever while the pool stands at zero.
Instead: use -10 or more; -10 is still below everything that does not ask for less.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.view import Fault, Manifest

PRIORITY_MIN = -10


@object_rule("OL510", Severity.WARNING)
def priority_too_low(manifest: Manifest, review: Review) -> Iterator[Fault]:
    value = manifest.integer("value")
    if manifest.kind != "PriorityClass" or manifest.group != "scheduling.k8s.io" or value is None:
        return
    if value < PRIORITY_MIN and not review.capacity.is_autopilot:
        yield manifest.fault(
            f"The priority {value} is below {PRIORITY_MIN}: the autoscaler adds no node for Pods "
            "of this class.",
            at=("value",),
            # The class is immutable, and Pods that only fill gaps may be meant.
            fix=manifest.fix(
                f"Raise it to {PRIORITY_MIN}", Put(("value",), PRIORITY_MIN), is_safe=False
            ),
        )
