"""A Job on Spot uses the default backoffLimit of 6.

Why: with restartPolicy: Never, each eviction leaves a failed Pod, and every failed Pod counts
toward the backoffLimit. With the default of 6, the seventh eviction fails the Job permanently, even
if it resumed correctly every time.
Instead: ignore disruptions in a podFailurePolicy so that only real failures count, or set a
backoffLimit that allows for all evictions of a long run.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, ignores_disruptions, pod_rule


@pod_rule("OL104", Severity.WARNING)
def default_backoff(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet counts restarts of its own.
    if pod.job is None or pod.owner_kind == "JobSet" or pod.restart_policy != "Never":
        return
    if not review.placement(pod).includes_spot or ignores_disruptions(pod.job):
        return
    if pod.job.get("spec", "backoffLimit") is None:
        if pod.job.get("spec", "backoffLimitPerIndex") is None:
            yield pod.fault(
                "Each eviction counts as a failure, so with the default backoffLimit of 6 the "
                "seventh eviction fails this Job.",
                at=("spec", "restartPolicy"),
            )
