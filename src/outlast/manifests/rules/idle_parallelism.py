"""A Job asks for more Pods at once than it has work for.

Why: a Job never runs more Pods than it has completions left, so a parallelism above completions
has no effect. Who reads it reckons with nodes, quota and a speed that never come.
Instead: set parallelism to completions or less; or raise completions, if there is more work.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL602", Severity.INFO)
def idle_parallelism(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None:
        return
    at = ("spec", "parallelism")
    parallelism, completions = pod.job.integer(*at), pod.job.integer("spec", "completions")
    if parallelism is not None and completions is not None and 0 < completions < parallelism:
        yield pod.job.fault(
            f"parallelism is {parallelism}, and only {completions} Pods have something to do.",
            at=at,
            fix=pod.job.fix(f"Set it to {completions}", Put(at, completions), is_safe=True),
        )
