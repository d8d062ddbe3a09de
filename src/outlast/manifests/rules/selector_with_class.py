"""A Pod selects both a ComputeClass and a tier.

Why: the class defines the order in which Spot, flex-start and on-demand are tried. A selector for
one of them excludes the other priorities, and if it contradicts the class, GKE rejects the Pod or
creates no node for it.
Instead: select only the class, and let it choose the tier.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    BUILT_IN_CLASSES,
    CLASS_LABEL,
    QUEUED_LABEL,
    TIER_KEYS,
    Fault,
    Pod,
    Remove,
    Review,
    Severity,
    pod_rule,
)


@pod_rule("OL509", Severity.WARNING)
def selector_with_class(pod: Pod, review: Review) -> Iterator[Fault]:
    selector = pod.strings("spec", "nodeSelector")
    name = selector.get(CLASS_LABEL)
    # The built-in classes of Autopilot can be combined with a selector.
    if name is None or name in BUILT_IN_CLASSES:
        return
    for key in selector:
        if key in TIER_KEYS and key != QUEUED_LABEL:
            yield pod.fault(
                f"The Pod selects the ComputeClass {name!r}, but also a tier with {key}.",
                at=("spec", "nodeSelector", key),
                of_key=True,
                # Without the selector, the Pod may also run on the other tiers of the class.
                fix=pod.fix(
                    "Let the class choose the tier",
                    Remove(("spec", "nodeSelector", key)),
                    is_safe=False,
                ),
            )
