"""A server with one replica runs on Spot only.

Why: when the node of the only replica is reclaimed, the service is down until a new Spot node is
found, the image is pulled and the model is loaded. If Spot is sold out, that takes hours.
Instead: run at least two replicas in different zones, or run one replica on demand
(cloud.google.com/gke-provisioning: standard) and further ones on Spot.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    NodeTier,
    Pod,
    Review,
    Severity,
    pods_selected,
    review_rule,
)

_SERVERS = ("Deployment", "Rollout", "StatefulSet")


@review_rule("OL705", Severity.WARNING)
def single_replica_on_spot(review: Review) -> Iterator[Fault]:
    alone = [pod for pod in review.own_pods if _is_alone_on_spot(pod, review)]
    # Which Pods a Service selects is worth asking only if one of them matters.
    served = _served(review, {id(pod) for pod in alone}) if alone else {}
    for pod in alone:
        if id(pod) in served:
            yield pod.manifest.fault(
                f"{pod.manifest} is behind the Service {served[id(pod)]!r} with one replica, and "
                "runs on Spot only: the service is down whenever the node is reclaimed.",
                at=("spec", "replicas"),
            )


def _is_alone_on_spot(pod: Pod, review: Review) -> bool:
    if pod.owner_kind not in _SERVERS or pod.manifest.get("spec", "replicas") not in (None, 1):
        return False
    placement = review.placement(pod)
    is_on_spot = placement.is_only(NodeTier.SPOT) and placement.is_pinned
    return is_on_spot and not _is_scaled(pod.manifest, review)


def _served(review: Review, among: set[int]) -> dict[int, str]:
    """Those of the Pods that are behind a Service, each with the name of one."""
    return {
        id(pod): service.name
        for service in review.of_kind("Service")
        if service.mapping("spec", "selector")
        for pod in pods_selected(
            {"matchLabels": service.mapping("spec", "selector")}, service, review, among=among
        )
    }


def _is_scaled(manifest: KubernetesObject, review: Review) -> bool:
    """Whether an autoscaler keeps more than one replica."""
    return any(
        scaler.text("spec", "scaleTargetRef", "name") == manifest.name
        and (scaler.integer("spec", "minReplicas") or 1) > 1
        for scaler in review.of_kind("HorizontalPodAutoscaler")
    )
