"""Checks on combinations of keys in a workload. Each error points to one key."""

import re
from collections.abc import Callable
from datetime import timedelta

from outlast._redact import redact_all, redact_words, shows_secret
from outlast.capacity.google_cloud import (
    ATTACHED,
    MACHINES,
    built_in,
    default_machine,
    has_tpus,
    similar_accelerator,
)
from outlast.capacity.vocabulary import (
    AccessMode,
    ClusterMode,
    Launcher,
    StorageKind,
    Tier,
    WorkloadKind,
)
from outlast.capacity.workload.addresses import (
    OBJECT_SCHEMES,
    QUEUE_SCHEMES,
    SINK_SCHEMES,
    bucket_of,
    check_url,
)
from outlast.capacity.workload.fields import FieldError
from outlast.capacity.workload.sections import NO_TPUS, AddressOrSecret, Serving, Storage
from outlast.capacity.workload.spec import WorkloadSpec

MAX_RUN_MIN = timedelta(minutes=10)
MAX_RUN_MAX = timedelta(days=7)
TRIALS_MAX = 100_000
GRACE_MIN = timedelta(seconds=5)
RESERVED_VARIABLES = (
    *("OUTLAST_", "KUBERNETES_", "PET_", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    *("TRIAL_OFFSET", "JOB_COMPLETION_INDEX", "JOBSET_RESTART_ATTEMPT"),
)


def check_workload(workload: WorkloadSpec) -> None:
    """Raise a `FieldError` for the first problem found."""
    for check in _CHECKS:
        check(workload)


def _check_machine(workload: WorkloadSpec) -> None:
    if workload.machine is not None and has_tpus(workload.machine):
        raise FieldError(("machine",), NO_TPUS)
    accelerator = workload.accelerator
    if accelerator is None:
        return
    kind, count = accelerator.type, accelerator.count
    if workload.machine is not None:
        comes_with = built_in(workload.machine)
        if comes_with is not None and comes_with != (kind, count):
            raise FieldError(
                ("machine",),
                f"A {workload.machine} has {comes_with[1]} {comes_with[0]}, but the workload asks "
                f"for {count} {kind}.",
            )
        if comes_with is None and kind in MACHINES and not workload.machine.startswith(ATTACHED):
            wanted = ", ".join(MACHINES[kind].values())
            raise FieldError(("machine",), f"This machine type has no {kind}. Use one of {wanted}.")
        return
    if kind not in MACHINES:
        near = similar_accelerator(kind)
        ask = f"Did you mean {near!r}?" if near else "Set the machine type with `machine`."
        raise FieldError(
            ("accelerator", "type"), f"No machine type is known for this accelerator. {ask}"
        )
    if default_machine(kind, count) is None:
        counts = ", ".join(map(str, MACHINES[kind]))
        raise FieldError(
            ("accelerator", "count"), f"Machine types with {kind} have {counts} of them."
        )


def _check_shape(workload: WorkloadSpec) -> None:
    kind = workload.kind
    if workload.nodes > 1 and kind is not WorkloadKind.TRAINING:
        raise FieldError(
            ("nodes",), f"A {kind} workload scales with `parallelism`, not with `nodes`."
        )
    if workload.parallelism > 1 and kind in (WorkloadKind.TRAINING, WorkloadKind.SERVING):
        word = "nodes" if kind is WorkloadKind.TRAINING else "serving.replicas"
        raise FieldError(("parallelism",), f"A {kind} workload scales with `{word}`.")
    if workload.launcher is not None and kind not in (WorkloadKind.TRAINING, WorkloadKind.SWEEP):
        raise FieldError(("launcher",), f"A {kind} workload has no ranks to launch.")
    if workload.launcher is Launcher.TORCHRUN and not workload.command:
        raise FieldError(
            ("launcher",), "torchrun needs a `command` to run, such as [python, train.py]."
        )
    items = workload.work.items if workload.work else None
    if kind is WorkloadKind.SWEEP and items is not None and items > TRIALS_MAX:
        raise FieldError(("work", "items"), f"A sweep can have at most {TRIALS_MAX:,} trials.")
    if workload.endless and (kind is not WorkloadKind.BATCH_INFERENCE or workload.work is not None):
        raise FieldError(
            ("endless",), "Only a batch-inference workload without `work` can be endless."
        )
    if kind is WorkloadKind.SERVING and workload.checkpoint is not None:
        raise FieldError(("checkpoint",), "Serving workloads do not save checkpoints.")
    if workload.serving != Serving() and kind is not WorkloadKind.SERVING:
        raise FieldError(
            ("serving",), f"Only serving workloads use this section; the kind is {str(kind)!r}."
        )
    if kind is WorkloadKind.SERVING and workload.serving.port == workload.alerts.metrics_port:
        raise FieldError(
            ("serving", "port"),
            f"Port {workload.serving.port} is also alerts.metrics_port. Change one of them.",
        )


def _check_storage(workload: WorkloadSpec) -> None:
    checkpoint, storage, kind = workload.checkpoint, workload.storage, workload.storage_kind
    if checkpoint is None:
        if storage != Storage():
            raise FieldError(("storage",), "Storage requires the section `checkpoint`.")
        return
    scheme = checkpoint.url.partition(":")[0]
    if kind is StorageKind.CLAIM:
        if scheme != "file":
            raise FieldError(
                ("checkpoint", "url"),
                "A claim requires a file URL such as file:///mnt/checkpoints.",
            )
        path = checkpoint.url.removeprefix("file://").rstrip("/")
        if storage.mount is not None and not f"{path}/".startswith(f"{storage.mount}/"):
            raise FieldError(
                ("storage", "mount"), f"The checkpoint path {path!r} is outside this mount."
            )
        if workload.pods > 1 and storage.access is AccessMode.READ_WRITE_ONCE:
            raise FieldError(
                ("checkpoint", "url"),
                f"{workload.pods} Pods on different nodes need storage.access: ReadWriteMany or a "
                "bucket.",
            )
    elif scheme not in OBJECT_SCHEMES:
        raise FieldError(("checkpoint", "url"), f"Storage {str(kind)!r} requires a bucket URL.")
    elif kind is StorageKind.FUSE and scheme != "gs":
        raise FieldError(("checkpoint", "url"), "Cloud Storage FUSE supports only gs:// URLs.")
    elif kind is StorageKind.FUSE and not re.fullmatch(
        r"[A-Za-z0-9._/-]*", bucket_of(checkpoint.url).folder
    ):
        # It becomes a mount option, where a comma starts the next one.
        raise FieldError(
            ("checkpoint", "url"),
            "Cloud Storage FUSE folders may contain only letters, digits, '.', '_' and '-'.",
        )


def _check_endpoints(workload: WorkloadSpec) -> None:
    _check_endpoint("queue", workload.queue, QUEUE_SCHEMES)
    _check_endpoint("sink", workload.sink, SINK_SCHEMES)
    for name in ("queue", "sink"):
        if (
            getattr(workload, name) is not None
            and workload.kind is not WorkloadKind.BATCH_INFERENCE
        ):
            raise FieldError((name,), "Only batch-inference workloads have a queue and a sink.")
    if workload.queue is not None and workload.sink is None:
        raise FieldError(("queue",), "A queue requires a `sink` for the results.")


def _check_endpoint(name: str, endpoint: AddressOrSecret | None, schemes: tuple[str, ...]) -> None:
    if endpoint is None or endpoint.url is None:
        return
    try:
        check_url(endpoint.url, schemes)
    except ValueError as error:
        raise FieldError((name, "url"), str(error)) from None


def _check_times(workload: WorkloadSpec) -> None:
    if not MAX_RUN_MIN <= workload.max_run <= MAX_RUN_MAX:
        raise FieldError(("max_run",), "Expected 10m to 7d.")
    if workload.hybrid.recycle_lead >= workload.max_run:
        raise FieldError(("hybrid", "recycle_lead"), "Expected a duration shorter than `max_run`.")
    if workload.grace is not None:
        if workload.grace < GRACE_MIN or workload.grace % timedelta(seconds=1):
            raise FieldError(("grace",), "Expected whole seconds, at least 5s.")
    if workload.max_run % timedelta(seconds=1):
        raise FieldError(("max_run",), "Expected whole seconds.")


def _check_tier(workload: WorkloadSpec) -> None:
    if workload.tier is Tier.FLEX_START and not workload.has_flex_start:
        raise FieldError(
            ("tier",), "Flex-start offers only machines with accelerators and h4d machines."
        )
    if workload.cluster.kueue is not None and workload.tier is not Tier.FLEX_START:
        raise FieldError(("cluster", "kueue"), "Queued provisioning requires `tier: flex-start`.")
    if workload.cluster.kueue is not None and workload.kind is WorkloadKind.SERVING:
        raise FieldError(("cluster", "kueue"), "Serving workloads cannot use queued provisioning.")
    if workload.tier is Tier.FLEX_START and workload.kind is WorkloadKind.SERVING:
        raise FieldError(("tier",), "A server on flex-start would go down after at most 7 days.")
    autopilot = workload.cluster.mode is ClusterMode.AUTOPILOT
    if workload.cluster.kueue is not None and autopilot:
        raise FieldError(("cluster", "kueue"), "Queued provisioning requires a standard cluster.")


def _check_variables(workload: WorkloadSpec) -> None:
    for part in ("env", "secrets"):
        for name in getattr(workload, part):
            if name.startswith(RESERVED_VARIABLES):
                raise FieldError(
                    (part, name), "This variable name is reserved: `outlast render` sets it."
                )
    for name, value in workload.env.items():
        if redact_all(f"{name}={value}", ()) != f"{name}={value}" or shows_secret(value):
            raise FieldError(
                ("env", name),
                "This looks like a secret, which does not belong in a manifest. Store it in a "
                f"Kubernetes Secret and reference it under `secrets`: {name}: NAME/KEY.",
            )
    if redact_words(workload.command, secrets=()) != workload.command:
        raise FieldError(
            ("command",),
            "This contains what looks like a secret, which does not belong in a manifest. Store it "
            "in a Kubernetes Secret, reference it under `secrets` and use $(VARIABLE) here.",
        )
    both = sorted(workload.env.keys() & workload.secrets.keys())
    if both:
        raise FieldError(("secrets", both[0]), "This variable is also set in `env`.")


_CHECKS: tuple[Callable[[WorkloadSpec], None], ...] = (
    _check_machine,
    _check_shape,
    _check_storage,
    _check_endpoints,
    _check_times,
    _check_tier,
    _check_variables,
)
