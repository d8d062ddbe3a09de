"""An Indexed Job that does not say how many indices it has.

Why: each Pod of an Indexed Job works on one of so many indices. With a parallelism and no
completions that number is unknown, and the API server refuses the Job. A JobSet makes its Jobs
Indexed unless told otherwise, and then it is the JobSet that hangs, without Pods.
Instead: set completions to the number of indices, mostly the same as parallelism.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.pod import Job, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL907", Severity.ERROR)
def indexed_without_completions(pod: Pod, review: Review) -> Iterator[Fault]:
    job = pod.job
    if job is None or job.manifest.is_base or not _is_indexed(job):
        return
    parallelism = job.integer("spec", "parallelism")
    # With neither of them, both are 1.
    if parallelism is None or job.get("spec", "completions") is not None:
        return
    at = ("spec", "completions")
    yield job.fault(
        f"The Job is Indexed and runs {parallelism} Pods at once, but does not say how many "
        "completions it needs.",
        at=("spec", "completionMode" if job.is_indexed else "parallelism"),
        fix=job.fix(f"Set completions to {parallelism}", Put(at, parallelism), is_safe=True)
        if parallelism > 0
        else None,
    )


def _is_indexed(job: Job) -> bool:
    is_default = job.owner_kind == "JobSet" and job.get("spec", "completionMode") is None
    return job.is_indexed or is_default
