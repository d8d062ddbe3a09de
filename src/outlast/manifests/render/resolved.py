"""A workload with all shared decisions made: tier, names, grace period and node pool."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from outlast.capacity.planning.tier_rules import choose_tier_by_rule
from outlast.capacity.vocabulary import ClusterMode, Launcher, StorageKind, Tier, WorkloadKind
from outlast.capacity.workload.cluster import NodePoolSpec, TaintSpec
from outlast.capacity.workload.spec import WorkloadSpec
from outlast.errors import OutlastError
from outlast.manifests.conventions import SPOT_LABEL
from outlast.manifests.launchers import find_launcher, is_interpreter, supervision_of

CONTAINER = "main"


RESERVE_SECONDS = 2
"""The end of the grace period, which Outlast reserves for exiting."""

_STAYING_GRACE_SECONDS = 120
_SERVING_GRACE_SECONDS = 60
_FUSE_FLUSH_SECONDS = 3
_LABEL_CHARACTERS_MAX = 63
_UNMARKED_EVICTIONS = 10


class RenderError(OutlastError):
    """The workload file is valid, but no manifests could make the workload work as described."""


@dataclass(frozen=True, kw_only=True)
class ResolvedWorkload:
    """A workload with all decisions made. `resolve_workload` creates it and checks it."""

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
        """Whether a node may be a Spot VM, with its short shutdown window."""
        if self.tier is Tier.HYBRID:
            return Tier.SPOT in self.workload.hybrid.order
        return self.tier is Tier.SPOT

    @property
    def has_lease(self) -> bool:
        """Whether a node may be a flex-start node, which expires at a known time."""
        if self.tier is Tier.HYBRID:
            return Tier.FLEX_START in self.hybrid_order
        return self.tier is Tier.FLEX_START

    @property
    def hybrid_order(self) -> tuple[Tier, ...]:
        """The tiers to try in order, without flex-start if there is no accelerator to request."""
        if self.workload.accelerator is not None:
            return self.workload.hybrid.order
        return tuple(t for t in self.workload.hybrid.order if t is not Tier.FLEX_START)

    @property
    def is_queued(self) -> bool:
        return self.workload.cluster.kueue is not None

    @property
    def is_indexed(self) -> bool:
        """Whether its Pods are independent and belong to Jobs, each with an index of its own."""
        kind = self.workload.kind
        if kind is WorkloadKind.CI:
            return self.workload.parallelism > 1
        is_batch = kind is WorkloadKind.BATCH_INFERENCE and not self.workload.endless
        return is_batch or kind is WorkloadKind.SWEEP

    @property
    def launcher(self) -> Launcher:
        """What starts the ranks: as specified, else derived from the command."""
        given, command = self.workload.launcher, self.workload.command
        if given is not None:
            return given
        program = command[len(supervision_of(command)) :][:1]
        is_script = bool(program) and is_interpreter(program[0]) and find_launcher(command) is None
        return Launcher.TORCHRUN if self.workload.nodes > 1 and is_script else Launcher.NONE

    @property
    def grace_seconds(self) -> int:
        """The Pod's grace period: never longer than what a reclaimed node gives."""
        if self.workload.grace is not None:
            return int(self.workload.grace.total_seconds())
        if self.can_be_reclaimed:
            return self.workload.cluster.spot_grace_seconds
        is_server = self.workload.kind is WorkloadKind.SERVING
        return _SERVING_GRACE_SECONDS if is_server else _STAYING_GRACE_SECONDS

    @property
    def process_grace_seconds(self) -> int:
        """What the process may use of it: the FUSE sidecar stops after it, in the same period."""
        return self.grace_seconds - (_FUSE_FLUSH_SECONDS if self.uses_fuse else 0)

    @property
    def reserve(self) -> int:
        """Failures allowed in addition to `retries`, for evictions that look like failures.

        None if there are no retries: then the first failure is meant to end the Job.
        """
        may_have_them = self.can_be_reclaimed and self.workload.retries > 0
        return _UNMARKED_EVICTIONS if may_have_them else 0

    @property
    def failures_max(self) -> int:
        """How many failures the Job, or each of its indexes, survives."""
        return self.workload.retries + self.reserve

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
        """The labels of all objects of the workload."""
        return {
            **self.selector,
            "app.kubernetes.io/component": str(self.workload.kind),
            "app.kubernetes.io/managed-by": "outlast",
        }

    @property
    def metadata(self) -> dict[str, str | dict[str, str]]:
        """The metadata of objects that have the name of the workload."""
        return {"name": self.name, "namespace": self.namespace, "labels": self.labels}

    @property
    def selector(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name}

    @property
    def cluster_wide_name(self) -> str:
        """A name for cluster-scoped objects that is short enough for a label.

        The digest distinguishes namespace a-b with name c from namespace a with name b-c.
        """
        if self.namespace == self.name:
            return self.name
        digest = hashlib.sha256(f"{self.namespace}/{self.name}".encode()).hexdigest()[:8]
        name = f"{self.namespace}-{self.name}"[: _LABEL_CHARACTERS_MAX - 9]
        return f"{name}-{digest}"

    @cached_property
    def pool(self) -> NodePoolSpec | None:
        """The node pool of the tier: a listed one, or a new one. None if GKE creates the nodes."""
        if self.is_autopilot or self.tier is Tier.HYBRID:
            return None
        return self.workload.cluster.pool_for(self.tier) or self._own_pool()

    @property
    def pool_nodes_max(self) -> int:
        """The maximum over all zones."""
        if self.pool is not None and self.pool.max_nodes is not None:
            return self.pool.max_nodes
        # Rolling out a server needs room for one more replica.
        return self.workload.pods + (1 if self.workload.kind is WorkloadKind.SERVING else 0)

    def _own_pool(self) -> NodePoolSpec:
        accelerator = self.workload.accelerator
        hardware = accelerator.type.removeprefix("nvidia-") if accelerator else "cpu"
        count = f"-{accelerator.count}x" if accelerator else ""
        queued = "-queued" if self.is_queued else ""
        taints = (TaintSpec(key=SPOT_LABEL, value="true"),) if self.tier is Tier.SPOT else ()
        return NodePoolSpec(
            name=f"{self.tier}-{hardware}{count}{queued}"[:40], tier=self.tier, taints=taints
        )


def resolve_workload(workload: WorkloadSpec) -> ResolvedWorkload:
    """Choose the tier, and raise `RenderError` for what no manifest could make work."""
    choice = choose_tier_by_rule(workload)
    resolved = ResolvedWorkload(workload=workload, tier=choice.tier, tier_reason=choice.reason)
    _refuse_lost_work(resolved)
    _refuse_long_grace(resolved)
    _refuse_launcher_options(resolved)
    _refuse_jobset_priority(resolved)
    return resolved


def _refuse_lost_work(resolved: ResolvedWorkload) -> None:
    workload = resolved.workload
    if workload.kind is WorkloadKind.SERVING:
        return
    if resolved.can_be_reclaimed and not workload.resumable:
        raise RenderError(
            f"{workload.name!r} cannot resume, so on tier {str(resolved.tier)!r} it would start "
            "over after every eviction.",
            hint="Add a `checkpoint` (or a `queue` and a `sink`), or use tier: on-demand.",
        )
    if resolved.can_be_reclaimed and not workload.interruptible:
        raise RenderError(
            f"{workload.name!r} is not interruptible, but nodes of tier {str(resolved.tier)!r} can "
            "be reclaimed at any time.",
            hint="Use tier: flex-start or on-demand, or set interruptible: true.",
        )
    hours = _hours_of_a_pod(workload)
    lease_hours = workload.max_run.total_seconds() / 3600
    if resolved.has_lease and not workload.resumable and hours is not None and hours > lease_hours:
        raise RenderError(
            f"{workload.name!r} needs {hours:g} h and cannot resume, but a flex-start node lives "
            f"only {lease_hours:g} h.",
            hint="Add a `checkpoint`, or use tier: on-demand.",
        )


def _hours_of_a_pod(workload: WorkloadSpec) -> float | None:
    """The hours each Pod runs: `hours` is per Pod, items are divided among the Pods."""
    if workload.work is None or workload.work.hours is not None:
        return workload.work.hours if workload.work else None
    total = workload.work.compute_hours
    return None if total is None else total / workload.pods


def _refuse_long_grace(resolved: ResolvedWorkload) -> None:
    window_seconds = resolved.workload.cluster.spot_grace_seconds
    if resolved.can_be_reclaimed and resolved.grace_seconds > window_seconds:
        raise RenderError(
            f"A grace period of {resolved.grace_seconds} s is not possible on Spot: the kubelet's "
            f"shutdown window leaves {window_seconds} s before the kill.",
            hint=f"Set grace: {window_seconds}s or remove it. With Kubernetes 1.35, "
            "cluster.shutdown_window: 120s leaves 105 s.",
        )
    if resolved.process_grace_seconds < 3:
        raise RenderError(
            f"A grace period of {resolved.grace_seconds} s leaves the process only "
            f"{resolved.process_grace_seconds} s.",
            hint="Increase `grace`: the FUSE sidecar needs part of it to flush.",
        )


def _refuse_jobset_priority(resolved: ResolvedWorkload) -> None:
    workload = resolved.workload
    if workload.nodes > 1 and workload.priority < 0:
        raise RenderError(
            f"Priority {workload.priority} does not work with several nodes: JobSet 0.11 and 0.12 "
            "copy it into a label, which cannot start with '-', so no Pod is created.",
            hint="Use 0, the default for several nodes, or a higher priority.",
        )


def _refuse_launcher_options(resolved: ResolvedWorkload) -> None:
    """Options in the command take precedence over the variables that make evictions work."""
    call = find_launcher(resolved.workload.command)
    if call is None:
        return
    is_several = resolved.workload.nodes > 1
    restarts = call.options.get("max-restarts")
    loses_node = is_several or resolved.can_be_reclaimed or resolved.has_lease
    if loses_node and restarts is not None and restarts.value.strip("0"):
        raise RenderError(
            f"{call.name} --max-restarts {restarts.value} would restart ranks that stop for an "
            "eviction on the node that is going away.",
            hint="Remove the option: the Job restarts the Pods. `retries` limits real failures.",
        )
    timeout, seconds = call.options.get("shutdown-timeout"), resolved.process_grace_seconds
    if timeout is not None and timeout.value.isdecimal() and int(timeout.value) > seconds:
        raise RenderError(
            f"{call.name} --shutdown-timeout {timeout.value} is longer than the {seconds} s that "
            "the Pod has to exit.",
            hint="Remove the option: `outlast render` sets a timeout that fits the grace period.",
        )
    if is_several and "standalone" in call.options:
        raise RenderError(
            f"{call.name} --standalone would start a separate run on each of the "
            f"{resolved.workload.nodes} nodes.",
            hint="Remove the option, or set nodes: 1.",
        )
