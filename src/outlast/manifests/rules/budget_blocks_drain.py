"""A disruption budget that never lets a Pod go.

Why: where no Pod may be missing, no node can be drained. Upgrades and repairs of the node pool wait
for an hour and then take the node all the same, without the order that the budget was meant to
bring.
Instead: allow one Pod to be missing (maxUnavailable: 1), and run at least two replicas.
"""

from collections.abc import Iterator

from outlast.manifests.lint.counting import pods_at_once
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, object_rule
from outlast.manifests.lint.selecting import pods_selected
from outlast.manifests.lint.view import Fault, Manifest


@object_rule("OL704", Severity.WARNING)
def budget_blocks_drain(manifest: Manifest, review: Review) -> Iterator[Fault]:
    if manifest.kind != "PodDisruptionBudget" or "selector" not in manifest.mapping("spec"):
        return
    pods = list(pods_selected(manifest.mapping("spec", "selector"), manifest, review))
    # To hold up a drain can be the very purpose over a Job, which ends by itself.
    if any(pod.job is not None or pod.owner_kind == "Pod" for pod in pods):
        return
    total = _total(pods, review)
    for field, value in manifest.mapping("spec").items():
        if field in ("maxUnavailable", "minAvailable") and _keeps_all(field, value, total):
            shown = repr(value) if isinstance(value, str) else value
            of = f", and {total} Pods are selected" if total is not None else ""
            yield manifest.fault(
                f"{field} is {shown}{of}: no Pod may ever be evicted.", at=("spec", field)
            )


def _keeps_all(field: str, value: object, total: int | None) -> bool:
    """Whether a limit leaves no Pod to spare. Without a total, only what is so for any number."""
    percent = _percent(value)
    if field == "maxUnavailable":
        # Rounded up, so that any percentage above nothing lets one go.
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
    """How many Pods are selected, if all say so themselves and nothing scales them."""
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
