"""Deployments, for workloads that never finish: servers, and workers that wait for more items."""

from outlast.capacity.vocabulary import WorkloadKind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_DRAIN_SECONDS = 10
_START_TRIES = 120
_NODE_SECONDS = 1200
_PROBE_SECONDS = 10


def deployment_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    if resolved.workload.kind is WorkloadKind.SERVING:
        return [_service(resolved), _deployment(resolved, _server(resolved))]
    return [_deployment(resolved, pod_template(resolved, restart_policy=None))]


def deployment_pod_pattern(resolved: ResolvedWorkload) -> str:
    return f"{resolved.name}-[a-z0-9]{{1,10}}-[a-z0-9]{{5}}"


def _deployment(resolved: ResolvedWorkload, template: Value) -> RenderedFile:
    is_server = resolved.workload.kind is WorkloadKind.SERVING
    strategy: Value = {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxUnavailable": Commented(0, "A new replica is ready before an old one stops."),
            "maxSurge": 1,
        },
    }
    if not is_server:
        # Workers share a queue, so running fewer of them for a while loses nothing. A surge Pod
        # would need a spare node.
        strategy = {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0},
        }
    spec: dict[str, Value] = {
        "replicas": resolved.workload.pods,
        "selector": {"matchLabels": resolved.selector},
        "strategy": strategy,
    }
    if is_server:
        spec["progressDeadlineSeconds"] = Commented(
            _NODE_SECONDS + _START_TRIES * _PROBE_SECONDS,
            "A new node, its image and the startup probe. The default of 600 would report a "
            "failed rollout before a large model is loaded.",
        )
    body: Value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": resolved.metadata,
        "spec": {**spec, "template": template},
    }
    return manifest(
        "50-deployment.yaml", body, reason=f"Tier {resolved.tier}. {resolved.tier_reason}"
    )


def _server(resolved: ResolvedWorkload) -> Value:
    serving = resolved.workload.serving
    answer: Value = {"path": serving.health, "port": "http"}
    probes: dict[str, Value] = {
        "startupProbe": {
            "httpGet": answer,
            "periodSeconds": _PROBE_SECONDS,
            "failureThreshold": Commented(_START_TRIES, "Loading a model can take 20 minutes."),
        },
        "readinessProbe": {"httpGet": answer, "periodSeconds": 5},
        "livenessProbe": {
            "httpGet": answer,
            "periodSeconds": _PROBE_SECONDS,
            "failureThreshold": 6,
        },
        "lifecycle": {
            "preStop": {
                "sleep": Commented(
                    {"seconds": min(_DRAIN_SECONDS, resolved.grace_seconds // 3)},
                    "Requests arrive until all load balancers know. Part of the grace period.",
                )
            }
        },
    }
    spread: list[Value] = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": resolved.selector},
        }
    ]
    return pod_template(
        resolved,
        restart_policy=None,
        container=probes,
        extra_spec={"topologySpreadConstraints": spread},
    )


def _service(resolved: ResolvedWorkload) -> RenderedFile:
    body: Value = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": resolved.metadata,
        "spec": {
            "selector": resolved.selector,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return manifest("45-service.yaml", body)
