"""A Pod selects a node pool that does not exist.

Why: the given files list all node pools of the cluster, and none of them has the name or label that
the Pod selects. No node will ever match, and the autoscaler does not create one for a label it does
not know.
Instead: select an existing pool, or create the missing one.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from outlast.manifests.conventions import SYSTEM_DOMAINS
from outlast.manifests.rules.api import (
    POOL_LABEL,
    Fault,
    Path,
    Pod,
    Requirement,
    Review,
    Severity,
    pod_rule,
)


@pod_rule("OL508", Severity.ERROR)
def no_such_pool(pod: Pod, review: Review) -> Iterator[Fault]:
    capacity = review.capacity
    # Only a list of the pools themselves includes those that are scaled down to zero.
    if not capacity.knows_empty_pools or capacity.is_autopilot:
        return
    if pod.owner_kind == "DaemonSet" or not capacity.pools:
        return
    asked = {
        requirement
        for term in pod.demand.alternatives
        for requirement in term
        if all(requirement in other for other in pod.demand.alternatives)
    }
    for requirement in sorted(asked, key=lambda one: one.key):
        if not _is_conclusive(requirement, pod) or _is_met(requirement, review):
            continue
        wanted = " or ".join(repr(value) for value in requirement.values)
        yield pod.fault(
            f"No node pool in the cluster has the label {requirement.key!r} with the value "
            f"{wanted}.",
            at=_place(pod, requirement),
            hint=_hint(requirement, review),
        )


def _is_conclusive(requirement: Requirement, pod: Pod) -> bool:
    """Whether nodes without the label cannot get it later."""
    if requirement.operator != "In" or any("$" in value for value in requirement.values):
        return False
    if requirement.key == POOL_LABEL:
        return True
    domain, slash, _ = requirement.key.rpartition("/")
    if slash and domain.endswith(SYSTEM_DOMAINS):
        return False
    # Node auto-provisioning creates a pool for a label that is also tolerated.
    return all(toleration.key != requirement.key for toleration in pod.tolerations)


def _is_met(requirement: Requirement, review: Review) -> bool:
    return any(requirement.accepts(pool.node_labels) for pool in review.pools)


def _hint(requirement: Requirement, review: Review) -> str | None:
    known = {
        pool.node_labels[requirement.key]
        for pool in review.pools
        if requirement.key in pool.node_labels
    }
    near = [
        one for value in requirement.values for one in get_close_matches(value[:80], known, n=1)
    ]
    return f"Did you mean {near[0]!r}?" if near else None


def _place(pod: Pod, requirement: Requirement) -> Path:
    if requirement.key in pod.mapping("spec", "nodeSelector"):
        return ("spec", "nodeSelector", requirement.key)
    return ("spec", "affinity", "nodeAffinity")
