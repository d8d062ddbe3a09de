"""Where a workload runs: the cluster, its node pools, its quota."""

from datetime import timedelta
from typing import Self

from outlast.capacity.fields import (
    Duration,
    Field,
    FieldError,
    GoogleName,
    Label,
    LabelKey,
    LabelValue,
    Part,
    Version,
    model_validator,
)
from outlast.capacity.vocabulary import ClusterMode, TaintEffect, Tier

DEFAULT_WINDOW = timedelta(seconds=30)
LONG_WINDOW = timedelta(seconds=120)
CRITICAL_SECONDS = 15
"""The end of the shutdown window, which the kubelet keeps for critical Pods."""

_LONG_WINDOW_MINOR = 35


class Taint(Part):
    """A mark on a node that keeps other Pods off it."""

    key: LabelKey = Field(description="Such as team or cloud.google.com/gke-spot.")
    value: LabelValue = Field(default="", description="May be empty.")
    effect: TaintEffect = Field(default=TaintEffect.NO_SCHEDULE, description="On other Pods.")


class Pool(Part):
    """A node pool. The taints must be those that its nodes really carry."""

    name: Label = Field(description="Its name in the cluster.")
    tier: Tier = Field(default=Tier.SPOT, description="How its nodes are bought.")
    taints: tuple[Taint, ...] = Field(default=(), description="Tolerated word for word.")
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Selected by the Pods."
    )
    machine: GoogleName | None = Field(default=None, description="Machine type of its nodes.")
    max_nodes: int | None = Field(
        default=None, ge=1, le=15_000, description="Over all zones. Default: as many as the Pods."
    )
    exists: bool = Field(default=False, description="Do not render what would create it.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tier in (Tier.AUTO, Tier.HYBRID):
            raise FieldError(("tier",), "A node pool is spot, flex-start or on-demand.")
        keys = [taint.key for taint in self.taints]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise FieldError(("taints", index, "key"), f"Two taints have the key {key!r}.")
        return self


class Quota(Part):
    """How many accelerators the project may hold at once. Flex-start uses the preemptible quota."""

    preemptible: int | None = Field(default=None, ge=0, description="For Spot and flex-start.")
    on_demand: int | None = Field(default=None, ge=0, description="For the rest.")


class Kueue(Part):
    """Queued provisioning: Kueue holds the Job until all its nodes are there."""

    queue: Label = Field(description="The LocalQueue of the workload's namespace.")
    setup: bool = Field(
        default=True,
        description="Render the queues and the admission check too, not only their use.",
    )
    pods_per_job: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Pods that start together, where each works on its own. Fewer start sooner.",
    )


class Cluster(Part):
    """A GKE cluster."""

    name: GoogleName | None = Field(default=None, description="Scripts ask for it otherwise.")
    project: GoogleName | None = Field(default=None, description="Scripts ask for it otherwise.")
    location: GoogleName = Field(default="us-central1", description="Its region or zone.")
    mode: ClusterMode = Field(default=ClusterMode.STANDARD, description="Who looks after nodes.")
    version: Version = Field(default="1.35", description="Of Kubernetes.")
    pools: tuple[Pool, ...] = Field(
        default=(), description="Node pools. The first of the right tier is used."
    )
    quota: Quota = Field(default=Quota(), description="Accelerators that may be held at once.")
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
        """What a Pod really gets when its Spot node is reclaimed, whatever its own grace period."""
        return int(self.shutdown_window.total_seconds()) - CRITICAL_SECONDS

    def pool_for(self, tier: Tier) -> Pool | None:
        """The first listed pool of this tier."""
        return next((pool for pool in self.pools if pool.tier is tier), None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode is ClusterMode.AUTOPILOT and self.pools:
            raise FieldError(("pools",), "An autopilot cluster has no node pools of yours.")
        if self.shutdown_window not in (DEFAULT_WINDOW, LONG_WINDOW):
            raise FieldError(("shutdown_window",), "The kubelet takes 30s or 120s here.")
        if self.shutdown_window == LONG_WINDOW:
            if self.mode is ClusterMode.AUTOPILOT:
                raise FieldError(("shutdown_window",), "Autopilot does not let you change it.")
            if self.minor < _LONG_WINDOW_MINOR:
                raise FieldError(
                    ("shutdown_window",),
                    f"120s needs version 1.{_LONG_WINDOW_MINOR} or newer, and it is "
                    f"{self.version!r}.",
                )
        names = [pool.name for pool in self.pools]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise FieldError(("pools", index, "name"), f"Two pools are called {name!r}.")
        return self
