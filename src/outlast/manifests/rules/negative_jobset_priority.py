"""A JobSet has a negative priority, so some versions of JobSet create no Pods.

Why: JobSet 0.11 and 0.12 copy the priority of the Pods into a label. The value of a label cannot
start with '-', so the API server rejects every Pod. The JobSet stays without Pods, and only the
events of its Jobs show why.
Instead: use priority 0 or higher. Lower the others instead: give servers a priority above 0.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule


@pod_rule("OL513", Severity.WARNING)
def negative_jobset_priority(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind != "JobSet":
        return
    priority, key = pod.integer("spec", "priority"), "priority"
    if priority is None and (name := pod.text("spec", "priorityClassName")) is not None:
        priority_class = review.find("PriorityClass", name, near=pod.manifest)
        # A class that no file defines has an unknown value.
        priority = None if priority_class is None else priority_class.integer("value")
        key = "priorityClassName"
    if priority is not None and priority < 0:
        yield pod.fault(
            f"The priority of these Pods is {priority}. JobSet 0.11 and 0.12 create no Pods with "
            "a negative priority.",
            at=("spec", key),
        )
