"""An alert on Pending Pods over work that Kueue holds back.

Why: a Job in a queue of Kueue is suspended and has no Pods. However long it waits, an alert on
Pending Pods sees nothing and stays green.
Instead: alert on kueue_pending_workloads and kueue_admission_wait_time_seconds, beside the alert on
Pods, which sees what waits for nodes after its admission. `outlast render` writes both.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.alerts import alert_texts
from outlast.manifests.lint.kueue import queued
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, review_rule
from outlast.manifests.lint.view import Fault

_WAITING_POD = re.compile(r"kube_pod_status_(?:phase\b[^}]{0,500}?Pending|unschedulable)")
_KUEUE_METRIC = re.compile(r"\bkueue_\w+")


@review_rule("OL302", Severity.WARNING)
def pod_alert_on_kueue(review: Review) -> Iterator[Fault]:
    first = next(queued(review), None)
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
                f"This alert watches Pods, and {first[0]} has none while it waits in the queue "
                f"{first[1]!r}.",
                at=at,
            )
