"""A Pod tolerates the taint of Spot nodes, but nothing sends it there.

Why: a toleration only allows. Without a selector the scheduler takes any node that fits, and while
an on-demand node has room the Pod runs there at the full price.
Instead: add the nodeSelector cloud.google.com/gke-spot: "true", or one for the label of the pool.
"""

from collections.abc import Iterator

from outlast.manifests.lint.aim import By
from outlast.manifests.lint.changes import Change, Put
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import SPOT_LABEL, Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL501", Severity.WARNING)
def tolerated_not_selected(pod: Pod, review: Review) -> Iterator[Fault]:
    aim = review.aim(pod)
    if aim.by is not By.TOLERATION or aim.toleration is None or pod.owner_kind == "DaemonSet":
        return
    # Queued nodes are given to a Pod by Kueue, without a selector.
    if not aim.is_only(Tier.SPOT):
        return
    yield pod.fault(
        f"The Pod tolerates the taint {str(aim.toleration)!r} of Spot nodes, but nothing selects "
        "them: it may as well run on demand.",
        at=("spec", "tolerations", aim.toleration.index, "key"),
        # It can leave the Pod waiting where it runs today.
        fix=pod.fix("Select Spot nodes", _selection(pod), is_safe=False),
    )


def _selection(pod: Pod) -> Change:
    if pod.mapping("spec", "nodeSelector"):
        return Put(("spec", "nodeSelector", SPOT_LABEL), "true")
    return Put(("spec", "nodeSelector"), {SPOT_LABEL: "true"})
