"""The head of a distributed program runs on Spot.

Why: the head of a Ray cluster, the launcher of an MPIJob and the Dask scheduler hold the state that
the workers share: which worker has which task, and where each result is. When a worker is lost, its
tasks are repeated; when the head is lost, all workers stop. The head needs no accelerator, so Spot
saves very little here.
Instead: run the head on an on-demand node (cloud.google.com/gke-provisioning: standard) and the
workers on Spot. A Ray head can run on Spot if it keeps its state in an external Redis.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Review, Severity, pod_rule

_RAY_KINDS = ("RayCluster", "RayJob", "RayService")
_FAULT_TOLERANT = "ray.io/ft-enabled"


@pod_rule("OL201", Severity.WARNING)
def launcher_on_spot(pod: Pod, review: Review) -> Iterator[Fault]:
    what = _head(pod)
    if what is None or not review.placement(pod).includes_spot or _keeps_state(pod):
        return
    yield pod.fault(
        f"{what} may run on Spot: when its node is reclaimed, all workers stop.",
        at=("spec", "nodeSelector") if pod.get("spec", "nodeSelector") else ("spec",),
    )


def _head(pod: Pod) -> str | None:
    """What kind of head the Pod is; None if it is not a known one."""
    if pod.owner_kind in _RAY_KINDS:
        return "The Ray head" if pod.role == "head" else None
    if pod.owner_kind == "MPIJob":
        return "The MPIJob launcher" if pod.role == "launcher" else None
    for container in pod.containers:
        words = " ".join(container.words)
        if "ray start" in words and "--head" in words:
            return "The Ray head"
        if "dask-scheduler" in words or "dask scheduler" in words:
            return "The Dask scheduler"
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
