"""A toleration without a key, which opens every node to the Pod.

Why: {operator: Exists} without a key tolerates all taints: those of Spot nodes, of nodes with GPUs,
and of nodes that are about to go. A controller or a server that carries it ends up wherever there
is room, and is reclaimed with a Spot node that its taint should have kept it off. For a DaemonSet,
which has to run on every node, it is right.
Instead: name the taints that are meant, one toleration each, or pin the Pod with a nodeSelector.
"""

from collections.abc import Iterator

from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

# Every node has these, and so they choose none.
_COMMON_KEYS = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os")


@pod_rule("OL203", Severity.WARNING)
def tolerates_everything(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind == "DaemonSet" or _is_of_the_node(pod) or _is_placed(pod, review):
        return
    for toleration in pod.tolerations:
        is_open = not toleration.key and toleration.operator == "Exists"
        if is_open and toleration.effect in ("", "NoSchedule"):
            yield pod.fault(
                "This toleration has no key, so the Pod may run on every node, Spot nodes too.",
                at=("spec", "tolerations", toleration.index),
            )


def _is_of_the_node(pod: Pod) -> bool:
    """A part of the system, or a Pod for one given node."""
    priority = pod.text("spec", "priorityClassName") or ""
    return priority.startswith("system-") or pod.text("spec", "nodeName") is not None


def _is_placed(pod: Pod, review: Review) -> bool:
    """Whether its selectors say where it runs, so that the toleration decides nothing."""
    if review.aim(pod).is_pinned:
        return True
    return any(
        requirement.key not in _COMMON_KEYS
        for term in pod.demand.alternatives
        for requirement in term
    )
