"""A deadline that runs while the Job waits for nodes.

Why: activeDeadlineSeconds of a Job counts from its start, and it has started as soon as it exists:
the hours in which its Pods are Pending count too, and so does each wait after an eviction. A Job
that had to wait for flex-start or Spot nodes is ended before its work is done, or before it began.
While Kueue holds a Job back, the clock stands still.
Instead: set activeDeadlineSeconds on the Pod template, where it counts from the start of the Pod on
a node, or leave it out and alert on Pods that are Pending; or let Kueue queue the Job.
"""

from collections.abc import Iterator

from outlast.manifests.lint.kueue import queue_of
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL306", Severity.WARNING)
def deadline_while_queued(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None:
        return
    seconds = pod.job.integer("spec", "activeDeadlineSeconds")
    tiers = review.aim(pod).tiers
    if seconds is None or not tiers & {Tier.SPOT, Tier.FLEX_START}:
        return
    # With its nodes at hand when it starts, and no reclaim, nothing else burns the clock.
    if queue_of(pod.manifest) is not None and Tier.SPOT not in tiers:
        return
    kind = "flex-start" if Tier.SPOT not in tiers else "Spot"
    yield pod.job.fault(
        f"The deadline of {seconds} s runs while the Pods wait for {kind} nodes, and ends the Job "
        "in the middle of its work.",
        at=("spec", "activeDeadlineSeconds"),
    )
