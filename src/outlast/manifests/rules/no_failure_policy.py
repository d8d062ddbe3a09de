"""A Job on Spot without a podFailurePolicy.

Why: on SIGTERM most programs save and exit 0, as guides tell them to. Since Kubernetes 1.27 such a
Pod counts as succeeded, so the Job is complete with its work unfinished. A program that exits with
another code instead spends the Job's few retries on evictions that are nobody's fault.
Instead: exit with 75 when interrupted (OUTLAST_EXIT_CODE, which `outlast exec` and `outlast.Run`
honour), and add a podFailurePolicy that ignores first the condition DisruptionTarget and then that
exit code. It needs restartPolicy: Never.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Change, Put
from outlast.manifests.lint.failure_policy import (
    IGNORE_DISRUPTIONS,
    INTERRUPTED_CODE,
    ignoring_code,
)
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

POLICY = {"rules": [IGNORE_DISRUPTIONS, ignoring_code(INTERRUPTED_CODE)]}


@pod_rule("OL103", Severity.ERROR)
def no_failure_policy(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by a policy of its own.
    if pod.job is None or pod.owner_kind == "JobSet" or not review.aim(pod).includes_spot:
        return
    if pod.job.get("spec", "podFailurePolicy") is not None:
        return
    changes: tuple[Change, ...] = (Put(("spec", "podFailurePolicy"), POLICY),)
    yield pod.job.fault(
        "This Job may run on Spot and has no podFailurePolicy: a Pod that saves and exits 0 when "
        "its node is reclaimed completes the Job.",
        at=("spec", "podFailurePolicy"),
        # What it does to the Job's retries is for a person to agree to.
        fix=pod.job.fix("Ignore disruptions and exit code 75", *changes, is_safe=False)
        if pod.restart_policy == "Never"
        else None,
    )
