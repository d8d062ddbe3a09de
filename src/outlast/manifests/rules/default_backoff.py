"""A Job on Spot that gives up after the default of six failed Pods.

Why: with restartPolicy: Never each eviction leaves a failed Pod behind. The default backoffLimit is
6, so the seventh eviction ends the Job for good, however well it resumes.
Instead: ignore disruptions in a podFailurePolicy, so that only real failures count; or set a
backoffLimit that leaves room for all the evictions of a long run.
"""

from collections.abc import Iterator

from outlast.manifests.lint.failure_policy import ignores_disruptions
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL104", Severity.WARNING)
def default_backoff(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet counts restarts of its own.
    if pod.job is None or pod.owner_kind == "JobSet" or pod.restart_policy != "Never":
        return
    if not review.aim(pod).includes_spot or ignores_disruptions(pod.job):
        return
    if pod.job.get("spec", "backoffLimit") is None:
        if pod.job.get("spec", "backoffLimitPerIndex") is None:
            yield pod.fault(
                "Each eviction counts as a failure, and the default backoffLimit of 6 ends this "
                "Job at the seventh.",
                at=("spec", "restartPolicy"),
            )
