"""Evictions use up the restarts of a JobSet.

Why: a JobSet restarts all its Jobs when one of them fails, up to maxRestarts times in its life. If
evictions count, a long run on Spot fails permanently after a few of them, although it resumed
correctly every time. Two kinds of Pods have to be told apart from real failures: the evicted Pod,
which has the condition DisruptionTarget, and the Pods on other nodes that stop because of it, which
only have their exit code (75 with Outlast).
Instead: in each Job, set backoffLimit: 0 and a podFailurePolicy with the action FailJob for
DisruptionTarget and for exit code 75. In the JobSet, add a rule for the reason PodFailurePolicy
with the action RestartJobSetAndIgnoreMaxRestarts; maxRestarts then limits real failures only. With
restartStrategy: BlockingRecreate, old and new Pods never run at the same time.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    CODE_VARIABLE,
    FAILURE_POLICY,
    Fault,
    Job,
    KubernetesObject,
    Pod,
    Review,
    Severity,
    ending_by_code,
    ending_by_disruptions,
    failures_allowed,
    interrupted_code_of,
    max_restarts_of,
    pod_rule,
)


@pod_rule("OL116", Severity.WARNING)
def jobset_counts_evictions(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or pod.owner_kind != "JobSet" or not review.placement(pod).includes_spot:
        return
    ending = ending_by_disruptions(pod.job)
    allowed = None if ending is None else failures_allowed(pod.manifest, pod.job, ending)
    if ending is None or allowed is None:
        yield from _by_code(pod, pod.job)
    # If the JobSet does not restart at all, another rule reports it.
    elif allowed >= ending.failures:
        yield pod.manifest.fault(
            f"Evictions count as failures, so number {allowed + 1} fails the JobSet: maxRestarts "
            f"is {max_restarts_of(pod.manifest)}.",
            at=(*FAILURE_POLICY, "maxRestarts"),
        )


def _by_code(pod: Pod, job: Job) -> Iterator[Fault]:
    # With another policy, the kubelet restarts the container in its Pod.
    if pod.restart_policy != "Never":
        return
    jobset: KubernetesObject = pod.manifest
    for container in pod.containers:
        code = interrupted_code_of(container)
        ending = ending_by_code(job, code, container) if code else None
        allowed = None if ending is None else failures_allowed(jobset, job, ending)
        if allowed is None:
            continue
        variable = container.variables.get(CODE_VARIABLE)
        ends = "the first" if allowed == 0 else f"number {allowed + 1}"
        yield container.fault(
            f"When interrupted, this container exits with {code}, which counts as a failure: "
            f"{ends} fails the JobSet.",
            at=variable.at if variable is not None else ("name",),
        )
