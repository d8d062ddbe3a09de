"""An alert on Pending Pods does not cover Jobs that wait in Kueue.

Why: a Job in a Kueue queue is suspended and has no Pods. However long it waits, an alert on Pending
Pods never fires.
Instead: also alert on kueue_pending_workloads and kueue_admission_wait_time_seconds. Keep the alert
on Pods: it covers the wait for nodes after admission. `outlast render` generates both.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    Review,
    Severity,
    alert_texts,
    queued_objects,
    review_rule,
)

_WAITING_POD = re.compile(r"kube_pod_status_(?:phase\b[^}]{0,500}?Pending|unschedulable)")
_KUEUE_METRIC = re.compile(r"\bkueue_\w+")


@review_rule("OL302", Severity.WARNING)
def pod_alert_on_kueue(review: Review) -> Iterator[Fault]:
    first = next(queued_objects(review), None)
    if first is None:
        return
    texts = [
        (manifest, at, text)
        for manifest in review.manifests
        for at, text in alert_texts(manifest)
        if not manifest.is_patch
    ]
    if any(_KUEUE_METRIC.search(text) for _, _, text in texts):
        return
    for manifest, at, text in texts:
        if _WAITING_POD.search(text):
            yield manifest.fault(
                f"This alert watches Pods, but {first[0]} has none while it waits in the queue "
                f"{first[1]!r}.",
                at=at,
            )
