"""What the keys of a workload must be to each other. Each check blames one key."""

from collections.abc import Callable
from datetime import timedelta
from difflib import get_close_matches

from outlast.capacity.addresses import OBJECT_SCHEMES, QUEUE_SCHEMES, SINK_SCHEMES, check_url
from outlast.capacity.fields import FieldError
from outlast.capacity.machines import ATTACHED, MACHINES, built_in, default_machine
from outlast.capacity.parts import Endpoint, Serving, Storage
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.vocabulary import AccessMode, ClusterMode, Kind, StorageKind, Tier

MAX_RUN_MIN = timedelta(minutes=10)
MAX_RUN_MAX = timedelta(days=7)
TRIALS_MAX = 100_000
GRACE_MIN = timedelta(seconds=5)
RESERVED_VARIABLES = ("OUTLAST_", "KUBERNETES_", "PET_", "TRIAL_OFFSET", "JOB_COMPLETION_INDEX")


def check_workload(workload: WorkloadSpec) -> None:
    """Raise the first `FieldError` that is found."""
    for check in _CHECKS:
        check(workload)


def _check_machine(workload: WorkloadSpec) -> None:
    accelerator = workload.accelerator
    if accelerator is None:
        return
    kind, count = accelerator.type, accelerator.count
    if workload.machine is not None:
        comes_with = built_in(workload.machine)
        if comes_with is not None and comes_with != (kind, count):
            raise FieldError(
                ("machine",),
                f"A {workload.machine} comes with {comes_with[1]} {comes_with[0]}, "
                f"and {count} {kind} are asked for.",
            )
        if comes_with is None and kind in MACHINES and not workload.machine.startswith(ATTACHED):
            wanted = ", ".join(MACHINES[kind].values())
            raise FieldError(("machine",), f"It has no {kind}; take one of {wanted}.")
        return
    if kind not in MACHINES:
        near = get_close_matches(kind, MACHINES, n=1, cutoff=0.8)
        ask = f"Did you mean {near[0]!r}?" if near else "Name its machine type with `machine`."
        raise FieldError(("accelerator", "type"), f"No machine is known for it. {ask}")
    if default_machine(kind, count) is None:
        counts = ", ".join(map(str, MACHINES[kind]))
        raise FieldError(("accelerator", "count"), f"A node comes with {counts} {kind}.")


def _check_shape(workload: WorkloadSpec) -> None:
    kind = workload.kind
    if workload.nodes > 1 and kind is not Kind.TRAINING:
        raise FieldError(("nodes",), f"A {kind} workload grows by `parallelism`, not by nodes.")
    if workload.parallelism > 1 and kind in (Kind.TRAINING, Kind.SERVING):
        word = "nodes" if kind is Kind.TRAINING else "serving.replicas"
        raise FieldError(("parallelism",), f"A {kind} workload grows by `{word}`.")
    items = workload.work.items if workload.work else None
    if kind is Kind.SWEEP and items is not None and items > TRIALS_MAX:
        raise FieldError(("work", "items"), f"A sweep has at most {TRIALS_MAX:,} trials.")
    if workload.endless and (kind is not Kind.BATCH_INFERENCE or workload.work is not None):
        raise FieldError(("endless",), "Only batch-inference without `work` goes on for ever.")
    if kind is Kind.SERVING and workload.checkpoint is not None:
        raise FieldError(("checkpoint",), "A server keeps no checkpoints.")
    if workload.serving != Serving() and kind is not Kind.SERVING:
        raise FieldError(("serving",), f"The kind is {str(kind)!r}, which serves nothing.")


def _check_storage(workload: WorkloadSpec) -> None:
    checkpoint, storage, kind = workload.checkpoint, workload.storage, workload.storage_kind
    if checkpoint is None:
        if storage != Storage():
            raise FieldError(("storage",), "There is no `checkpoint` to store.")
        return
    scheme = checkpoint.url.partition(":")[0]
    if kind is StorageKind.CLAIM:
        if scheme != "file":
            raise FieldError(
                ("checkpoint", "url"), "On a claim the address is such as file:///mnt/checkpoints."
            )
        path = checkpoint.url.removeprefix("file://").rstrip("/")
        if storage.mount is not None and not f"{path}/".startswith(f"{storage.mount}/"):
            raise FieldError(("storage", "mount"), f"The checkpoints at {path!r} lie outside it.")
        if workload.pods > 1 and storage.access is AccessMode.READ_WRITE_ONCE:
            raise FieldError(
                ("checkpoint", "url"),
                f"{workload.pods} Pods on as many nodes need storage.access: ReadWriteMany, "
                "or a bucket.",
            )
    elif scheme not in OBJECT_SCHEMES:
        raise FieldError(("checkpoint", "url"), f"Storage {str(kind)!r} takes a bucket.")
    elif kind is StorageKind.FUSE and scheme != "gs":
        raise FieldError(("checkpoint", "url"), "Cloud Storage FUSE mounts gs:// only.")


def _check_endpoints(workload: WorkloadSpec) -> None:
    _check_endpoint("queue", workload.queue, QUEUE_SCHEMES)
    _check_endpoint("sink", workload.sink, SINK_SCHEMES)
    for name in ("queue", "sink"):
        if getattr(workload, name) is not None and workload.kind is not Kind.BATCH_INFERENCE:
            raise FieldError((name,), "Only batch-inference works on a queue and a sink.")
    if workload.queue is not None and workload.sink is None:
        raise FieldError(("queue",), "A queue needs a `sink` for its results.")


def _check_endpoint(name: str, endpoint: Endpoint | None, schemes: tuple[str, ...]) -> None:
    if endpoint is None or endpoint.url is None:
        return
    try:
        check_url(endpoint.url, schemes)
    except ValueError as error:
        raise FieldError((name, "url"), str(error)) from None


def _check_times(workload: WorkloadSpec) -> None:
    if not MAX_RUN_MIN <= workload.max_run <= MAX_RUN_MAX:
        raise FieldError(("max_run",), "A flex-start node lives 10m to 7d.")
    if workload.hybrid.recycle_lead >= workload.max_run:
        raise FieldError(("hybrid", "recycle_lead"), "It must be shorter than `max_run`.")
    if workload.grace is not None:
        if workload.grace < GRACE_MIN or workload.grace % timedelta(seconds=1):
            raise FieldError(("grace",), "A grace period is whole seconds, 5s or more.")
    if workload.max_run % timedelta(seconds=1):
        raise FieldError(("max_run",), "It is a whole number of seconds.")


def _check_tier(workload: WorkloadSpec) -> None:
    has_lease = workload.accelerator is not None or workload.machine_type.startswith("h4d")
    if workload.tier is Tier.FLEX_START and not has_lease:
        raise FieldError(("tier",), "Flex-start has accelerators and h4d machines only.")
    if workload.cluster.kueue is not None and workload.tier is not Tier.FLEX_START:
        raise FieldError(
            ("cluster", "kueue"), "Queued provisioning is rendered for `tier: flex-start` only."
        )
    if workload.cluster.kueue is not None and workload.kind is Kind.SERVING:
        raise FieldError(("cluster", "kueue"), "A server is not queued.")
    if workload.tier is Tier.FLEX_START and workload.kind is Kind.SERVING:
        raise FieldError(("tier",), "A server on flex-start goes down after 7 days at most.")
    autopilot = workload.cluster.mode is ClusterMode.AUTOPILOT
    if workload.cluster.kueue is not None and autopilot:
        raise FieldError(("cluster", "kueue"), "Queued provisioning needs a standard cluster.")


def _check_variables(workload: WorkloadSpec) -> None:
    for part in ("env", "secrets"):
        for name in getattr(workload, part):
            if name.startswith(RESERVED_VARIABLES):
                raise FieldError((part, name), "Variables of this name are set by the rendering.")
    both = sorted(workload.env.keys() & workload.secrets.keys())
    if both:
        raise FieldError(("secrets", both[0]), "It stands in `env` too.")


_CHECKS: tuple[Callable[[WorkloadSpec], None], ...] = (
    _check_machine,
    _check_shape,
    _check_storage,
    _check_endpoints,
    _check_times,
    _check_tier,
    _check_variables,
)
