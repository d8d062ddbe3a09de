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
    share_folder,
)

_SERVERS = ("Deployment", "Rollout", "StatefulSet")


@review_rule("OL702", Severity.INFO)
def serving_without_budget(review: Review) -> Iterator[Fault]:
    counts = {id(pod): pods_at_once(pod) for pod in review.pods if pod.owner_kind in _SERVERS}
    several = {key for key, count in counts.items() if count is not None and count.pods >= 2}
    guarded = _selected(review, "PodDisruptionBudget", several, is_plain=False)
    served = _selected(review, "Service", several - guarded, is_plain=True)
    for pod in review.pods:
        count = counts[id(pod)] if id(pod) in served else None
        if count is None:
            continue
        yield pod.manifest.fault(
            f"{pod.manifest} runs {count.pods} replicas behind a Service, but no "
            "PodDisruptionBudget in these files covers them.",
            at=count.at,
        )


def _selected(review: Review, kind: str, pods: set[int], *, is_plain: bool) -> set[int]:
    """Those of the Pods that objects of a kind select; `is_plain`: by labels, as Services do."""
    missing = set(pods)
    for manifest in review.of_kind(kind):
        selector = manifest.mapping("spec", "selector")
        # A headless Service only gives names to Pods that work together.
        if is_plain and (not selector or manifest.text("spec", "clusterIP") == "None"):
            continue
        matching = {"matchLabels": selector} if is_plain else selector
        missing -= {
            id(pod)
            for pod in pods_selected(matching, manifest, review, among=missing)
            # The Service of another project may select the same labels.
            if not is_plain or share_folder(manifest, pod.manifest)
        }
    return pods - missing
