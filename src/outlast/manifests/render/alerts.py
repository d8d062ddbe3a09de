"""The alert rules, as plain groups of Prometheus rules.

Pods are recognised by `kube_pod_status_phase`, which GKE's managed kube-state-metrics and the
operator's both have. The rest comes from the process itself.
"""

from collections.abc import Iterator
from datetime import timedelta

from outlast.capacity.quantities import format_exact_duration
from outlast.capacity.vocabulary import Kind, Tier
from outlast.manifests.render.deployment import deployment_pod_pattern
from outlast.manifests.render.job import job_pod_pattern
from outlast.manifests.render.jobset import jobset_pod_pattern
from outlast.manifests.render.kueue import cluster_queue_name
from outlast.manifests.render.metrics import CHECKPOINT_TIME, EXPIRES, PROGRESS, QUEUE_READY
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why

PENDING_DEFAULTS = {
    Tier.SPOT: timedelta(minutes=15),
    Tier.ON_DEMAND: timedelta(minutes=15),
    Tier.HYBRID: timedelta(minutes=30),
    # Waiting is how flex-start works; a day of it may be normal, and somebody should know.
    Tier.FLEX_START: timedelta(hours=6),
}
RESTARTS_PER_POD_MAX = 6
RESTARTS_WINDOW = "6h"
CHECKPOINT_AGE_MIN = timedelta(hours=2)
EXPIRY_LEAD = timedelta(hours=1)


def pending_threshold(settled: Settled) -> timedelta:
    return settled.workload.alerts.pending or PENDING_DEFAULTS[settled.tier]


def workload_groups(settled: Settled) -> list[Value]:
    """Rules over what lives in the workload's namespace."""
    return [{"name": f"outlast-{settled.name}", "rules": list(_workload_rules(settled))}]


def queue_groups(settled: Settled) -> list[Value]:
    """Rules over Kueue, whose metrics come from its own namespace. Empty without it."""
    if not settled.is_queued:
        return []
    return [{"name": f"outlast-{settled.name}-kueue", "rules": list(_kueue_rules(settled))}]


def pod_pattern(settled: Settled) -> str:
    workload = settled.workload
    if workload.kind is Kind.SERVING or workload.endless:
        return deployment_pod_pattern(settled)
    if workload.nodes > 1:
        return jobset_pod_pattern(settled)
    return job_pod_pattern(settled)


def _workload_rules(settled: Settled) -> Iterator[Value]:
    pods = f"namespace='{settled.namespace}', pod=~'{pod_pattern(settled)}'"
    yield _pending(settled, pods)
    if settled.workload.kind is Kind.SERVING:
        yield _unavailable(settled)
        return
    if not settled.workload.endless:
        yield _restarts(settled, pods)
    yield _no_progress(pods)
    if settled.workload.checkpoint is not None:
        yield _old_checkpoint(settled, pods)
    if settled.workload.queue is not None:
        yield _deep_queue(pods)
    if settled.has_lease:
        yield _expiry_ahead(pods)
    yield _blind(pods)


def _pending(settled: Settled, pods: str) -> Value:
    return _rule(
        "OutlastPodPending",
        f"max by (namespace, pod) (kube_pod_status_phase{{{pods}, phase='Pending'}}) == 1",
        wait=pending_threshold(settled),
        summary="Pod {{ $labels.pod }} waits for a node.",
        description="No capacity of this tier, quota used up, or a selector that no pool meets. "
        "See `kubectl describe pod`.",
    )


def _unavailable(settled: Settled) -> Value:
    name, wanted = settled.name, settled.workload.pods
    metric = "kube_deployment_status_replicas_available"
    return _rule(
        "OutlastServerUnavailable",
        f"{metric}{{namespace='{settled.namespace}', deployment='{name}'}} < {wanted}",
        wait=timedelta(minutes=10),
        summary="Fewer replicas serve than were asked for.",
        description="Look at the Pods that are not ready.",
    )


def _restarts(settled: Settled, pods: str) -> Value:
    limit = settled.workload.pods * (1 + RESTARTS_PER_POD_MAX)
    ran = f"max_over_time(kube_pod_status_phase{{{pods}, phase='Running'}}[{RESTARTS_WINDOW}]) == 1"
    done = ran.replace("'Running'", "'Succeeded'")
    expression = f"count by (namespace) ({ran} unless on (namespace, pod) {done}) > {limit}"
    return _rule(
        "OutlastEvictionsFrequent",
        Why(expression, "Every replacement has a name of its own, so names count the evictions."),
        wait=timedelta(minutes=0),
        summary=f"More than {RESTARTS_PER_POD_MAX} evictions or failures a Pod in "
        f"{RESTARTS_WINDOW}.",
        description="The Job's back-off has grown to 10 minutes by now. Another zone, machine or "
        "tier may cost less in the end: see `outlast plan`.",
    )


def _no_progress(pods: str) -> Value:
    progress = f"sum by (namespace) (increase({PROGRESS}{{{pods}}}[30m])) == 0"
    return _rule(
        "OutlastNoProgress",
        f"{progress} and on (namespace) {_running(pods)}",
        wait=timedelta(minutes=15),
        summary="Pods run, but no step or item was finished for half an hour.",
        description="A hang costs as much as work. Look at the newest log lines.",
    )


def _old_checkpoint(settled: Settled, pods: str) -> Value:
    checkpoint = settled.workload.checkpoint
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
        description="An eviction without notice would lose that much. Are saves failing?",
    )


def _deep_queue(pods: str) -> Value:
    depth = f"max by (namespace) ({QUEUE_READY}{{{pods}}}"
    return _rule(
        "OutlastQueueNotShrinking",
        f"{depth}) > 0 and on (namespace) {depth}) >= on (namespace) {depth} offset 1h)",
        wait=timedelta(minutes=30),
        summary="The queue is no shorter than an hour ago.",
        description="Too few workers, or items that fail. See `outlast queue`.",
    )


def _expiry_ahead(pods: str) -> Value:
    seconds = int(EXPIRY_LEAD.total_seconds())
    return _rule(
        "OutlastExpiryAhead",
        f"min by (namespace, pod) ({EXPIRES}{{{pods}}}) - time() < {seconds}",
        wait=timedelta(minutes=0),
        severity="info",
        summary="The node of {{ $labels.pod }} goes within the hour.",
        description="The process saves and leaves ahead of it; a new node must be found then.",
    )


def _blind(pods: str) -> Value:
    return _rule(
        "OutlastMetricsMissing",
        f"{_running(pods)} unless on (namespace) count by (namespace) ({PROGRESS}{{{pods}}})",
        wait=timedelta(minutes=30),
        severity="info",
        summary="Pods run, but none of them exports metrics.",
        description="Alerts on progress and checkpoints cannot fire until they do.",
    )


def _kueue_rules(settled: Settled) -> Iterator[Value]:
    # Without our own setup the name of the cluster queue is not known, so all of them count.
    kueue = settled.workload.cluster.kueue
    own = kueue is not None and kueue.setup
    queue = f"cluster_queue='{cluster_queue_name(settled)}'" if own else ""
    threshold = pending_threshold(settled)
    yield _rule(
        "OutlastQueuedInKueue",
        Why(
            f"sum by (cluster_queue) (kueue_pending_workloads{{{queue}}}) > 0",
            "A queued Job has no Pods, so that an alert on Pods sees nothing of it.",
        ),
        wait=threshold,
        summary="A workload waits in {{ $labels.cluster_queue }}.",
        description="The quota of the queue is used up, or the Job asks for more than it has.",
    )
    reserving = f"sum by (cluster_queue) (kueue_reserving_active_workloads{{{queue}}})"
    admitted = f"sum by (cluster_queue) (kueue_admitted_active_workloads{{{queue}}})"
    yield _rule(
        "OutlastProvisioningSlow",
        f"{reserving} - {admitted} > 0",
        wait=threshold,
        summary="A workload of {{ $labels.cluster_queue }} has its quota, but no nodes.",
        description="GKE has not found all its nodes at once. Fewer Pods in a Job start sooner.",
    )
    bucket = f"rate(kueue_admission_wait_time_seconds_bucket{{{queue}}}[1d])"
    yield _rule(
        "OutlastAdmissionSlow",
        f"histogram_quantile(0.95, sum by (le, cluster_queue) ({bucket})) > "
        f"{int(threshold.total_seconds())}",
        wait=timedelta(minutes=0),
        severity="info",
        summary="Workloads of {{ $labels.cluster_queue }} wait long for admission.",
        description="Over the last day, one in twenty waited longer than the threshold.",
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
