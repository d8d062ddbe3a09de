"""What is decided once and holds for every file: tier, names, grace, where Pods may run."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from outlast.capacity.cluster import Pool, Taint
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.tier import choose_tier_by_rule
from outlast.capacity.vocabulary import ClusterMode, Kind, StorageKind, Tier
from outlast.manifests.render.errors import RenderError

INTERRUPTED_CODE = 75
"""What an interrupted process exits with: free of meaning elsewhere, and not 0 (a Job would count
that as its work done)."""

CONTAINER = "main"

SPOT = "cloud.google.com/gke-spot"
FLEX_START = "cloud.google.com/gke-flex-start"
PREEMPTIBLE = "cloud.google.com/gke-preemptible"
QUEUED = "cloud.google.com/gke-queued"
ACCELERATOR = "cloud.google.com/gke-accelerator"
COMPUTE_CLASS = "cloud.google.com/compute-class"
NODE_POOL = "cloud.google.com/gke-nodepool"
MAX_RUN = "cloud.google.com/gke-max-run-duration-seconds"

_STAYING_GRACE_SECONDS = 120
_SERVING_GRACE_SECONDS = 60
_FUSE_FLUSH_SECONDS = 3
_LABEL_CHARACTERS_MAX = 63


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A workload with all choices made. Make one with `settle`, which refuses what cannot work."""

    workload: WorkloadSpec
    tier: Tier
    tier_reason: str

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def namespace(self) -> str:
        return self.workload.namespace

    @property
    def is_autopilot(self) -> bool:
        return self.workload.cluster.mode is ClusterMode.AUTOPILOT

    @property
    def can_be_reclaimed(self) -> bool:
        """Whether a node may be a Spot VM, with its short window."""
        if self.tier is Tier.HYBRID:
            return Tier.SPOT in self.workload.hybrid.order
        return self.tier is Tier.SPOT

    @property
    def has_lease(self) -> bool:
        """Whether a node may be a flex-start node, which ends at a known time."""
        if self.tier is Tier.HYBRID:
            return Tier.FLEX_START in self.hybrid_order
        return self.tier is Tier.FLEX_START

    @property
    def hybrid_order(self) -> tuple[Tier, ...]:
        """The tiers to try in turn. Flex-start has accelerators only, so it may fall out."""
        if self.workload.accelerator is not None:
            return self.workload.hybrid.order
        return tuple(t for t in self.workload.hybrid.order if t is not Tier.FLEX_START)

    @property
    def is_queued(self) -> bool:
        return self.workload.cluster.kueue is not None

    @property
    def grace_seconds(self) -> int:
        """The Pod's grace period: never longer than what a reclaimed node really gives."""
        if self.workload.grace is not None:
            return int(self.workload.grace.total_seconds())
        if self.can_be_reclaimed:
            return self.workload.cluster.spot_grace_seconds
        is_server = self.workload.kind is Kind.SERVING
        return _SERVING_GRACE_SECONDS if is_server else _STAYING_GRACE_SECONDS

    @property
    def process_grace_seconds(self) -> int:
        """What the process may use of it: the FUSE sidecar ends after it, in the same period."""
        return self.grace_seconds - (_FUSE_FLUSH_SECONDS if self.uses_fuse else 0)

    @property
    def uses_fuse(self) -> bool:
        return (
            self.workload.checkpoint is not None and self.workload.storage_kind is StorageKind.FUSE
        )

    @property
    def service_account(self) -> str:
        return self.workload.service_account.name or self.name

    @property
    def labels(self) -> dict[str, str]:
        """What all objects of the workload carry."""
        return {
            **self.selector,
            "app.kubernetes.io/component": str(self.workload.kind),
            "app.kubernetes.io/managed-by": "outlast",
        }

    @property
    def selector(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name}

    @property
    def cluster_wide_name(self) -> str:
        """A name for objects without a namespace, which fits into a label."""
        if self.namespace == self.name:
            return self.name
        name = f"{self.namespace}-{self.name}"
        if len(name) <= _LABEL_CHARACTERS_MAX:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        return f"{name[: _LABEL_CHARACTERS_MAX - 9]}-{digest}"

    @cached_property
    def pool(self) -> Pool | None:
        """The node pool for the tier: as listed, else one of our own. None where GKE makes them."""
        if self.is_autopilot or self.tier is Tier.HYBRID:
            return None
        return self.workload.cluster.pool_for(self.tier) or self._own_pool()

    @property
    def pool_nodes_max(self) -> int:
        """A regional cluster counts in total, over all zones."""
        if self.pool is not None and self.pool.max_nodes is not None:
            return self.pool.max_nodes
        # A server that is rolled out needs room for one replica more.
        return self.workload.pods + (1 if self.workload.kind is Kind.SERVING else 0)

    def _own_pool(self) -> Pool:
        accelerator = self.workload.accelerator
        hardware = accelerator.type.removeprefix("nvidia-") if accelerator else "cpu"
        count = f"-{accelerator.count}x" if accelerator else ""
        queued = "-queued" if self.is_queued else ""
        taints = (Taint(key=SPOT, value="true"),) if self.tier is Tier.SPOT else ()
        return Pool(
            name=f"{self.tier}-{hardware}{count}{queued}"[:40], tier=self.tier, taints=taints
        )


def settle(workload: WorkloadSpec) -> Settled:
    """Choose the tier and refuse what no manifest could make work."""
    choice = choose_tier_by_rule(workload)
    settled = Settled(workload=workload, tier=choice.tier, tier_reason=choice.reason)
    _refuse_lost_work(settled)
    _refuse_long_grace(settled)
    return settled


def _refuse_lost_work(settled: Settled) -> None:
    workload = settled.workload
    if workload.kind is Kind.SERVING:
        return
    if settled.can_be_reclaimed and not workload.resumable:
        raise RenderError(
            f"{workload.name!r} cannot resume, and on {str(settled.tier)!r} every eviction would "
            "start it anew.",
            hint="Give it a `checkpoint` (or a `queue` and a `sink`), or take tier: on-demand.",
        )
    if settled.can_be_reclaimed and not workload.interruptible:
        raise RenderError(
            f"{workload.name!r} is not interruptible, and {str(settled.tier)!r} nodes are "
            "taken away at any time.",
            hint="Take tier: flex-start or on-demand, or say interruptible: true.",
        )
    hours = _hours_of_a_pod(workload)
    lease_hours = workload.max_run.total_seconds() / 3600
    if settled.has_lease and not workload.resumable and hours is not None and hours > lease_hours:
        raise RenderError(
            f"{workload.name!r} needs {hours:g} h and cannot resume, and a flex-start node lives "
            f"{lease_hours:g} h.",
            hint="Give it a `checkpoint`, or take tier: on-demand.",
        )


def _hours_of_a_pod(workload: WorkloadSpec) -> float | None:
    """Items are shared by the Pods; hours are what each of them takes."""
    if workload.work is None or workload.work.hours is not None:
        return workload.work.hours if workload.work else None
    total = workload.work.compute_hours
    return None if total is None else total / workload.pods


def _refuse_long_grace(settled: Settled) -> None:
    window_seconds = settled.workload.cluster.spot_grace_seconds
    if settled.can_be_reclaimed and settled.grace_seconds > window_seconds:
        raise RenderError(
            f"A grace of {settled.grace_seconds} s is not given on Spot: the kubelet's shutdown "
            f"window leaves {window_seconds} s, and the kill comes then.",
            hint=f"Say grace: {window_seconds}s or leave it out; with Kubernetes 1.35, "
            "cluster.shutdown_window: 120s leaves 105 s.",
        )
    if settled.process_grace_seconds < 3:
        raise RenderError(
            f"A grace of {settled.grace_seconds} s leaves the process "
            f"{settled.process_grace_seconds} s.",
            hint="Raise `grace`: the FUSE sidecar flushes in the same period.",
        )
