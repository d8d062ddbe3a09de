"""A Pod refers to its ProvisioningRequest by an annotation of an old autoscaler.

Why: the cluster autoscaler has read the annotations with the prefix autoscaling.x-k8s.io/ since
version 1.31. Those with cluster-autoscaler.kubernetes.io/ are deprecated: an autoscaler that no
longer reads them does not place the Pod on the nodes that were provisioned for it, so it stays
Pending or causes further nodes.
Instead: use autoscaling.x-k8s.io/consume-provisioning-request and
autoscaling.x-k8s.io/provisioning-class-name.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    Pod,
    Rename,
    Review,
    Severity,
    pod_rule,
)

_OLD, _NEW = "cluster-autoscaler.kubernetes.io/", "autoscaling.x-k8s.io/"
_NAMES = ("consume-provisioning-request", "provisioning-class-name")


@pod_rule("OL309", Severity.WARNING, on_patches=True)
def old_provisioning_annotation(pod: Pod, review: Review) -> Iterator[Fault]:
    annotations = pod.annotations
    for name in _NAMES:
        if _OLD + name not in annotations or _NEW + name in annotations:
            continue
        at = ("metadata", "annotations", _OLD + name)
        yield pod.fault(
            f"The annotation {_OLD + name!r} is deprecated in favor of {_NEW + name!r}.",
            at=at,
            of_key=True,
            hint=f"Rename it to {_NEW + name!r}.",
            # The cluster may be older than 1.31.
            fix=pod.fix(f"Rename it to {_NEW + name}", Rename(at, _NEW + name), is_safe=False),
        )
