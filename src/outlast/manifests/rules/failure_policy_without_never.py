"""A podFailurePolicy is used without restartPolicy: Never.

Why: with any other restartPolicy the kubelet restarts containers itself and the Job does not see
them fail, so Kubernetes rejects a Job that has a podFailurePolicy without Never. In a JobSet,
restartPolicy defaults to OnFailure, and then no Job can be created from the template.
Instead: set restartPolicy: Never.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Put, Review, Severity, pod_rule


@pod_rule("OL108", Severity.ERROR)
def failure_policy_without_never(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not pod.job.mapping("spec", "podFailurePolicy"):
        return
    written = pod.get("spec", "restartPolicy")
    if written == "Never" or (written is None and pod.manifest.is_base):
        return
    at = ("spec", "restartPolicy")
    what = f"restartPolicy is {written!r}" if written is not None else "restartPolicy is not set"
    yield pod.fault(
        f"{what}, but a podFailurePolicy requires Never: Kubernetes rejects the Job.",
        at=at,
        # Without the fix, the Job cannot run at all.
        fix=pod.fix("Set restartPolicy: Never", Put(at, "Never"), is_safe=True),
    )
