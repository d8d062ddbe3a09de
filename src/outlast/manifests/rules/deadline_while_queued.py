"""The Job's deadline keeps running while the Job waits for nodes.

Why: activeDeadlineSeconds of a Job counts from the time the Job is created, so time spent Pending
counts too, both at the beginning and after each eviction. A Job that has to wait for flex-start or
Spot nodes is terminated before its work is done, or even before it begins. The clock stops only
while Kueue keeps the Job suspended.
Instead: set activeDeadlineSeconds on the Pod template, where it counts from the time the Pod starts
on a node; or remove it and alert on Pending Pods; or queue the Job with Kueue.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, NodeTier, Pod, Review, Severity, pod_rule, queue_of


@pod_rule("OL306", Severity.WARNING)
def deadline_while_queued(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None:
        return
    seconds = pod.job.integer("spec", "activeDeadlineSeconds")
    tiers = review.placement(pod).tiers
    if seconds is None or not tiers & {NodeTier.SPOT, NodeTier.FLEX_START}:
        return
    # Kueue starts the Job when its nodes are ready, and flex-start nodes are not reclaimed.
    if queue_of(pod.manifest) is not None and NodeTier.SPOT not in tiers:
        return
    kind = "flex-start" if NodeTier.SPOT not in tiers else "Spot"
    yield pod.job.fault(
        f"The deadline of {seconds} s keeps running while the Pods wait for {kind} nodes, so the "
        "Job may be terminated before its work is done.",
        at=("spec", "activeDeadlineSeconds"),
    )
