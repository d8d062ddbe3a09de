"""A disruption budget over a Job that can never be worked out.

Why: maxUnavailable and percentages are counted against the number of Pods that a controller wants.
A Job does not offer that number (it has no /scale), so the budget allows no disruption at all:
every drain and upgrade of a node waits for it. A Spot reclaim and the end of a lease do not ask it.
Instead: use a whole number as minAvailable, or no budget: work that resumes needs none.
"""

from collections.abc import Iterator

from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.selecting import pods_selected
from outlast.manifests.lint.view import Fault, Manifest


@object_rule("OL701", Severity.WARNING)
def budget_over_job(manifest: Manifest, review: Review) -> Iterator[Fault]:
    if manifest.kind != "PodDisruptionBudget" or "selector" not in manifest.mapping("spec"):
        return
    if manifest.get("spec", "maxUnavailable") is not None:
        field = "maxUnavailable"
    elif manifest.text("spec", "minAvailable") is not None:
        field = "minAvailable"
    else:
        return
    selector = manifest.mapping("spec", "selector")
    job = next((pod for pod in pods_selected(selector, manifest, review) if pod.job), None)
    if job is not None:
        value = manifest.get("spec", field)
        shown = repr(value) if isinstance(value, str) else value
        yield manifest.fault(
            f"{field} is {shown} over the Pods of {job.manifest}, and cannot be worked out for a "
            "Job: the budget blocks every drain.",
            at=("spec", field),
            of_key=True,
        )
