"""What a plan takes for true: measured where the workload file says so, assumed where it does not.

Pure. Every figure carries where it came from, so that a reader sees which ones to measure first;
`outlast learn` turns them into measurements.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import NormalDist

from outlast._base.durations import format_duration
from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.capacity.cluster import DEFAULT_WINDOW
from outlast.capacity.interruptions import Exponential, Lifetimes
from outlast.capacity.model import HOUR_SECONDS
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.vocabulary import Kind, Tier
from outlast.capacity.worktime import START_SECONDS, work_seconds
from outlast.errors import OutlastError

MEAN_HOURS = {"nvidia-tesla-a100": 10.1, "nvidia-tesla-v100": 3.4}
"""Mean hours between losses of one Spot machine, from public traces of 2021."""

OTHER_MEAN_HOURS = 3.0
SAVE_BYTES_PER_SECOND = 100e6
STALL_BYTES_PER_SECOND = 1e9
WAIT_SECONDS = {Tier.SPOT: 300.0, Tier.ON_DEMAND: 120.0, Tier.FLEX_START: 7200.0}
SIZE_BYTES = 10 * 1024**3
PIECE_SECONDS = 1800.0
SERVING_HOURS = 720.0

# A save takes about so much longer or shorter than the median, as a factor of e.
_SAVE_SPREAD = 0.25


class PlanError(OutlastError):
    """A workload cannot be planned as it is."""


class Origin(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"
    GIVEN = "given"
    ASSUMED = "assumed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number of the model, as it is told to people."""

    name: str
    text: str
    origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumptions:
    """The numbers that all tiers share. `crews` run side by side, each on `crew_nodes` nodes.

    A crew is what one interruption stops: all nodes of a training run, or one Pod of many. Not all
    crews have work in the last round of items: `busy_share` of their time they do.
    """

    work_seconds: float
    crews: int
    crew_nodes: int
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
    has_back_off: bool
    figures: tuple[Figure, ...]
    node_lifetimes: Lifetimes | None = None

    @property
    def mean_seconds(self) -> float:
        """Between interruptions of one crew: each of its nodes can be the one that is lost."""
        return self.node_mean_seconds / self.crew_nodes

    @property
    def lifetimes(self) -> Lifetimes:
        """How long a crew has all its nodes: at random, unless another law was given."""
        if self.node_lifetimes is None:
            return Exponential(self.mean_seconds)
        return self.node_lifetimes

    @property
    def final_fits_share(self) -> float:
        """The chance that a final save is durable within the grace period."""
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
        """The work between two saves: as fixed, or as the runtime would choose it."""
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
    lifetimes: Lifetimes | None = None,
    spot_wait_seconds: float | None = None,
) -> Assumptions:
    """The numbers for a workload. Raises `PlanError` if it does not say how much work there is.

    `lifetimes` is the law of Spot nodes, such as a trace shows it, and `spot_wait_seconds` the mean
    wait for the next one; by default nodes are lost at random. A crew of several nodes has no other
    law here.
    """
    if lifetimes is not None and workload.nodes > 1:
        raise PlanError(
            f"The workload spans {workload.nodes} nodes, and a law of lifetimes holds for one.",
            hint="Leave the law away: with many nodes, losses come nearly at random.",
        )
    return _Gathering(workload, lifetimes, spot_wait_seconds).result()


class _Gathering:
    """Collects the figures as they are asked for."""

    def __init__(
        self,
        workload: WorkloadSpec,
        lifetimes: Lifetimes | None,
        spot_wait_seconds: float | None,
    ) -> None:
        self._workload = workload
        self._lifetimes = lifetimes
        self._spot_wait_seconds = spot_wait_seconds
        self._figures: list[Figure] = []

    def result(self) -> Assumptions:
        workload = self._workload
        size = self._size_bytes()
        is_serving = workload.kind is Kind.SERVING
        by_pieces = workload.checkpoint is None and workload.kind is not Kind.TRAINING
        saves = workload.resumable and not by_pieces
        has_pieces = workload.resumable and by_pieces and not is_serving
        crews = self._crews()
        return Assumptions(
            work_seconds=self._work_seconds(),
            crews=crews,
            crew_nodes=workload.nodes if workload.kind is Kind.TRAINING else 1,
            busy_share=self._busy_share(crews),
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
            # A JobSet starts all its Jobs anew, with no growing wait.
            has_back_off=workload.nodes == 1 and not is_serving,
            figures=tuple(self._figures),
            node_lifetimes=self._lifetimes,
        )

    def _note(self, name: str, text: str, origin: Origin) -> None:
        self._figures.append(Figure(name=name, text=text, origin=origin))

    def _measured(self, name: str, key: str, assumed_seconds: float) -> float:
        measured: timedelta | None = getattr(self._workload.measured, key)
        origin = Origin.ASSUMED if measured is None else Origin.MEASURED
        seconds = assumed_seconds if measured is None else measured.total_seconds()
        self._note(name, format_duration(seconds), origin)
        return seconds

    def _work_seconds(self) -> float:
        workload = self._workload
        if workload.kind is Kind.SERVING:
            return SERVING_HOURS * HOUR_SECONDS
        seconds = work_seconds(workload)
        if seconds is None:
            raise PlanError(
                f"The workload {workload.name!r} does not say how long its work takes.",
                hint="Give work.hours, or work.items with work.seconds_per_item, in the file or "
                "by --set work.hours=40.",
            )
        self._note("work", format_duration(seconds), Origin.GIVEN)
        return seconds

    def _crews(self) -> int:
        workload = self._workload
        if workload.kind is Kind.TRAINING:
            return 1
        items = self._items()
        return workload.pods if items is None else min(workload.pods, items)

    def _busy_share(self, crews: int) -> float:
        items = self._items()
        return 1.0 if items is None else items / (crews * -(-items // crews))

    def _items(self) -> int | None:
        """What the Pods share between them; None if each is busy all the time."""
        work, kind = self._workload.work, self._workload.kind
        return None if work is None or kind in (Kind.TRAINING, Kind.SERVING) else work.items

    def _size_bytes(self) -> int:
        checkpoint = self._workload.checkpoint
        if checkpoint is None:
            return 0
        size = checkpoint.size or SIZE_BYTES
        origin = Origin.ASSUMED if checkpoint.size is None else Origin.GIVEN
        self._note("checkpoint size", f"{size / 1024**3:.3g} GiB", origin)
        # Every node of a training run saves its own part.
        return size // self._workload.nodes

    def _node_mean_seconds(self) -> float:
        name = "Spot: mean time between losses of a node"
        if self._lifetimes is not None:
            self._note(name, format_duration(self._lifetimes.mean_seconds), Origin.GIVEN)
            return self._lifetimes.mean_seconds
        accelerator = self._workload.accelerator
        hours = MEAN_HOURS.get(accelerator.type if accelerator else "", OTHER_MEAN_HOURS)
        return self._measured(name, "between_interruptions", hours * HOUR_SECONDS)

    def _unannounced_share(self) -> float:
        measured = self._workload.measured.unannounced
        share = IntervalPolicy().prior_unannounced_share if measured is None else measured
        origin = Origin.ASSUMED if measured is None else Origin.MEASURED
        self._note("Spot: losses without a notice", f"{share:.0%}", origin)
        return share

    def _grace_seconds(self) -> float:
        workload = self._workload
        seconds = float(workload.cluster.spot_grace_seconds)
        is_default = workload.cluster.shutdown_window == DEFAULT_WINDOW
        origin = Origin.ASSUMED if is_default else Origin.GIVEN
        if workload.measured.grace is not None:
            seconds, origin = workload.measured.grace.total_seconds(), Origin.MEASURED
        if workload.grace is not None and workload.grace.total_seconds() < seconds:
            seconds, origin = workload.grace.total_seconds(), Origin.GIVEN
        self._note("Spot: grace", format_duration(seconds), origin)
        return seconds

    def _save_seconds(self, size: int) -> float:
        return self._measured("a save, until durable", "save", size / SAVE_BYTES_PER_SECOND)

    def _stall_seconds(self, size: int) -> float:
        return self._measured(
            "a save, from the loop's time", "stall", size / STALL_BYTES_PER_SECOND
        )

    def _restart_seconds(self, size: int) -> float:
        assumed = START_SECONDS + size / SAVE_BYTES_PER_SECOND
        return self._measured("a restart, from the node to the first step", "restart", assumed)

    def _wait_seconds(self) -> dict[Tier, float]:
        waits = dict(WAIT_SECONDS)
        for tier, assumed in WAIT_SECONDS.items():
            name = f"{tier}: mean wait for a node"
            if tier is not Tier.SPOT:
                self._note(name, format_duration(assumed), Origin.ASSUMED)
            elif self._spot_wait_seconds is None:
                waits[tier] = self._measured(name, "waiting", assumed)
            else:
                waits[tier] = self._spot_wait_seconds
                self._note(name, format_duration(self._spot_wait_seconds), Origin.GIVEN)
        return waits

    def _fixed_interval_seconds(self) -> float | None:
        checkpoint = self._workload.checkpoint
        interval = checkpoint.interval if checkpoint else None
        if isinstance(interval, timedelta):
            return interval.total_seconds()
        return None

    def _piece_seconds(self) -> float:
        """What one interruption costs where the work consists of pieces: a piece at most."""
        work = self._workload.work
        if work is not None and work.seconds_per_item is not None:
            self._note("a piece", format_duration(work.seconds_per_item), Origin.GIVEN)
            return work.seconds_per_item
        self._note("a piece that is done again", format_duration(PIECE_SECONDS), Origin.ASSUMED)
        return PIECE_SECONDS
