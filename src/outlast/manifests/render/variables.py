"""The environment variables of the container."""

from datetime import timedelta

from outlast._base.interval import LEARNED_WEIGHT
from outlast.capacity.vocabulary import StorageKind, Tier, WorkloadKind
from outlast.capacity.workload.sections import AddressOrSecret
from outlast.manifests.conventions import INTERRUPTED_CODE
from outlast.manifests.render.nodes import known_machine
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.manifests.render.security import home_variables
from outlast.yamltext.writing import Commented, Value

FUSE_MOUNT = "/mnt/checkpoints"


def variables(resolved: ResolvedWorkload, *, run_folder: str = "") -> list[Value]:
    """The list under `env`. `run_folder` separates the runs of several Jobs."""
    env: list[Value] = []
    if resolved.workload.kind is not WorkloadKind.SERVING:
        reason = "Not 0: since Kubernetes 1.27 a Job counts exit 0 as completion, even on eviction."
        env.append(_plain("OUTLAST_EXIT_CODE", str(INTERRUPTED_CODE), reason))
    env.append(_plain("OUTLAST_GRACE_SECONDS", *_grace(resolved)))
    env += _run(resolved, run_folder)
    env += _endpoints(resolved)
    env += _place(resolved)
    env += _clock(resolved)
    port = resolved.workload.alerts.metrics_port
    env.append(_plain("OUTLAST_METRICS_PORT", str(port)))
    reason = "Prometheus connects from outside the Pod; the default allows only the Pod itself."
    env.append(_plain("OUTLAST_METRICS_HOST", "0.0.0.0", reason))
    workload = resolved.workload
    chosen = workload.env.keys() | workload.secrets.keys()
    reason = "The image has no such user, and its own home directory is read-only."
    for name, value in home_variables(resolved).items():
        if name not in chosen:
            env.append(_plain(name, value, reason if name == "HOME" else ""))
    env += [_plain(name, value) for name, value in workload.env.items()]
    env += [_secret(name, ref) for name, ref in workload.secrets.items()]
    return env


def run_address(resolved: ResolvedWorkload, run_folder: str = "") -> str | None:
    """Where the process finds its checkpoints: a URL, or a path below a mount."""
    checkpoint = resolved.workload.checkpoint
    if checkpoint is None:
        return None
    address = checkpoint.url.rstrip("/")
    if resolved.workload.storage_kind is StorageKind.FUSE:
        # The mount shows the folder of the URL and nothing above it.
        address = resolved.workload.storage.mount or FUSE_MOUNT
    elif resolved.workload.storage_kind is StorageKind.CLAIM:
        address = address.removeprefix("file://")
    return f"{address}/{run_folder}" if run_folder else address


def _run(resolved: ResolvedWorkload, run_folder: str) -> list[Value]:
    address = run_address(resolved, run_folder)
    if address is None:
        return []
    reason = "Survives the node and the Pod: the next Pod resumes from here."
    if resolved.is_indexed:
        reason += " Outlast appends the index of an indexed Job."
    elif resolved.workload.nodes > 1:
        reason += " All nodes save one run together."
    env: list[Value] = [_plain("OUTLAST_RUN_URL", address, reason)]
    interval = resolved.workload.checkpoint.interval if resolved.workload.checkpoint else None
    if isinstance(interval, timedelta):
        seconds = interval / timedelta(seconds=1)
        env.append(_plain("OUTLAST_EVERY_SECONDS", f"{seconds:.15g}"))
    elif interval is not None:
        env.append(_plain("OUTLAST_EVERY_STEPS", str(interval)))
    else:
        env += _prior(resolved)
    return env


def _prior(resolved: ResolvedWorkload) -> list[Value]:
    """What earlier runs measured, so that a run does not have to learn it again."""
    workload = resolved.workload
    mean, unannounced = workload.measured.between_interruptions, workload.measured.unannounced
    if mean is None or not resolved.can_be_reclaimed:
        return []
    seconds = mean / timedelta(seconds=1) / workload.nodes
    reason = "As measured: how often the pool interrupts a run determines how often it saves."
    env: list[Value] = [
        _plain("OUTLAST_PRIOR_MEAN_SECONDS", f"{seconds:.6g}", reason),
        _plain("OUTLAST_PRIOR_WEIGHT", f"{LEARNED_WEIGHT:g}"),
    ]
    if workload.measured.age_shape is not None:
        env.append(_plain("OUTLAST_PRIOR_AGE_SHAPE", f"{workload.measured.age_shape:g}"))
    if unannounced is not None:
        env.append(_plain("OUTLAST_PRIOR_UNANNOUNCED_SHARE", f"{unannounced:g}"))
    return env


def _grace(resolved: ResolvedWorkload) -> tuple[str, str]:
    reason = ""
    if resolved.uses_fuse:
        reason = "Shorter than the Pod's grace period: the FUSE sidecar stops after the program "
        reason += "and still has to flush."
    elif resolved.can_be_reclaimed:
        reason = "What a reclaimed node gives: "
        reason += "the kubelet's shutdown window minus its last 15 s."
    return str(resolved.process_grace_seconds), reason


def _endpoints(resolved: ResolvedWorkload) -> list[Value]:
    env: list[Value] = []
    for name, endpoint in (
        ("OUTLAST_QUEUE_URL", resolved.workload.queue),
        ("OUTLAST_SINK_URL", resolved.workload.sink),
    ):
        if endpoint is not None:
            env.append(_endpoint(name, endpoint))
    return env


def _endpoint(name: str, endpoint: AddressOrSecret) -> Value:
    if endpoint.url is not None:
        return _plain(name, endpoint.url)
    assert endpoint.secret is not None
    return _secret(name, endpoint.secret)


def _place(resolved: ResolvedWorkload) -> list[Value]:
    """Where the Pod runs, for the journal of the run: it outlives the Pod and its events."""
    reason = "The journal records where each attempt ran."
    if resolved.has_lease:
        reason += " Outlast reads from this node when its lease ends, and stops before that."
    env: list[Value] = [
        field_variable("OUTLAST_NODE_NAME", "spec.nodeName", reason),
        field_variable("OUTLAST_POD_NAME", "metadata.name"),
        field_variable("OUTLAST_POD_UID", "metadata.uid"),
    ]
    if resolved.tier is not Tier.HYBRID:
        env.append(_plain("OUTLAST_TIER", str(resolved.tier)))
    if (machine := known_machine(resolved)) is not None:
        env.append(_plain("OUTLAST_MACHINE", machine))
    reason = "Kubernetes copies the label from the node since 1.35; before, the value is empty."
    env.append(
        field_variable("OUTLAST_ZONE", "metadata.labels['topology.kubernetes.io/zone']", reason)
    )
    return env


def _clock(resolved: ResolvedWorkload) -> list[Value]:
    if not resolved.has_lease:
        return []
    reason = "After the final save, until the node goes: a new Pod would start on the same node."
    env: list[Value] = [_plain("OUTLAST_STAY_UNTIL_SHUTDOWN", "1", reason)]
    if resolved.tier is Tier.FLEX_START:
        seconds = str(int(resolved.workload.max_run.total_seconds()))
        reason = "Counted from the boot of the node if its annotation cannot be read."
        env.append(_plain("OUTLAST_MAX_RUN_SECONDS", seconds, reason))
    return env


def field_variable(name: str, path: str, reason: str = "") -> Value:
    """A variable with the value of a field of the Pod."""
    return {"name": Commented(name, reason), "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _plain(name: str, value: str, reason: str = "") -> Value:
    return {"name": Commented(name, reason), "value": value}


def _secret(name: str, ref: str) -> Value:
    secret, _, key = ref.partition("/")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
