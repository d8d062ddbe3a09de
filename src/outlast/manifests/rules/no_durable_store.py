"""An accelerator Job on Spot that has nowhere to keep what it computes.

Why: the Pod mounts nothing that outlives its node, and nothing in it names an object store, a
database or a service account that could reach one. Each eviction throws away all of the work, and
so does the end of the Job.
Instead: give it an object store to save to (OUTLAST_RUN_URL or CHECKPOINT_DIR: gs://bucket/run, and
a service account that may write there), or mount a claim or a bucket.
"""

from collections.abc import Iterator

from outlast.manifests.lint.durability import may_reach_store
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault
from outlast.manifests.rules.checkpoint_off_volume import CHECKPOINT_VARIABLE


@pod_rule("OL403", Severity.WARNING)
def no_durable_store(pod: Pod, review: Review) -> Iterator[Fault]:
    # What is cheap to do again needs no store, and that is most of what runs without accelerators.
    if pod.job is None or not pod.accelerators or not review.aim(pod).includes_spot:
        return
    # Where checkpoints are spoken of, other rules look at their place.
    if any(CHECKPOINT_VARIABLE.fullmatch(name) for one in pod.containers for name in one.variables):
        return
    if not may_reach_store(pod, review):
        yield pod.fault(
            "This Job may run on Spot, and nothing it mounts or names outlives its node: an "
            "eviction loses all of its work.",
            at=("spec", "volumes"),
        )
