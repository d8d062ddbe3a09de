"""The Job's parallelism is higher than its completions.

Why: a Job never runs more Pods than it has completions left, so a parallelism above completions has
no effect. Readers of the manifest expect nodes, quota usage and throughput that the Job never
reaches.
Instead: set parallelism to completions or less, or raise completions if there is more work.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Put, Review, Severity, pod_rule


@pod_rule("OL602", Severity.INFO)
def excess_parallelism(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None:
        return
    at = ("spec", "parallelism")
    parallelism, completions = pod.job.integer(*at), pod.job.integer("spec", "completions")
    if parallelism is not None and completions is not None and 0 < completions < parallelism:
        yield pod.job.fault(
            f"parallelism is {parallelism}, but completions is only {completions}.",
            at=at,
            fix=pod.job.fix(
                f"Set parallelism to {completions}", Put(at, completions), is_safe=True
            ),
        )
