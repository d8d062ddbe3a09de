"""A parameter for queued provisioning is on the Pod template, where Kueue ignores it.

Why: Kueue copies annotations such as provreq.kueue.x-k8s.io/maxRunDurationSeconds to the request
for nodes, and reads them from the object that it queues: the Job, not its Pods. On the Pod template
the parameter is silently ignored, and the nodes are requested for the default of seven days, which
makes them harder to get.
Instead: move the annotation to the metadata of the Job itself (in a CronJob, to the metadata of the
jobTemplate).
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    POD_BY_POD_KINDS,
    PROVISIONING_PREFIX,
    Change,
    Fault,
    Fix,
    Path,
    Pod,
    Put,
    Remove,
    Review,
    Severity,
    pod_rule,
)


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
            f"Kueue reads {key!r} from the {pod.owner_kind}, not from its Pod template, so it is "
            "ignored here.",
            at=("metadata", "annotations", key),
            of_key=True,
            # The parameter would take effect for the first time.
            fix=_moved(pod, key, queued_at) if len(misplaced) == 1 else None,
        )


def _queued_at(pod: Pod) -> Path:
    """The path of the object that Kueue queues."""
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
    # Remove a mapping that would be left empty.
    while len(pod.manifest.mapping(*old[:-1])) == 1:
        old = old[:-1]
    title = f"Move the annotation to the {pod.owner_kind}"
    return pod.manifest.fix(title, put, Remove(old), is_safe=False)
