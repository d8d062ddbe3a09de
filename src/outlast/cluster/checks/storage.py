"""Whether Pods can reach their bucket: the FUSE driver, and Workload Identity on the nodes."""

from collections.abc import Iterator
from typing import Any

from outlast.cluster.checks.nodes import node_facts
from outlast.cluster.checks.pools import fitting_pools, pools_of
from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown, warn
from outlast.cluster.connection.google_cloud import GcloudFailed
from outlast.cluster.resources import CSI_DRIVERS, NODES, Query
from outlast.manifests.conventions import FUSE_DRIVER
from outlast.manifests.lint.scheduling import NodeDemand, node_demand

_METADATA_LABEL = "iam.gke.io/gke-metadata-server-enabled"
_TURN_ON = (
    "Run: gcloud container node-pools update POOL --cluster CLUSTER "
    "--workload-metadata=GKE_METADATA"
)


def check_storage(subject: Subject) -> Iterator[CheckResult]:
    if _uses_fuse(subject):
        yield _fuse_driver(subject)
    if any("gs://" in str(template.spec) for template in subject.pod_templates()) or _uses_fuse(
        subject
    ):
        yield _workload_identity(subject)


def _uses_fuse(subject: Subject) -> bool:
    volumes = (
        volume for one in subject.pod_templates() for volume in one.spec.get("volumes") or ()
    )
    return any((volume.get("csi") or {}).get("driver") == FUSE_DRIVER for volume in volumes)


def _fuse_driver(subject: Subject) -> CheckResult:
    if subject.cluster.get(CSI_DRIVERS, FUSE_DRIVER) is None:
        return fail(
            f"the FUSE driver {FUSE_DRIVER} is not installed, so the bucket cannot be mounted",
            "Run: gcloud container clusters update CLUSTER --update-addons "
            "GcsFuseCsiDriver=ENABLED",
        )
    return ok(f"the FUSE driver {FUSE_DRIVER} is installed")


def _workload_identity(subject: Subject) -> CheckResult:
    demands = [node_demand(template.spec) for template in subject.pod_templates()]
    nodes = [node_facts(item) for item in subject.cluster.list(Query(resource=NODES))]
    fitting = [
        node
        for node in nodes
        if any(demand.selects(node.labels) and demand.tolerates(node.taints) for demand in demands)
    ]
    if not fitting:
        return _identity_of_pools(subject, demands) or unknown(
            "Workload Identity: there is no matching node to look at"
        )
    without = [node for node in fitting if node.labels.get(_METADATA_LABEL) != "true"]
    if without:
        return warn(
            f"Workload Identity is off on {len(without)} of {len(fitting)} matching nodes; the "
            "bucket may answer 403",
            _TURN_ON,
        )
    return ok(f"Workload Identity is on, on all {len(fitting)} matching nodes")


def _identity_of_pools(subject: Subject, demands: list[NodeDemand]) -> CheckResult | None:
    """What Google Cloud says of the pools that have no node now, None if that is not known."""
    try:
        described = subject.gke.describe() if subject.gke is not None else {}
    except GcloudFailed:
        # The check of Google Cloud reports why.
        return None
    capacity = pools_of(described)
    if capacity.is_autopilot:
        return ok("Workload Identity is on, as on every Autopilot cluster")
    names = {pool.name for demand in demands for pool in fitting_pools(demand, capacity)}
    if not names:
        return None
    if not (described.get("workloadIdentityConfig") or {}).get("workloadPool"):
        return warn(
            "Workload Identity is off in this cluster; the bucket may answer 403",
            "Run: gcloud container clusters update CLUSTER --workload-pool=PROJECT.svc.id.goog",
        )
    without = names - set(_pools_with_identity(described))
    if without:
        return warn(
            f"Workload Identity is off in pool {', '.join(sorted(without))}; the bucket may "
            "answer 403",
            _TURN_ON,
        )
    return ok(f"Workload Identity is on in pool {', '.join(sorted(names))}")


def _pools_with_identity(described: dict[str, Any]) -> Iterator[str]:
    for pool in described.get("nodePools") or ():
        metadata = (pool.get("config") or {}).get("workloadMetadataConfig") or {}
        if metadata.get("mode") == "GKE_METADATA":
            yield str(pool.get("name"))
