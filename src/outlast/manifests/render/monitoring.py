"""The objects that carry the alert rules and collect the metrics, for either stack."""

from outlast.capacity.vocabulary import AlertStack
from outlast.manifests.render.alerts import queue_groups, workload_groups
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value

_INTERVAL = "30s"
_GMP = "monitoring.googleapis.com/v1"
_OPERATOR = "monitoring.coreos.com/v1"


def monitoring_files(settled: Settled) -> list[RenderedFile]:
    if settled.workload.alerts.stack is AlertStack.GMP:
        return _gmp(settled)
    return _operator(settled)


def _gmp(settled: Settled) -> list[RenderedFile]:
    selector: Value = {"matchLabels": settled.selector}
    endpoint: Value = {"port": "metrics", "interval": _INTERVAL}
    monitoring = _object(settled, _GMP, "PodMonitoring")
    monitoring["spec"] = {"selector": selector, "endpoints": [endpoint]}
    rules = _object(settled, _GMP, "Rules")
    rules["spec"] = {"groups": workload_groups(settled)}
    reason = "For Google's managed Prometheus. Rules see the metrics of their own namespace only."
    files = [
        manifest("60-pod-monitoring.yaml", monitoring),
        manifest("61-rules.yaml", rules, reason=reason),
    ]
    if groups := queue_groups(settled):
        body: Value = {
            "apiVersion": _GMP,
            "kind": "ClusterRules",
            "metadata": {"name": settled.cluster_wide_name, "labels": settled.labels},
            "spec": {"groups": groups},
        }
        reason = "Without a namespace, because Kueue's metrics come from kueue-system."
        files.append(manifest("62-cluster-rules.yaml", body, reason=reason))
    return files


def _operator(settled: Settled) -> list[RenderedFile]:
    monitor = _object(settled, _OPERATOR, "PodMonitor")
    monitor["spec"] = {
        "selector": {"matchLabels": settled.selector},
        "podMetricsEndpoints": [{"port": "metrics", "interval": _INTERVAL}],
    }
    rules = _object(settled, _OPERATOR, "PrometheusRule")
    rules["spec"] = {"groups": [*workload_groups(settled), *queue_groups(settled)]}
    return [
        manifest("60-pod-monitor.yaml", monitor),
        manifest("61-prometheus-rule.yaml", rules, reason="For the Prometheus operator."),
    ]


def _object(settled: Settled, api: str, kind: str) -> dict[str, Value]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {
            "name": settled.name,
            "namespace": settled.namespace,
            "labels": settled.labels,
        },
    }
