"""A Job on Spot has no podFailurePolicy.

Why: on SIGTERM most programs save and exit 0, as many guides recommend. Since Kubernetes 1.27 such
a Pod counts as succeeded, so the Job is marked as complete with its work unfinished. If a program
exits with another code instead, each eviction uses up one of the Job's few retries.
Instead: exit with 75 when interrupted (set OUTLAST_EXIT_CODE, which `outlast exec` and
`outlast.Run` use), and add a podFailurePolicy that first ignores the condition DisruptionTarget and
then that exit code. This requires restartPolicy: Never.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    IGNORE_DISRUPTIONS,
    INTERRUPTED_CODE,
    Change,
    Fault,
    Pod,
    Put,
    Review,
    Severity,
    ignoring_code,
    pod_rule,
)

POLICY = {"rules": [IGNORE_DISRUPTIONS, ignoring_code(INTERRUPTED_CODE)]}


@pod_rule("OL103", Severity.ERROR)
def no_failure_policy(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by its own policy.
    if pod.job is None or pod.owner_kind == "JobSet" or not review.placement(pod).includes_spot:
        return
    if pod.job.get("spec", "podFailurePolicy") is not None:
        return
    changes: tuple[Change, ...] = (Put(("spec", "podFailurePolicy"), POLICY),)
    yield pod.job.fault(
        "This Job may run on Spot and has no podFailurePolicy: an eviction uses up a retry or, if "
        "the program saves and exits 0, marks the Job as complete.",
        at=("spec", "podFailurePolicy"),
        # It changes how retries are counted, so someone has to agree to it.
        fix=pod.job.fix("Ignore disruptions and exit code 75", *changes, is_safe=False)
        if pod.restart_policy == "Never"
        else None,
    )
