"""An accelerator Job on Spot has no durable place to save its work.

Why: the Pod mounts nothing that survives its node, and nothing in it refers to an object store, a
database or a service account that could reach one. Each eviction discards all of the work, and so
does the end of the Job.
Instead: save to an object store (set OUTLAST_RUN_URL or CHECKPOINT_DIR to gs://bucket/run, and use
a service account that can write there), or mount a PersistentVolumeClaim or a bucket.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    Pod,
    Review,
    Severity,
    may_reach_store,
    only_shows_or_measures,
    pod_rule,
)
from outlast.manifests.rules.checkpoint_not_on_volume import CHECKPOINT_VARIABLE


@pod_rule("OL403", Severity.WARNING)
def no_durable_store(pod: Pod, review: Review) -> Iterator[Fault]:
    # Most work without accelerators is cheap to repeat and needs no store.
    if pod.job is None or not pod.accelerators or not review.placement(pod).includes_spot:
        return
    # If a variable names a checkpoint location, other rules check it.
    if any(CHECKPOINT_VARIABLE.fullmatch(name) for one in pod.containers for name in one.variables):
        return
    if all(map(only_shows_or_measures, pod.containers)):
        return
    if not may_reach_store(pod, review):
        yield pod.fault(
            "This Job may run on Spot, but nothing it mounts or refers to survives its node: an "
            "eviction loses all of its work.",
            at=("spec", "volumes"),
        )
