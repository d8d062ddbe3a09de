"""Queued provisioning: Kueue's queues, and the check that asks GKE for all nodes at once."""

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why

_API = "kueue.x-k8s.io/v1beta2"
_PLENTY = "1000000"


def kueue_files(settled: Settled) -> list[RenderedFile]:
    kueue = settled.workload.cluster.kueue
    if kueue is None or not kueue.setup:
        return []
    return [
        _flavor(settled),
        _provisioning_config(settled),
        _admission_check(settled),
        _cluster_queue(settled),
        _local_queue(settled, kueue.queue),
    ]


def cluster_queue_name(settled: Settled) -> str:
    return settled.cluster_wide_name


def _flavor(settled: Settled) -> RenderedFile:
    body = _object(settled, "ResourceFlavor", {})
    return manifest("40-resource-flavor.yaml", body)


def _provisioning_config(settled: Settled) -> RenderedFile:
    body = _object(
        settled,
        "ProvisioningRequestConfig",
        {
            "provisioningClassName": "queued-provisioning.gke.io",
            "managedResources": ["nvidia.com/gpu"],
        },
    )
    return manifest("41-provisioning-request-config.yaml", body)


def _admission_check(settled: Settled) -> RenderedFile:
    body = _object(
        settled,
        "AdmissionCheck",
        {
            "controllerName": "kueue.x-k8s.io/provisioning-request",
            "parameters": {
                "apiGroup": "kueue.x-k8s.io",
                "kind": "ProvisioningRequestConfig",
                "name": settled.cluster_wide_name,
            },
        },
    )
    return manifest("42-admission-check.yaml", body)


def _cluster_queue(settled: Settled) -> RenderedFile:
    quota = settled.workload.cluster.quota.preemptible
    gpus = settled.workload.accelerators_total if quota is None else quota
    resources: list[Value] = [
        {
            "name": "nvidia.com/gpu",
            "nominalQuota": Why(
                gpus, "Flex-start draws on the preemptible quota; keep this at or below it."
            ),
        },
        {"name": Why("cpu", "Not what is scarce here."), "nominalQuota": _PLENTY},
        {"name": "memory", "nominalQuota": f"{_PLENTY}Gi"},
    ]
    body = _object(
        settled,
        "ClusterQueue",
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": settled.namespace}
            },
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu", "cpu", "memory"],
                    "flavors": [{"name": settled.cluster_wide_name, "resources": resources}],
                }
            ],
            "admissionChecksStrategy": {
                "admissionChecks": [{"name": settled.cluster_wide_name}],
            },
        },
    )
    return manifest("43-cluster-queue.yaml", body)


def _local_queue(settled: Settled, queue: str) -> RenderedFile:
    body: Value = {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": settled.namespace, "labels": settled.labels},
        "spec": {"clusterQueue": cluster_queue_name(settled)},
    }
    return manifest("44-local-queue.yaml", body)


def _object(settled: Settled, kind: str, spec: Value) -> Value:
    body: dict[str, Value] = {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": settled.cluster_wide_name, "labels": settled.labels},
    }
    return {**body, "spec": spec} if spec else body
