"""Whether Pods can reach their bucket: the FUSE driver, and Workload Identity on the nodes."""

from collections.abc import Iterator

from outlast.cluster.checks.nodes import node_facts
from outlast.cluster.checks.result import CheckResult, Subject, fail, ok, unknown, warn
from outlast.cluster.resources import CSI_DRIVERS, NODES, Query
from outlast.manifests.conventions import FUSE_DRIVER
from outlast.manifests.lint.scheduling import node_demand

_METADATA_LABEL = "iam.gke.io/gke-metadata-server-enabled"


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
        return unknown("Workload Identity: there is no matching node to look at")
    without = [node for node in fitting if node.labels.get(_METADATA_LABEL) != "true"]
    if without:
        return warn(
            f"Workload Identity is off on {len(without)} of {len(fitting)} matching nodes; the "
            "bucket may answer 403",
            "Run: gcloud container node-pools update POOL --cluster CLUSTER "
            "--workload-metadata=GKE_METADATA",
        )
    return ok(f"Workload Identity is on, on all {len(fitting)} matching nodes")
