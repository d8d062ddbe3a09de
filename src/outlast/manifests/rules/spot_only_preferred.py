"""A Pod prefers Spot nodes, but any other node will do.

Why: a preference chooses among nodes that are there. While an on-demand node has room the Pod goes
there at the full price, and when there is none, the autoscaler is free to add an on-demand one.
Instead: require Spot by the nodeSelector cloud.google.com/gke-spot: "true", or use a ComputeClass
that tries Spot first and on-demand after it.
"""

from collections.abc import Iterator

from outlast.manifests.lint.aim import By
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


@pod_rule("OL511", Severity.INFO)
def spot_only_preferred(pod: Pod, review: Review) -> Iterator[Fault]:
    aim = review.aim(pod)
    if aim.by is By.PREFERENCE and aim.is_only(Tier.SPOT) and pod.owner_kind != "DaemonSet":
        yield pod.fault(
            "The Pod prefers Spot nodes and requires nothing: it may as well run on demand.",
            at=_PREFERRED,
        )
