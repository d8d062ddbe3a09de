"""A parameter of queued provisioning on the Pod template, where Kueue does not look.

Why: Kueue passes annotations such as provreq.kueue.x-k8s.io/maxRunDurationSeconds on to the request
for nodes, and reads them from the object that it queues: the Job, not its Pods. On the template the
parameter is ignored without a word, and the nodes come for the default of seven days, which is
harder to get.
Instead: put the annotation into the metadata of the Job itself (of the jobTemplate in a CronJob).
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Change, Fix, Put, Remove
from outlast.manifests.lint.kueue import POD_BY_POD_KINDS, PROVISIONING_PREFIX
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL303", Severity.WARNING)
def duration_on_template(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind in POD_BY_POD_KINDS or not pod.path:
        return
    queued_at = _queued_at(pod)
    known = pod.manifest.mapping(*queued_at, "metadata", "annotations")
    misplaced = [
        key
        for key in pod.mapping("metadata", "annotations")
        if key.startswith(PROVISIONING_PREFIX) and key not in known
    ]
    for key in misplaced:
        yield pod.fault(
            f"Kueue reads {key!r} from the {pod.owner_kind}, not from its Pod template: here it "
            "is ignored.",
            at=("metadata", "annotations", key),
            of_key=True,
            # What was without effect until now would get one.
            fix=_moved(pod, key, queued_at) if len(misplaced) == 1 else None,
        )


def _queued_at(pod: Pod) -> Path:
    """Where the object stands that Kueue queues."""
    return pod.job.path if pod.job is not None and pod.owner_kind == "CronJob" else ()


def _moved(pod: Pod, key: str, queued_at: Path) -> Fix:
    value = pod.get("metadata", "annotations", key)
    annotations: Path = (*queued_at, "metadata", "annotations")
    put: Change = Put((*annotations, key), value)
    if not pod.manifest.mapping(*annotations):
        put = Put(annotations, {key: value})
        if not pod.manifest.mapping(*annotations[:-1]):
            put = Put(annotations[:-1], {"annotations": {key: value}})
    old: Path = (*pod.path, "metadata", "annotations", key)
    # A mapping that would be left empty goes as a whole.
    while len(pod.manifest.mapping(*old[:-1])) == 1:
        old = old[:-1]
    title = f"Move it to the {pod.owner_kind}"
    return pod.manifest.fix(title, put, Remove(old), is_safe=False)
