"""An Indexed Job does not set completions.

Why: each Pod of an Indexed Job works on one index, and completions is the number of indexes. If
parallelism is set without completions, the API server rejects the Job. A JobSet makes its Jobs
Indexed by default; the JobSet is then accepted, but never creates any Pods.
Instead: set completions to the number of indexes, which is usually the same as parallelism.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Job, Pod, Put, Review, Severity, pod_rule


@pod_rule("OL907", Severity.ERROR)
def indexed_without_completions(pod: Pod, review: Review) -> Iterator[Fault]:
    job = pod.job
    if job is None or job.manifest.is_base or not _is_indexed(job):
        return
    parallelism = job.integer("spec", "parallelism")
    # If neither is set, both are 1.
    if parallelism is None or job.get("spec", "completions") is not None:
        return
    at = ("spec", "completions")
    yield job.fault(
        f"The Job is Indexed and parallelism is {parallelism}, but completions is not set.",
        at=("spec", "completionMode" if job.is_indexed else "parallelism"),
        fix=job.fix(f"Set completions to {parallelism}", Put(at, parallelism), is_safe=True)
        if parallelism > 0
        else None,
    )


def _is_indexed(job: Job) -> bool:
    is_default = job.owner_kind == "JobSet" and job.get("spec", "completionMode") is None
    return job.is_indexed or is_default
