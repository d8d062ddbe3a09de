"""Flex-start and Spot are asked for at the same time.

Why: a node is one or the other. A Pod that selects both fits no node, and the autoscaler refuses to
make one; a ComputeClass priority with both is not valid. The Pod waits for ever.
Instead: choose one of them. For one after the other, use a ComputeClass with a priority for each.
"""

from collections.abc import Iterator

from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import (
    FLEX_START_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.scheduling import Term
from outlast.manifests.lint.view import Fault, Manifest

_SPOT = {SPOT_LABEL: "true", PREEMPTIBLE_LABEL: "true", PROVISIONING_LABEL: "spot"}
_FLEX = {FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"}


@object_rule("OL506", Severity.ERROR)
def flex_with_spot(manifest: Manifest, review: Review) -> Iterator[Fault]:
    for pod in review.pods_in(manifest):
        terms = pod.demand.alternatives
        if terms and all(_asks(term, _SPOT) and _asks(term, _FLEX) for term in terms):
            yield pod.fault(
                "The Pod selects flex-start and Spot nodes at the same time: no node is both.",
                at=_place(pod),
                of_key=True,
            )
    if manifest.kind == "ComputeClass":
        for index, priority in manifest.mappings("spec", "priorities"):
            flex = priority.get("flexStart")
            is_flex = isinstance(flex, dict) and flex.get("enabled") is not False
            if is_flex and priority.get("spot") is True:
                yield manifest.fault(
                    "This priority asks for Spot and flex-start at the same time.",
                    at=("spec", "priorities", index, "spot"),
                    hint="Make two priorities of it, the one to be tried first above the other.",
                )


def _asks(term: Term, nodes: dict[str, str]) -> bool:
    """Whether a term can only be met by these nodes."""
    return any(
        requirement.key in nodes
        and (
            (requirement.operator == "Exists" and requirement.key != PROVISIONING_LABEL)
            or (requirement.operator == "In" and requirement.values == (nodes[requirement.key],))
        )
        for requirement in term
    )


def _place(pod: Pod) -> Path:
    """The flex-start selector, or the affinity if it stands there."""
    selector = pod.mapping("spec", "nodeSelector")
    key = next((key for key in (FLEX_START_LABEL, *_SPOT) if key in selector), None)
    return ("spec", "nodeSelector", key) if key else ("spec", "affinity", "nodeAffinity")
