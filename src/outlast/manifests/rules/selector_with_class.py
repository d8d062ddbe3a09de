"""A Pod asks for a ComputeClass and selects a tier beside it.

Why: the class decides in which order Spot, flex-start and on-demand are tried. A selector for one
of them cuts off the other priorities, and where it contradicts the class GKE rejects the Pod or
makes no node for it.
Instead: leave the tier to the class, and select nothing but the class.
"""

from collections.abc import Iterator

from outlast.manifests.lint.aim import BUILT_IN_CLASSES, TIER_KEYS
from outlast.manifests.lint.changes import Remove
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import CLASS_LABEL, QUEUED_LABEL
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL509", Severity.WARNING)
def selector_with_class(pod: Pod, review: Review) -> Iterator[Fault]:
    selector = pod.strings("spec", "nodeSelector")
    name = selector.get(CLASS_LABEL)
    # The classes that come with Autopilot are made to be combined.
    if name is None or name in BUILT_IN_CLASSES:
        return
    for key in selector:
        if key in TIER_KEYS and key != QUEUED_LABEL:
            yield pod.fault(
                f"The Pod asks for the ComputeClass {name!r}, and selects {key} beside it.",
                at=("spec", "nodeSelector", key),
                of_key=True,
                # Without it, the Pod may run on the other tiers of the class, too.
                fix=pod.fix(
                    "Leave the tier to the class",
                    Remove(("spec", "nodeSelector", key)),
                    is_safe=False,
                ),
            )
