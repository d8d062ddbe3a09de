"""What never ends: servers, and workers that wait for more."""

from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why

_DRAIN_SECONDS = 10
_START_TRIES = 120
_PROBE_SECONDS = 10


def deployment_files(settled: Settled) -> list[RenderedFile]:
    if settled.workload.kind is Kind.SERVING:
        return [_service(settled), _deployment(settled, _server(settled))]
    return [_deployment(settled, pod_template(settled, restart_policy=None))]


def deployment_pod_pattern(settled: Settled) -> str:
    return f"{settled.name}-[a-z0-9]{{8,10}}-[a-z0-9]{{5}}"


def _deployment(settled: Settled, template: Value) -> RenderedFile:
    is_server = settled.workload.kind is Kind.SERVING
    strategy: Value = {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxUnavailable": Why(0, "A new replica is ready before an old one goes."),
            "maxSurge": 1,
        },
    }
    if not is_server:
        # Workers share a queue, so fewer of them for a while lose nothing; a spare node would.
        strategy = {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0},
        }
    body: Value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": settled.name,
            "namespace": settled.namespace,
            "labels": settled.labels,
        },
        "spec": {
            "replicas": settled.workload.pods,
            "selector": {"matchLabels": settled.selector},
            "strategy": strategy,
            "template": template,
        },
    }
    return manifest(
        "50-deployment.yaml", body, reason=f"Tier {settled.tier}. {settled.tier_reason}"
    )


def _server(settled: Settled) -> Value:
    serving = settled.workload.serving
    answer: Value = {"path": serving.health, "port": "http"}
    probes: dict[str, Value] = {
        "startupProbe": {
            "httpGet": answer,
            "periodSeconds": _PROBE_SECONDS,
            "failureThreshold": Why(_START_TRIES, "Loading a model may take 20 minutes."),
        },
        "readinessProbe": {"httpGet": answer, "periodSeconds": 5},
        "livenessProbe": {
            "httpGet": answer,
            "periodSeconds": _PROBE_SECONDS,
            "failureThreshold": 6,
        },
        "lifecycle": {
            "preStop": {
                "sleep": Why(
                    {"seconds": min(_DRAIN_SECONDS, settled.grace_seconds // 3)},
                    "Requests still arrive until every balancer knows. Spends the grace period.",
                )
            }
        },
    }
    spread: list[Value] = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": settled.selector},
        }
    ]
    return pod_template(
        settled,
        restart_policy=None,
        container=probes,
        extra_spec={"topologySpreadConstraints": spread},
    )


def _service(settled: Settled) -> RenderedFile:
    body: Value = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": settled.name,
            "namespace": settled.namespace,
            "labels": settled.labels,
        },
        "spec": {
            "selector": settled.selector,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return manifest("45-service.yaml", body)
