"""Alert rules and the objects that collect metrics, for Google's or the operator's Prometheus.

Pods are recognized by `kube_pod_status_phase`, which both GKE's managed kube-state-metrics and the
operator's export. All other metrics come from the process itself.
"""

from collections.abc import Iterator
from datetime import timedelta

from outlast.capacity.vocabulary import AlertStack, Tier, WorkloadKind
from outlast.capacity.workload.quantities import format_exact_duration
from outlast.manifests.render.deployment import deployment_pod_pattern
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.job import job_pod_pattern
from outlast.manifests.render.jobset import jobset_pod_pattern
from outlast.manifests.render.kueue import cluster_queue_name
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_INTERVAL = "30s"
_GMP = "monitoring.googleapis.com/v1"
_OPERATOR = "monitoring.coreos.com/v1"
PENDING_DEFAULTS = {
    Tier.SPOT: timedelta(minutes=15),
    Tier.ON_DEMAND: timedelta(minutes=15),
    Tier.HYBRID: timedelta(minutes=30),
    # Waiting is how flex-start works, and a day of it may be normal.
    Tier.FLEX_START: timedelta(hours=6),
}
RESTARTS_PER_POD_MAX = 6
RESTARTS_WINDOW = "6h"
CHECKPOINT_AGE_MIN = timedelta(hours=2)
EXPIRY_LEAD = timedelta(hours=1)
PROGRESS = "outlast_progress_total"
"""A counter: the steps or items that this process has finished."""
CHECKPOINT_TIME = "outlast_checkpoint_timestamp_seconds"
"""Unix time at which the newest checkpoint became durable."""
QUEUE_READY = "outlast_queue_ready"
"""Items waiting in the queue."""
EXPIRES = "outlast_expires_timestamp_seconds"
"""Unix time at which the node will be removed, if known."""


def monitoring_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    if resolved.workload.alerts.stack is AlertStack.GMP:
        return _gmp(resolved)
    return _operator(resolved)


def _gmp(resolved: ResolvedWorkload) -> list[RenderedFile]:
    selector: Value = {"matchLabels": resolved.selector}
    endpoint: Value = {"port": "metrics", "interval": _INTERVAL}
    monitoring = _object(resolved, _GMP, "PodMonitoring")
    monitoring["spec"] = {"selector": selector, "endpoints": [endpoint]}
    rules = _object(resolved, _GMP, "Rules")
    rules["spec"] = {"groups": workload_groups(resolved)}
    reason = "For Google Cloud Managed Service for Prometheus. Rules see only their own namespace."
    files = [
        manifest("60-pod-monitoring.yaml", monitoring),
        manifest("61-rules.yaml", rules, reason=reason),
    ]
    if groups := queue_groups(resolved):
        body: Value = {
            "apiVersion": _GMP,
            "kind": "ClusterRules",
            "metadata": {"name": resolved.cluster_wide_name, "labels": resolved.labels},
            "spec": {"groups": groups},
        }
        reason = "Cluster-scoped, because Kueue's metrics come from the namespace kueue-system."
        files.append(manifest("62-cluster-rules.yaml", body, reason=reason))
    return files


def _operator(resolved: ResolvedWorkload) -> list[RenderedFile]:
    monitor = _object(resolved, _OPERATOR, "PodMonitor")
    monitor["spec"] = {
        "selector": {"matchLabels": resolved.selector},
        "podMetricsEndpoints": [{"port": "metrics", "interval": _INTERVAL}],
    }
    rules = _object(resolved, _OPERATOR, "PrometheusRule")
    rules["spec"] = {"groups": [*workload_groups(resolved), *queue_groups(resolved)]}
    return [
        manifest("60-pod-monitor.yaml", monitor),
        manifest("61-prometheus-rule.yaml", rules, reason="For the Prometheus operator."),
    ]


def _object(resolved: ResolvedWorkload, api: str, kind: str) -> dict[str, Value]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": resolved.metadata,
    }


def pending_threshold(resolved: ResolvedWorkload) -> timedelta:
    return resolved.workload.alerts.pending or PENDING_DEFAULTS[resolved.tier]


def workload_groups(resolved: ResolvedWorkload) -> list[Value]:
    """Rules on metrics from the workload's namespace."""
    return [{"name": f"outlast-{resolved.name}", "rules": list(_workload_rules(resolved))}]


def queue_groups(resolved: ResolvedWorkload) -> list[Value]:
    """Rules on Kueue, whose metrics come from its own namespace. Empty without Kueue."""
    if not resolved.is_queued:
        return []
    return [{"name": f"outlast-{resolved.name}-kueue", "rules": list(_kueue_rules(resolved))}]


def pod_pattern(resolved: ResolvedWorkload) -> str:
    workload = resolved.workload
    if workload.kind is WorkloadKind.SERVING or workload.endless:
        return deployment_pod_pattern(resolved)
    if workload.nodes > 1:
        return jobset_pod_pattern(resolved)
    return job_pod_pattern(resolved)


def _workload_rules(resolved: ResolvedWorkload) -> Iterator[Value]:
    pods = f"namespace='{resolved.namespace}', pod=~'{pod_pattern(resolved)}'"
    yield _pending(resolved, pods)
    if resolved.workload.kind is WorkloadKind.SERVING:
        yield _unavailable(resolved)
        return
    if not resolved.workload.endless:
        yield _restarts(resolved, pods)
    yield _no_progress(pods)
    if resolved.workload.checkpoint is not None:
        yield _old_checkpoint(resolved, pods)
    if resolved.workload.queue is not None:
        yield _deep_queue(pods)
    if resolved.has_lease:
        yield _expiry_ahead(pods)
    yield _blind(pods)


def _pending(resolved: ResolvedWorkload, pods: str) -> Value:
    return _rule(
        "OutlastPodPending",
        f"max by (namespace, pod) (kube_pod_status_phase{{{pods}, phase='Pending'}}) == 1",
        wait=pending_threshold(resolved),
        summary="Pod {{ $labels.pod }} is waiting for a node.",
        description="No capacity in this tier, exhausted quota, or a selector that matches no node "
        "pool. Run `kubectl describe pod` for details.",
    )


def _unavailable(resolved: ResolvedWorkload) -> Value:
    name, wanted = resolved.name, resolved.workload.pods
    metric = "kube_deployment_status_replicas_available"
    return _rule(
        "OutlastServerUnavailable",
        f"{metric}{{namespace='{resolved.namespace}', deployment='{name}'}} < {wanted}",
        wait=timedelta(minutes=10),
        summary="Fewer replicas are available than requested.",
        description="Check the Pods that are not ready.",
    )


def _restarts(resolved: ResolvedWorkload, pods: str) -> Value:
    limit = resolved.workload.pods * (1 + RESTARTS_PER_POD_MAX)
    ran = f"max_over_time(kube_pod_status_phase{{{pods}, phase='Running'}}[{RESTARTS_WINDOW}]) == 1"
    done = ran.replace("'Running'", "'Succeeded'")
    expression = f"count by (namespace) ({ran} unless on (namespace, pod) {done}) > {limit}"
    return _rule(
        "OutlastEvictionsFrequent",
        Commented(
            expression, "Every replacement Pod has a new name, so counting names counts evictions."
        ),
        wait=timedelta(minutes=0),
        summary=f"More than {RESTARTS_PER_POD_MAX} evictions or failures per Pod in "
        f"{RESTARTS_WINDOW}.",
        description="The Job's backoff is now at 10 minutes. Another zone, machine type or tier "
        "may cost less overall: see `outlast plan`.",
    )


def _no_progress(pods: str) -> Value:
    progress = f"sum by (namespace) (increase({PROGRESS}{{{pods}}}[30m])) == 0"
    return _rule(
        "OutlastNoProgress",
        f"{progress} and on (namespace) {_running(pods)}",
        wait=timedelta(minutes=15),
        summary="Pods are running, but no step or item has finished for 30 minutes.",
        description="A hung Pod costs as much as a working one. Check its latest log lines.",
    )


def _old_checkpoint(resolved: ResolvedWorkload, pods: str) -> Value:
    checkpoint = resolved.workload.checkpoint
    interval = checkpoint.interval if checkpoint is not None else None
    limit = CHECKPOINT_AGE_MIN
    if isinstance(interval, timedelta):
        limit = max(limit, 3 * interval)
    seconds = int(limit.total_seconds())
    return _rule(
        "OutlastCheckpointOld",
        f"time() - max by (namespace, pod) ({CHECKPOINT_TIME}{{{pods}}}) > {seconds}",
        wait=timedelta(minutes=5),
        summary=f"The newest checkpoint of {{{{ $labels.pod }}}} is older than "
        f"{format_exact_duration(limit)}.",
        description="An eviction without notice would lose all work since then. Check for failed "
        "saves.",
    )


def _deep_queue(pods: str) -> Value:
    depth = f"max by (namespace) ({QUEUE_READY}{{{pods}}}"
    return _rule(
        "OutlastQueueNotShrinking",
        f"{depth}) > 0 and on (namespace) {depth}) >= on (namespace) {depth} offset 1h)",
        wait=timedelta(minutes=30),
        summary="The queue is not shorter than an hour ago.",
        description="There are too few workers, or items keep failing. Run `outlast queue`.",
    )


def _expiry_ahead(pods: str) -> Value:
    seconds = int(EXPIRY_LEAD.total_seconds())
    return _rule(
        "OutlastExpiryAhead",
        f"min by (namespace, pod) ({EXPIRES}{{{pods}}}) - time() < {seconds}",
        wait=timedelta(minutes=0),
        severity="info",
        summary="The node of {{ $labels.pod }} expires within an hour.",
        description="The process saves and exits before that, and the Pod then needs a new node.",
    )


def _blind(pods: str) -> Value:
    return _rule(
        "OutlastMetricsMissing",
        f"{_running(pods)} unless on (namespace) count by (namespace) ({PROGRESS}{{{pods}}})",
        wait=timedelta(minutes=30),
        severity="info",
        summary="Pods are running, but none of them exports metrics.",
        description="Alerts on progress and checkpoints cannot fire until they do.",
    )


def _kueue_rules(resolved: ResolvedWorkload) -> Iterator[Value]:
    # If we do not create the cluster queue, its name is unknown, so all of them count.
    kueue = resolved.workload.cluster.kueue
    own = kueue is not None and kueue.setup
    queue = f"cluster_queue='{cluster_queue_name(resolved)}'" if own else ""
    threshold = pending_threshold(resolved)
    yield _rule(
        "OutlastQueuedInKueue",
        Commented(
            f"sum by (cluster_queue) (kueue_pending_workloads{{{queue}}}) > 0",
            "A queued Job has no Pods, so alerts on Pods cannot see it.",
        ),
        wait=threshold,
        summary="A workload is waiting in {{ $labels.cluster_queue }}.",
        description="The queue's quota is exhausted, or the Job requests more than the quota.",
    )
    yield _deactivated(queue)
    reserving = f"sum by (cluster_queue) (kueue_reserving_active_workloads{{{queue}}})"
    admitted = f"sum by (cluster_queue) (kueue_admitted_active_workloads{{{queue}}})"
    yield _rule(
        "OutlastProvisioningSlow",
        f"{reserving} - {admitted} > 0",
        wait=threshold,
        summary="A workload in {{ $labels.cluster_queue }} has quota but no nodes.",
        description="GKE has not found capacity for all nodes at once. Smaller Jobs start sooner.",
    )
    bucket = f"rate(kueue_admission_wait_time_seconds_bucket{{{queue}}}[1d])"
    yield _rule(
        "OutlastAdmissionSlow",
        f"histogram_quantile(0.95, sum by (le, cluster_queue) ({bucket})) > "
        f"{int(threshold.total_seconds())}",
        wait=timedelta(minutes=0),
        severity="info",
        summary="Workloads in {{ $labels.cluster_queue }} wait a long time for admission.",
        description="Over the last day, 5% of them waited longer than the threshold.",
    )


def _deactivated(queue: str) -> Value:
    # Kueue before 0.14 appends the cause to the reason.
    matcher = f"{queue}{', ' if queue else ''}reason=~'Deactivated.*'"
    total = f"sum by (cluster_queue) (kueue_evicted_workloads_total{{{matcher}}}"
    return _rule(
        "OutlastDeactivatedByKueue",
        Commented(
            f"{total}) - ({total} offset 1h) or 0 * {total})) > 0",
            "Not increase(), which misses the first one: its series appears with the value 1.",
        ),
        wait=timedelta(minutes=0),
        summary="Kueue has deactivated a workload of {{ $labels.cluster_queue }}.",
        description="Its nodes were taken away (CapacityRevoked), or the request for them was "
        "given up. It stays suspended: find it with `kubectl get workloads`, then set its "
        "spec.active to true.",
    )


def _running(pods: str) -> str:
    return f"sum by (namespace) (kube_pod_status_phase{{{pods}, phase='Running'}}) > 0"


def _rule(
    name: str,
    expression: Value,
    *,
    wait: timedelta,
    summary: str,
    description: str,
    severity: str = "warning",
) -> Value:
    rule: dict[str, Value] = {"alert": name, "expr": expression}
    if wait:
        rule["for"] = format_exact_duration(timedelta(seconds=int(wait.total_seconds())))
    rule["labels"] = {"severity": severity}
    rule["annotations"] = {"summary": summary, "description": description}
    return rule
