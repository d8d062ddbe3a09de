"""A service with several replicas has no PodDisruptionBudget.

Why: an upgrade or a drain removes nodes one after another, and without a budget all replicas can be
down at the same time. If a model takes minutes to load, the service is down for as long.
Instead: add a PodDisruptionBudget with maxUnavailable: 1 that selects its Pods.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    Review,
    Severity,
    pods_at_once,
    pods_selected,
    review_rule,
)

_SERVERS = ("Deployment", "Rollout", "StatefulSet")


@review_rule("OL702", Severity.INFO)
def serving_without_budget(review: Review) -> Iterator[Fault]:
    served = _selected(review, "Service", is_plain=True)
    guarded = _selected(review, "PodDisruptionBudget", is_plain=False)
    for pod in review.pods:
        count = pods_at_once(pod) if pod.owner_kind in _SERVERS else None
        if count is None or count.pods < 2 or id(pod) not in served or id(pod) in guarded:
            continue
        yield pod.manifest.fault(
            f"{pod.manifest} runs {count.pods} replicas behind a Service, but no "
            "PodDisruptionBudget in these files covers them.",
            at=count.at,
        )


def _selected(review: Review, kind: str, *, is_plain: bool) -> set[int]:
    """The Pods that objects of a kind select; `is_plain`: by labels only, as Services do."""
    found: set[int] = set()
    for manifest in review.of_kind(kind):
        selector = manifest.mapping("spec", "selector")
        # A headless Service only gives names to Pods that work together.
        if is_plain and (not selector or manifest.text("spec", "clusterIP") == "None"):
            continue
        matching = {"matchLabels": selector} if is_plain else selector
        found |= {id(pod) for pod in pods_selected(matching, manifest, review)}
    return found
