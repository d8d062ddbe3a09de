"""Queued provisioning: Kueue's queues, and the check that requests all nodes from GKE at once."""

from outlast.manifests.conventions import GPU, KUEUE_GROUP
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.manifests.render.resources import count_quantity
from outlast.yamltext.writing import Commented, Value

_API = f"{KUEUE_GROUP}/v1beta2"
_PLENTY = 10**6
_RETRIES = 100
_RETRY_SECONDS_MAX = 1800


def kueue_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    kueue = resolved.workload.cluster.kueue
    if kueue is None or not kueue.setup:
        return []
    return [
        _flavor(resolved),
        _provisioning_config(resolved),
        _admission_check(resolved),
        _cluster_queue(resolved),
        _local_queue(resolved, kueue.queue),
    ]


def cluster_queue_name(resolved: ResolvedWorkload) -> str:
    return resolved.cluster_wide_name


def _flavor(resolved: ResolvedWorkload) -> RenderedFile:
    body = _queue_object(resolved, "ResourceFlavor", {})
    return manifest("40-resource-flavor.yaml", body)


def _provisioning_config(resolved: ResolvedWorkload) -> RenderedFile:
    body = _queue_object(
        resolved,
        "ProvisioningRequestConfig",
        {
            "provisioningClassName": "queued-provisioning.gke.io",
            "managedResources": [GPU],
            "retryStrategy": {
                "backoffLimitCount": Commented(
                    _RETRIES,
                    "The default of 3 deactivates the workload after a few minutes without "
                    "capacity. It then stays suspended until its spec.active is set to true.",
                ),
                "backoffBaseSeconds": 60,
                "backoffMaxSeconds": _RETRY_SECONDS_MAX,
            },
        },
    )
    return manifest("41-provisioning-request-config.yaml", body)


def _admission_check(resolved: ResolvedWorkload) -> RenderedFile:
    body = _queue_object(
        resolved,
        "AdmissionCheck",
        {
            "controllerName": f"{KUEUE_GROUP}/provisioning-request",
            "parameters": {
                "apiGroup": KUEUE_GROUP,
                "kind": "ProvisioningRequestConfig",
                "name": resolved.cluster_wide_name,
            },
        },
    )
    return manifest("42-admission-check.yaml", body)


def _cluster_queue(resolved: ResolvedWorkload) -> RenderedFile:
    quota = resolved.workload.cluster.quota.preemptible
    gpus = resolved.workload.accelerators_total if quota is None else quota
    resources: list[Value] = [
        {
            "name": GPU,
            "nominalQuota": Commented(
                count_quantity(gpus),
                "Flex-start uses the preemptible quota; keep this at or below that.",
            ),
        },
        {
            "name": Commented("cpu", "Not the limiting resource."),
            "nominalQuota": count_quantity(_PLENTY),
        },
        {"name": "memory", "nominalQuota": f"{_PLENTY}Gi"},
    ]
    body = _queue_object(
        resolved,
        "ClusterQueue",
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": resolved.namespace}
            },
            "resourceGroups": [
                {
                    "coveredResources": [GPU, "cpu", "memory"],
                    "flavors": [{"name": resolved.cluster_wide_name, "resources": resources}],
                }
            ],
            "admissionChecksStrategy": {
                "admissionChecks": [{"name": resolved.cluster_wide_name}],
            },
        },
    )
    return manifest("43-cluster-queue.yaml", body)


def _local_queue(resolved: ResolvedWorkload, queue: str) -> RenderedFile:
    body: Value = {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": resolved.namespace, "labels": resolved.labels},
        "spec": {"clusterQueue": cluster_queue_name(resolved)},
    }
    return manifest("44-local-queue.yaml", body)


def _queue_object(resolved: ResolvedWorkload, kind: str, spec: Value) -> Value:
    body: dict[str, Value] = {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": resolved.cluster_wide_name, "labels": resolved.labels},
    }
    return {**body, "spec": spec} if spec else body
