"""A PodDisruptionBudget never allows an eviction.

Why: if no Pod may be unavailable, its node cannot be drained. Upgrades and repairs of the node pool
wait for up to an hour, and then GKE removes the node anyway: the budget delays maintenance without
protecting the Pods.
Instead: allow one Pod to be unavailable (maxUnavailable: 1), and run at least two replicas.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Pod,
    Review,
    Severity,
    object_rule,
    pods_at_once,
    pods_selected,
)


@object_rule("OL704", Severity.WARNING)
def budget_blocks_drain(manifest: KubernetesObject, review: Review) -> Iterator[Fault]:
    if manifest.kind != "PodDisruptionBudget" or "selector" not in manifest.mapping("spec"):
        return
    pods = list(pods_selected(manifest.mapping("spec", "selector"), manifest, review))
    # For a Job, which ends by itself, delaying a drain may be the purpose of the budget.
    if any(pod.job is not None or pod.owner_kind == "Pod" for pod in pods):
        return
    total = _total(pods, review)
    for field, value in manifest.mapping("spec").items():
        if field in ("maxUnavailable", "minAvailable") and _keeps_all(field, value, total):
            shown = repr(value) if isinstance(value, str) else value
            of = "" if total is None else f" of {total} selected Pod{'s' * (total != 1)}"
            yield manifest.fault(
                f"{field} is {shown}{of}, so no Pod can ever be evicted.",
                at=("spec", field),
                # Pods that no file defines may be those of Jobs, which a budget may well protect.
                is_minor=not pods,
            )


def _keeps_all(field: str, value: object, total: int | None) -> bool:
    """Whether a limit allows no eviction. Without a total: whether it does so for any number."""
    percent = _percent(value)
    if field == "maxUnavailable":
        # Kubernetes rounds up, so any percentage above 0 allows at least one eviction.
        return (value == 0 and not isinstance(value, bool)) or percent == 0
    if percent is not None:
        return percent >= 100 or (total is not None and -(-total * percent // 100) >= total > 0)
    if not isinstance(value, int) or isinstance(value, bool) or total is None:
        return False
    return value >= total > 0


def _percent(value: object) -> int | None:
    digits = value.removesuffix("%") if isinstance(value, str) and value.endswith("%") else ""
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 6 else None


def _total(pods: list[Pod], review: Review) -> int | None:
    """How many Pods are selected, if every owner sets replicas and nothing scales it."""
    scaled = {
        one.text("spec", "scaleTargetRef", "name")
        for kind in ("HorizontalPodAutoscaler", "ScaledObject")
        for one in review.of_kind(kind)
    }
    counts = []
    for pod in pods:
        count = pods_at_once(pod)
        is_written = pod.manifest.integer("spec", "replicas") is not None
        if count is None or not is_written or pod.manifest.name in scaled:
            return None
        counts.append(count.pods)
    return sum(counts) if counts else None
