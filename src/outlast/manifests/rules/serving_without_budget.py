"""A server with several replicas and no disruption budget.

Why: at an upgrade or a drain nodes go one after the other, and without a budget nothing keeps all
replicas from going at the same time. A model that takes minutes to load is down as long.
Instead: add a PodDisruptionBudget with maxUnavailable: 1 that selects its Pods.
"""

from collections.abc import Iterator

from outlast.manifests.lint.counting import pods_at_once
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, review_rule
from outlast.manifests.lint.selecting import pods_selected
from outlast.manifests.lint.view import Fault

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
            f"{pod.manifest} serves with {count.pods} replicas, and no disruption budget in these "
            "files keeps one of them up.",
            at=count.at,
        )


def _selected(review: Review, kind: str, *, is_plain: bool) -> set[int]:
    """The Pods that objects of a kind select; `is_plain`: by labels alone, as Services do."""
    found: set[int] = set()
    for manifest in review.of_kind(kind):
        selector = manifest.mapping("spec", "selector")
        # A Service without an address gives names to Pods that work together, and serves nobody.
        if is_plain and (not selector or manifest.text("spec", "clusterIP") == "None"):
            continue
        whole = {"matchLabels": selector} if is_plain else selector
        found |= {id(pod) for pod in pods_selected(whole, manifest, review)}
    return found
