"""The section `cluster` of a workload file: the cluster, its node pools and its quota."""

from datetime import timedelta
from typing import Self

from outlast.capacity.vocabulary import ClusterMode, TaintEffect, Tier
from outlast.capacity.workload.fields import (
    Duration,
    Field,
    FieldError,
    GoogleName,
    Label,
    LabelKey,
    LabelValue,
    Version,
    WorkloadSection,
    model_validator,
)

DEFAULT_WINDOW = timedelta(seconds=30)
LONG_WINDOW = timedelta(seconds=120)
CRITICAL_SECONDS = 15
"""The last part of the shutdown window, which the kubelet reserves for critical Pods."""

_LONG_WINDOW_MINOR = 35


class TaintSpec(WorkloadSection):
    """A taint of the nodes in a pool."""

    key: LabelKey = Field(description="Taint key, such as team or cloud.google.com/gke-spot.")
    value: LabelValue = Field(default="", description="Taint value. May be empty.")
    effect: TaintEffect = Field(
        default=TaintEffect.NO_SCHEDULE, description="Effect on Pods without a toleration."
    )


class NodePoolSpec(WorkloadSection):
    """A node pool. The taints must match those of its nodes."""

    name: Label = Field(description="Name of the pool in the cluster.")
    tier: Tier = Field(default=Tier.SPOT, description="How the nodes are bought.")
    taints: tuple[TaintSpec, ...] = Field(
        default=(), description="Taints of the nodes. Pods get exact tolerations."
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Node labels that the Pods select."
    )
    machine: GoogleName | None = Field(default=None, description="Machine type of the nodes.")
    max_nodes: int | None = Field(
        default=None, ge=1, le=15_000, description="Maximum over all zones. Default: one per Pod."
    )
    exists: bool = Field(
        default=False, description="The pool already exists, so do not render its creation."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tier in (Tier.AUTO, Tier.HYBRID):
            raise FieldError(("tier",), "Expected spot, flex-start or on-demand.")
        keys = [taint.key for taint in self.taints]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise FieldError(("taints", index, "key"), f"Two taints have the key {key!r}.")
        return self


class QuotaSpec(WorkloadSection):
    """Accelerator quota of the project. Flex-start uses the preemptible quota."""

    preemptible: int | None = Field(
        default=None, ge=0, description="Quota for Spot and flex-start."
    )
    on_demand: int | None = Field(default=None, ge=0, description="Quota for on-demand.")


class Kueue(WorkloadSection):
    """Queued provisioning: Kueue starts the Job once all of its nodes are available."""

    queue: Label = Field(description="LocalQueue in the workload's namespace.")
    setup: bool = Field(
        default=True,
        description="Also render the queues and the admission check.",
    )
    pods_per_job: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Independent Pods that start together. Smaller groups start sooner.",
    )


class Cluster(WorkloadSection):
    """A GKE cluster."""

    name: GoogleName | None = Field(
        default=None, description="Cluster name. If omitted, scripts prompt for it."
    )
    project: GoogleName | None = Field(
        default=None, description="Google Cloud project. If omitted, scripts prompt for it."
    )
    location: GoogleName = Field(default="us-central1", description="Region or zone.")
    mode: ClusterMode = Field(
        default=ClusterMode.STANDARD, description="Whether you or Google manages the nodes."
    )
    version: Version = Field(default="1.35", description="Kubernetes version.")
    pools: tuple[NodePoolSpec, ...] = Field(
        default=(), description="Node pools. The first one with the right tier is used."
    )
    quota: QuotaSpec = Field(default=QuotaSpec(), description="Accelerator quota of the project.")
    kueue: Kueue | None = Field(default=None, description="Queued provisioning for flex-start.")
    shutdown_window: Duration = Field(
        default=DEFAULT_WINDOW,
        description="The kubelet's shutdown window on Spot nodes: 30s or 120s.",
        json_schema_extra={"default": "30s"},
    )

    @property
    def minor(self) -> int:
        """The minor version of Kubernetes: 35 for 1.35."""
        return int(self.version.split(".")[1])

    @property
    def spot_grace_seconds(self) -> int:
        """The grace period on a reclaimed Spot node, regardless of what the Pod asks for."""
        return int(self.shutdown_window.total_seconds()) - CRITICAL_SECONDS

    def pool_for(self, tier: Tier) -> NodePoolSpec | None:
        """The first listed pool with this tier."""
        return next((pool for pool in self.pools if pool.tier is tier), None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode is ClusterMode.AUTOPILOT and self.pools:
            raise FieldError(("pools",), "Autopilot clusters have no user-managed node pools.")
        if self.shutdown_window not in (DEFAULT_WINDOW, LONG_WINDOW):
            raise FieldError(("shutdown_window",), "Expected 30s or 120s.")
        if self.shutdown_window == LONG_WINDOW:
            if self.mode is ClusterMode.AUTOPILOT:
                raise FieldError(("shutdown_window",), "Autopilot does not support changing this.")
            if self.minor < _LONG_WINDOW_MINOR:
                raise FieldError(
                    ("shutdown_window",),
                    f"120s requires Kubernetes 1.{_LONG_WINDOW_MINOR} or newer, but "
                    f"cluster.version is {self.version!r}.",
                )
        names = [pool.name for pool in self.pools]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise FieldError(("pools", index, "name"), f"Two pools have the name {name!r}.")
        return self
