"""A Job names a queue that lives in another namespace.

Why: a LocalQueue serves the Jobs of its own namespace. A Job elsewhere that names it is suspended
and waits for a queue that is not there, without an error.
Instead: create a LocalQueue of that name in the namespace of the Job, for the same ClusterQueue.
"""

from collections.abc import Iterator

from outlast.manifests.lint.kueue import of_kueue, queue_label_at, queue_of
from outlast.manifests.lint.review import Review, share_namespace
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.view import Fault, Manifest


@object_rule("OL305", Severity.WARNING)
def queue_in_other_namespace(manifest: Manifest, review: Review) -> Iterator[Fault]:
    queue = queue_of(manifest)
    if queue is None:
        return
    same = [one for one in of_kueue(review, "LocalQueue") if one.name == queue]
    if not same or any(share_namespace(one, manifest) for one in same):
        return
    elsewhere = ", ".join(sorted({repr(one.namespace) for one in same}))
    yield manifest.fault(
        f"The LocalQueue {queue!r} is in the namespace {elsewhere}, and this {manifest.kind} is "
        f"in {manifest.namespace!r}.",
        at=queue_label_at(manifest),
    )
