"""A Job names a queue in another namespace.

Why: a LocalQueue serves only the Jobs in its own namespace. A Job in another namespace stays
suspended, waiting for a queue that does not exist there, and no error is reported.
Instead: create a LocalQueue with that name in the namespace of the Job, for the same ClusterQueue.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Review,
    Severity,
    kueue_objects,
    object_rule,
    queue_label_at,
    queue_of,
    share_namespace,
)


@object_rule("OL305", Severity.WARNING)
def queue_in_other_namespace(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    queue = queue_of(manifest)
    if queue is None:
        return
    same = [one for one in kueue_objects(review, "LocalQueue") if one.name == queue]
    if not same or any(share_namespace(one, manifest) for one in same):
        return
    elsewhere = ", ".join(sorted({repr(one.namespace) for one in same}))
    yield manifest.fault(
        f"LocalQueue {queue!r} is in namespace {elsewhere}, but this {manifest.kind} is in "
        f"{manifest.namespace!r}.",
        at=queue_label_at(manifest),
    )
