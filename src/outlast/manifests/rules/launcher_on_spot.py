"""The head of a distributed program on Spot.

Why: the head of a Ray cluster, the launcher of an MPIJob and the scheduler of Dask hold what the
workers only share: who has which task, and which result lies where. When a worker goes, its tasks
are done again; when the head goes, all workers go with it. It needs no accelerator, so Spot saves
next to nothing here.
Instead: keep the head on an on-demand node (cloud.google.com/gke-provisioning: standard) and the
workers on Spot. A Ray head may be on Spot if its state is kept in an external Redis.
"""

from collections.abc import Iterator

from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_RAY_KINDS = ("RayCluster", "RayJob", "RayService")
_FAULT_TOLERANT = "ray.io/ft-enabled"


@pod_rule("OL201", Severity.WARNING)
def launcher_on_spot(pod: Pod, review: Review) -> Iterator[Fault]:
    what = _head(pod)
    if what is None or not review.aim(pod).includes_spot or _keeps_state(pod):
        return
    yield pod.fault(
        f"{what} may run on Spot: when its node is reclaimed, all workers go with it.",
        at=("spec", "nodeSelector") if pod.get("spec", "nodeSelector") else ("spec",),
    )


def _head(pod: Pod) -> str | None:
    """What the Pod leads; None if it leads nothing that is known."""
    if pod.owner_kind in _RAY_KINDS:
        return "The Ray head" if pod.role == "head" else None
    if pod.owner_kind == "MPIJob":
        return "The launcher of the MPIJob" if pod.role == "launcher" else None
    for container in pod.containers:
        words = " ".join(container.words)
        if "ray start" in words and "--head" in words:
            return "The Ray head"
        if "dask-scheduler" in words or "dask scheduler" in words:
            return "The scheduler of Dask"
    return None


def _keeps_state(pod: Pod) -> bool:
    manifest = pod.manifest
    return (
        manifest.annotations.get(_FAULT_TOLERANT) == "true"
        or any(
            manifest.get(*path, "gcsFaultToleranceOptions") is not None
            for path in (("spec",), ("spec", "rayClusterSpec"), ("spec", "rayClusterConfig"))
        )
        or any("RAY_REDIS_ADDRESS" in container.variables for container in pod.containers)
    )
