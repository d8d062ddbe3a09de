"""A toleration without a key lets the Pod run on any node.

Why: {operator: Exists} without a key tolerates all taints: those of Spot nodes, of GPU nodes, and
of nodes that are about to be removed. A controller or a server with this toleration runs wherever
there is room, and is reclaimed with a Spot node whose taint should have kept it away. For a
DaemonSet, which has to run on every node, the toleration is correct.
Instead: list the taints to tolerate, one toleration each, or pin the Pod with a nodeSelector.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule

# Every node has these, so they do not restrict the choice.
_COMMON_KEYS = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os")


@pod_rule("OL203", Severity.WARNING)
def tolerates_everything(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind == "DaemonSet" or _belongs_to_node(pod) or _is_placed(pod, review):
        return
    for toleration in pod.tolerations:
        is_open = not toleration.key and toleration.operator == "Exists"
        if is_open and toleration.effect in ("", "NoSchedule"):
            yield pod.fault(
                "This toleration has no key, so the Pod may run on any node, including Spot nodes.",
                at=("spec", "tolerations", toleration.index),
            )


def _belongs_to_node(pod: Pod) -> bool:
    """Whether it is part of the system, such as its network, or a Pod for one specific node."""
    priority = pod.text("spec", "priorityClassName") or ""
    if priority.startswith("system-") or pod.get("spec", "hostNetwork") is True:
        return True
    return pod.text("spec", "nodeName") is not None


def _is_placed(pod: Pod, review: Review) -> bool:
    """Whether its selectors determine where it runs, so that the toleration does not matter."""
    if review.placement(pod).is_pinned:
        return True
    return any(
        requirement.key not in _COMMON_KEYS
        for term in pod.demand.alternatives
        for requirement in term
    )
