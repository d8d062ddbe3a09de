"""A PodDisruptionBudget for a Job has a value that Kubernetes cannot evaluate.

Why: Kubernetes evaluates maxUnavailable and percentages against the number of Pods that the
controller wants, which it reads from the /scale subresource. A Job has no /scale, so the budget
allows no disruptions at all and blocks every node drain and upgrade. It does not stop a Spot
reclaim or the expiry of a flex-start node.
Instead: set minAvailable to an integer, or remove the budget: a Job that can resume does not need
one.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Review,
    Severity,
    object_rule,
    pods_selected,
)


@object_rule("OL701", Severity.WARNING)
def budget_on_job(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
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
            f"{field} is {shown}, which Kubernetes cannot evaluate for the Pods of {job.manifest}: "
            "the budget blocks every drain.",
            at=("spec", field),
            of_key=True,
        )
