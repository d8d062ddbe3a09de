"""A Pod prefers Spot nodes but does not require them.

Why: a preference only ranks existing nodes. While an on-demand node has room, the Pod runs there at
full price; when no node has room, the autoscaler may add an on-demand one.
Instead: require Spot with the nodeSelector cloud.google.com/gke-spot: "true", or use a ComputeClass
that tries Spot first and then on-demand.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Evidence, Fault, NodeTier, Pod, Review, Severity, pod_rule

_PREFERRED = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


@pod_rule("OL511", Severity.INFO)
def spot_only_preferred(pod: Pod, review: Review) -> Iterator[Fault]:
    placement = review.placement(pod)
    if (
        placement.by is Evidence.PREFERENCE
        and placement.is_only(NodeTier.SPOT)
        and pod.owner_kind != "DaemonSet"
    ):
        yield pod.fault(
            "The Pod prefers Spot nodes but does not require them, so it may use on-demand nodes.",
            at=_PREFERRED,
        )
