"""Flex-start and Spot are requested at the same time.

Why: a node is either flex-start or Spot. A Pod that selects both fits no node, and the autoscaler
refuses to create one, so the Pod stays Pending indefinitely. A ComputeClass priority with both is
invalid.
Instead: choose one of them. To fall back from one to the other, use a ComputeClass with a priority
for each.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    FLEX_START_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    SPOT_LABEL,
    Fault,
    KubernetesObject,
    Path,
    Pod,
    Review,
    Severity,
    Term,
    object_rule,
)

_SPOT = {SPOT_LABEL: "true", PREEMPTIBLE_LABEL: "true", PROVISIONING_LABEL: "spot"}
_FLEX = {FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"}


@object_rule("OL506", Severity.ERROR)
def flex_with_spot(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    for pod in review.pods_in(manifest):
        terms = pod.demand.alternatives
        if terms and all(_asks(term, _SPOT) and _asks(term, _FLEX) for term in terms):
            yield pod.fault(
                "The Pod selects both flex-start and Spot nodes, but no node is both.",
                at=_place(pod),
                of_key=True,
            )
    if manifest.kind == "ComputeClass":
        for index, priority in manifest.mappings("spec", "priorities"):
            flex = priority.get("flexStart")
            is_flex = isinstance(flex, dict) and flex.get("enabled") is not False
            if is_flex and priority.get("spot") is True:
                yield manifest.fault(
                    "This priority requests both Spot and flex-start.",
                    at=("spec", "priorities", index, "spot"),
                    hint="Split it into two priorities, and put the one to try first on top.",
                )


def _asks(term: Term, nodes: dict[str, str]) -> bool:
    """Whether only these nodes can match a term."""
    return any(
        requirement.key in nodes
        and (
            (requirement.operator == "Exists" and requirement.key != PROVISIONING_LABEL)
            or (requirement.operator == "In" and requirement.values == (nodes[requirement.key],))
        )
        for requirement in term
    )


def _place(pod: Pod) -> Path:
    """The flex-start selector, or the affinity if it is used instead."""
    selector = pod.mapping("spec", "nodeSelector")
    key = next((key for key in (FLEX_START_LABEL, *_SPOT) if key in selector), None)
    return ("spec", "nodeSelector", key) if key else ("spec", "affinity", "nodeAffinity")
