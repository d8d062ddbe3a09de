"""A podFailurePolicy without restartPolicy: Never.

Why: with any other restartPolicy the kubelet restarts containers itself and the Job never sees them
fail, so Kubernetes refuses a Job that has a podFailurePolicy and not Never. In a JobSet the
restartPolicy is OnFailure if none is written, and then no Job can be made from the template.
Instead: write restartPolicy: Never.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL108", Severity.ERROR)
def policy_needs_never(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not pod.job.mapping("spec", "podFailurePolicy"):
        return
    written = pod.get("spec", "restartPolicy")
    if written == "Never" or (written is None and pod.manifest.is_base):
        return
    at = ("spec", "restartPolicy")
    what = f"restartPolicy is {written!r}" if written is not None else "No restartPolicy is written"
    yield pod.fault(
        f"{what}, and a podFailurePolicy needs Never: Kubernetes refuses the Job.",
        at=at,
        # As it is, it does not run at all.
        fix=pod.fix("Set restartPolicy: Never", Put(at, "Never"), is_safe=True),
    )
