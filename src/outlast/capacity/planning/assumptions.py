"""The inputs of a plan: measured where the workload file has measurements, otherwise assumed.

Pure. Every input has its origin, so that a reader sees which ones to measure first. `outlast learn`
replaces assumptions with measurements.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import NormalDist

from outlast._base.durations import format_duration
from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.capacity.planning.save_speed import save_bytes_per_second
from outlast.capacity.simulation.lifetimes import ExponentialLifetimes, LifetimeDistribution
from outlast.capacity.simulation.model import HOUR_SECONDS
from outlast.capacity.vocabulary import Tier, WorkloadKind
from outlast.capacity.workload.cluster import DEFAULT_WINDOW
from outlast.capacity.workload.spec import START_SECONDS, WorkloadSpec
from outlast.errors import OutlastError

MEAN_HOURS = {"nvidia-tesla-a100": 10.1, "nvidia-tesla-v100": 3.4}
"""Mean hours between losses of one Spot machine, from public traces recorded in 2021."""

OTHER_MEAN_HOURS = 3.0
STALL_BYTES_PER_SECOND = 1e9
"""Of one accelerator: the ranks of a node copy their parts at the same time."""

WAIT_SECONDS = {Tier.SPOT: 300.0, Tier.ON_DEMAND: 120.0, Tier.FLEX_START: 7200.0}
SIZE_BYTES = 10 * 1024**3
PIECE_SECONDS = 1800.0
SERVING_HOURS = 720.0

# The standard deviation of the logarithm of the save time.
_SAVE_SPREAD = 0.25
_ARTICLES = {
    Tier.SPOT: "a Spot",
    Tier.ON_DEMAND: "an on-demand",
    Tier.FLEX_START: "a flex-start",
}


class PlanError(OutlastError):
    """A workload cannot be planned."""


class InputOrigin(StrEnum):
    """Where an input comes from."""

    MEASURED = "measured"
    GIVEN = "given"
    ASSUMED = "assumed"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanInput:
    """An input of the plan, formatted for display."""

    name: str
    text: str
    origin: InputOrigin


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumptions:
    """The inputs that all tiers share: `replicas` in parallel, each on `nodes_per_replica` nodes.

    A replica is what one interruption stops: all nodes of a training run, or one of many Pods. In
    the last round of items some replicas are idle: `busy_share` is the share of time they work.
    """

    work_seconds: float
    replicas: int
    nodes_per_replica: int
    busy_share: float
    node_mean_seconds: float
    unannounced_share: float
    grace_seconds: float
    save_seconds: float
    stall_seconds: float
    restart_seconds: float
    wait_seconds: dict[Tier, float]
    fixed_interval_seconds: float | None
    piece_seconds: float | None
    is_resumable: bool
    has_backoff: bool
    inputs: tuple[PlanInput, ...]
    node_lifetimes: LifetimeDistribution | None = None

    @property
    def mean_seconds(self) -> float:
        """Mean time between interruptions of a replica, which any of its nodes can cause."""
        return self.node_mean_seconds / self.nodes_per_replica

    @property
    def lifetimes(self) -> LifetimeDistribution:
        """How long a replica keeps all its nodes: exponential unless specified otherwise."""
        if self.node_lifetimes is None:
            return ExponentialLifetimes(self.mean_seconds)
        return self.node_lifetimes

    @property
    def final_fits_share(self) -> float:
        """The probability that a final save is durable within the grace period."""
        if not self.is_resumable or self.piece_seconds is not None:
            return 0.0
        if self.save_seconds == 0:
            return 1.0
        ratio = math.log(self.grace_seconds / self.save_seconds) / _SAVE_SPREAD
        return NormalDist().cdf(ratio)

    @property
    def kept_share(self) -> float:
        return (1 - self.unannounced_share) * self.final_fits_share

    def interval_seconds(self, *, is_spot: bool) -> float:
        """The work between two saves: fixed, or as the runtime would choose it."""
        if not self.is_resumable:
            return math.inf
        if self.piece_seconds is not None:
            return self.piece_seconds
        if self.fixed_interval_seconds is not None:
            return self.fixed_interval_seconds
        policy = IntervalPolicy(
            prior_mean_seconds=self.mean_seconds if is_spot else 1e12,
            prior_unannounced_share=1 - self.kept_share,
        )
        cost = SaveCost(stall_seconds=self.stall_seconds, durable_seconds=self.save_seconds)
        seconds = choose_interval(policy, cost=cost, observed=Observed()).seconds
        assert seconds is not None
        return seconds


def assume(
    workload: WorkloadSpec,
    *,
    lifetimes: LifetimeDistribution | None = None,
    spot_wait_seconds: float | None = None,
) -> Assumptions:
    """Collect the inputs for a workload. Raises `PlanError` if the amount of work is unknown.

    `lifetimes` is the distribution of Spot node lifetimes, for example from a trace, and
    `spot_wait_seconds` the mean wait for the next node. By default losses are random. With several
    nodes per replica, no other distribution is supported.
    """
    if lifetimes is not None and workload.nodes > 1:
        raise PlanError(
            f"The workload uses {workload.nodes} nodes, but a lifetime distribution is supported "
            "only for one node.",
            hint="Omit --trace and --weibull-shape: with many nodes, losses are nearly random.",
        )
    return _InputCollector(workload, lifetimes, spot_wait_seconds).result()


class _InputCollector:
    """Collects the inputs and records the origin of each."""

    def __init__(
        self,
        workload: WorkloadSpec,
        lifetimes: LifetimeDistribution | None,
        spot_wait_seconds: float | None,
    ) -> None:
        self._workload = workload
        self._lifetimes = lifetimes
        self._spot_wait_seconds = spot_wait_seconds
        self._inputs: list[PlanInput] = []
        self._save_speed = save_bytes_per_second(workload.machine_type, workload.storage_kind)

    def result(self) -> Assumptions:
        workload = self._workload
        size = self._size_bytes()
        is_serving = workload.kind is WorkloadKind.SERVING
        by_pieces = workload.checkpoint is None and workload.kind is not WorkloadKind.TRAINING
        saves = workload.resumable and not by_pieces
        has_pieces = workload.resumable and by_pieces and not is_serving
        replicas = self._replicas()
        return Assumptions(
            work_seconds=self._work_seconds(),
            replicas=replicas,
            nodes_per_replica=workload.nodes if workload.kind is WorkloadKind.TRAINING else 1,
            busy_share=self._busy_share(replicas),
            node_mean_seconds=self._node_mean_seconds(),
            unannounced_share=self._unannounced_share(),
            grace_seconds=self._grace_seconds(),
            save_seconds=self._save_seconds(size) if saves else 0.0,
            stall_seconds=self._stall_seconds(size) if saves else 0.0,
            restart_seconds=self._restart_seconds(size if saves else 0),
            wait_seconds=self._wait_seconds(),
            fixed_interval_seconds=self._fixed_interval_seconds() if saves else None,
            piece_seconds=self._piece_seconds() if has_pieces else None,
            is_resumable=workload.resumable,
            # A JobSet restarts all its Jobs without a growing backoff.
            has_backoff=workload.nodes == 1 and not is_serving,
            inputs=tuple(self._inputs),
            node_lifetimes=self._lifetimes,
        )

    def _note(self, name: str, text: str, origin: InputOrigin) -> None:
        self._inputs.append(PlanInput(name=name, text=text, origin=origin))

    def _measured(self, name: str, key: str, assumed_seconds: float) -> float:
        measured: timedelta | None = getattr(self._workload.measured, key)
        origin = InputOrigin.ASSUMED if measured is None else InputOrigin.MEASURED
        seconds = assumed_seconds if measured is None else measured.total_seconds()
        self._note(name, format_duration(seconds), origin)
        return seconds

    def _work_seconds(self) -> float:
        workload = self._workload
        if workload.kind is WorkloadKind.SERVING:
            return SERVING_HOURS * HOUR_SECONDS
        seconds = workload.work_seconds
        if seconds is None and workload.endless:
            raise PlanError(
                f"The workload {workload.name!r} is endless, so it has no total cost to compare.",
                hint="Plan a period of it: --set endless=false --set work.hours=720.",
            )
        if seconds is None:
            raise PlanError(
                f"The workload {workload.name!r} does not specify how long its work takes.",
                hint="Set work.hours, or work.items and work.seconds_per_item, in the file or with "
                "--set work.hours=40.",
            )
        self._note("work", format_duration(seconds), InputOrigin.GIVEN)
        return seconds

    def _replicas(self) -> int:
        workload = self._workload
        if workload.kind is WorkloadKind.TRAINING:
            return 1
        items = self._items()
        return workload.pods if items is None else min(workload.pods, items)

    def _busy_share(self, replicas: int) -> float:
        items = self._items()
        return 1.0 if items is None else items / (replicas * -(-items // replicas))

    def _items(self) -> int | None:
        """The items that the Pods share; None if each Pod is busy all the time."""
        work, kind = self._workload.work, self._workload.kind
        return (
            None
            if work is None or kind in (WorkloadKind.TRAINING, WorkloadKind.SERVING)
            else work.items
        )

    def _size_bytes(self) -> int:
        checkpoint = self._workload.checkpoint
        if checkpoint is None:
            return 0
        size = checkpoint.size or SIZE_BYTES
        origin = InputOrigin.ASSUMED if checkpoint.size is None else InputOrigin.GIVEN
        self._note("checkpoint size", f"{size / 1024**3:.3g} GiB", origin)
        # Every node of a training run saves a part of the checkpoint.
        return size // self._workload.nodes

    def _node_mean_seconds(self) -> float:
        name = "mean time between losses of a Spot node"
        if self._lifetimes is not None:
            self._note(name, format_duration(self._lifetimes.mean_seconds), InputOrigin.GIVEN)
            return self._lifetimes.mean_seconds
        accelerator = self._workload.accelerator
        hours = MEAN_HOURS.get(accelerator.type if accelerator else "", OTHER_MEAN_HOURS)
        return self._measured(name, "between_interruptions", hours * HOUR_SECONDS)

    def _unannounced_share(self) -> float:
        measured = self._workload.measured.unannounced
        share = IntervalPolicy().prior_unannounced_share if measured is None else measured
        origin = InputOrigin.ASSUMED if measured is None else InputOrigin.MEASURED
        self._note("Spot losses without notice", f"{share:.0%}", origin)
        return share

    def _grace_seconds(self) -> float:
        workload = self._workload
        seconds = float(workload.cluster.spot_grace_seconds)
        is_default = workload.cluster.shutdown_window == DEFAULT_WINDOW
        origin = InputOrigin.ASSUMED if is_default else InputOrigin.GIVEN
        if workload.measured.grace is not None:
            seconds, origin = workload.measured.grace.total_seconds(), InputOrigin.MEASURED
        if workload.grace is not None and workload.grace.total_seconds() < seconds:
            seconds, origin = workload.grace.total_seconds(), InputOrigin.GIVEN
        self._note("grace period on Spot", format_duration(seconds), origin)
        return seconds

    def _save_seconds(self, size: int) -> float:
        stall = self._workload.measured.stall
        stall_seconds = self._copy_seconds(size) if stall is None else stall.total_seconds()
        assumed = stall_seconds + size / self._save_speed
        return self._measured("time until a save is durable", "save", assumed)

    def _stall_seconds(self, size: int) -> float:
        return self._measured("time a save blocks the loop", "stall", self._copy_seconds(size))

    def _copy_seconds(self, size: int) -> float:
        accelerator = self._workload.accelerator
        return size / (STALL_BYTES_PER_SECOND * (accelerator.count if accelerator else 1))

    def _restart_seconds(self, size: int) -> float:
        assumed = START_SECONDS + size / self._save_speed
        return self._measured("time from a new node to the first step", "restart", assumed)

    def _wait_seconds(self) -> dict[Tier, float]:
        waits = dict(WAIT_SECONDS)
        for tier, assumed in WAIT_SECONDS.items():
            name = f"mean wait for {_ARTICLES[tier]} node"
            if tier is not Tier.SPOT:
                self._note(name, format_duration(assumed), InputOrigin.ASSUMED)
            elif self._spot_wait_seconds is None:
                waits[tier] = self._measured(name, "waiting", assumed)
            else:
                waits[tier] = self._spot_wait_seconds
                self._note(name, format_duration(self._spot_wait_seconds), InputOrigin.GIVEN)
        return waits

    def _fixed_interval_seconds(self) -> float | None:
        checkpoint = self._workload.checkpoint
        interval = checkpoint.interval if checkpoint else None
        if isinstance(interval, timedelta):
            return interval.total_seconds()
        return None

    def _piece_seconds(self) -> float:
        """The most work that one interruption can lose where the work consists of pieces."""
        work = self._workload.work
        if work is not None and work.seconds_per_item is not None:
            self._note("time per item", format_duration(work.seconds_per_item), InputOrigin.GIVEN)
            return work.seconds_per_item
        self._note(
            "work redone after an interruption", format_duration(PIECE_SECONDS), InputOrigin.ASSUMED
        )
        return PIECE_SECONDS
