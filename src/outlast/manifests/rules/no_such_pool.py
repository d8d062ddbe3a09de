"""A Pod selects a node pool that the cluster does not have.

Why: these files list all node pools of the cluster, and none has the name or label that the Pod
asks for. No node will ever fit, and the autoscaler makes none for a label it does not know.
Instead: select a pool that there is, or create the one that is meant.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import POOL_LABEL
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.scheduling import Requirement
from outlast.manifests.lint.view import Fault

# Nodes have more labels of these domains than an export of pools tells.
_SYSTEM_DOMAINS = ("k8s.io", "kubernetes.io", "gke.io", "google.com", "googleapis.com")


@pod_rule("OL508", Severity.ERROR)
def no_such_pool(pod: Pod, review: Review) -> Iterator[Fault]:
    capacity = review.capacity
    # Only a list of the pools themselves holds those that are scaled down to nothing.
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
        if not _tells(requirement, pod) or _is_met(requirement, review):
            continue
        wanted = " or ".join(repr(value) for value in requirement.values)
        yield pod.fault(
            f"No node pool of the cluster has {requirement.key!r}: {wanted}.",
            at=_place(pod, requirement),
            hint=_hint(requirement, review),
        )


def _tells(requirement: Requirement, pod: Pod) -> bool:
    """Whether nodes that lack the label today cannot get it tomorrow."""
    if requirement.operator != "In" or any("$" in value for value in requirement.values):
        return False
    if requirement.key == POOL_LABEL:
        return True
    domain, slash, _ = requirement.key.rpartition("/")
    if slash and domain.endswith(_SYSTEM_DOMAINS):
        return False
    # Node auto-provisioning makes a pool for a label that is tolerated too.
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
    return f"There is {near[0]!r}." if near else None


def _place(pod: Pod, requirement: Requirement) -> Path:
    if requirement.key in pod.mapping("spec", "nodeSelector"):
        return ("spec", "nodeSelector", requirement.key)
    return ("spec", "affinity", "nodeAffinity")
