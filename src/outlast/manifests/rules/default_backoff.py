"""A Job on Spot fails permanently after a few evictions.

Why: with restartPolicy: Never, each eviction leaves a failed Pod, and every failed Pod counts
toward the backoffLimit. With the default of 6, the seventh eviction fails the Job permanently, even
if it resumed correctly every time. With a backoffLimit of 0, the first eviction does.
Instead: ignore disruptions in a podFailurePolicy so that only real failures count, or set a
backoffLimit that allows for all evictions of a long run.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, ignores_disruptions, pod_rule


@pod_rule("OL104", Severity.WARNING)
def default_backoff(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet counts restarts of its own.
    if pod.job is None or pod.owner_kind == "JobSet":
        return
    if not review.placement(pod).includes_spot or ignores_disruptions(pod.job):
        return
    if pod.job.get("spec", "backoffLimitPerIndex") is not None:
        return
    limit = pod.job.get("spec", "backoffLimit")
    if limit == 0:
        yield pod.job.fault(
            "backoffLimit is 0, so the first eviction ends this Job.",
            at=("spec", "backoffLimit"),
        )
    elif limit is None and pod.restart_policy == "Never":
        yield pod.fault(
            "Each eviction counts as a failure, so with the default backoffLimit of 6 the "
            "seventh eviction fails this Job.",
            at=("spec", "restartPolicy"),
        )
