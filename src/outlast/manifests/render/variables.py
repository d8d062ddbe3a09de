"""What reaches the process as environment variables."""

from datetime import timedelta

from outlast._base.interval import LEARNED_WEIGHT
from outlast.capacity.addresses import bucket_of
from outlast.capacity.parts import Endpoint
from outlast.capacity.vocabulary import Kind, StorageKind, Tier
from outlast.manifests.render.settled import INTERRUPTED_CODE, Settled
from outlast.manifests.render.text import Value, Why

FUSE_MOUNT = "/mnt/checkpoints"


def variables(settled: Settled, *, run_folder: str = "") -> list[Value]:
    """The list under `env`. `run_folder` sets the runs of several Jobs apart."""
    env: list[Value] = []
    if settled.workload.kind is not Kind.SERVING:
        reason = "Not 0: since Kubernetes 1.27 a Job counts exit 0 as completion, even at eviction."
        env.append(_plain("OUTLAST_EXIT_CODE", str(INTERRUPTED_CODE), reason))
    env.append(_plain("OUTLAST_GRACE_SECONDS", *_grace(settled)))
    env += _run(settled, run_folder)
    env += _endpoints(settled)
    env += _clock(settled)
    port = settled.workload.alerts.metrics_port
    env.append(_plain("OUTLAST_METRICS_PORT", str(port)))
    reason = "Prometheus comes from outside the Pod; the default lets in nobody but the Pod itself."
    env.append(_plain("OUTLAST_METRICS_HOST", "0.0.0.0", reason))
    workload = settled.workload
    env += [_plain(name, value) for name, value in workload.env.items()]
    env += [_secret(name, ref) for name, ref in workload.secrets.items()]
    return env


def run_address(settled: Settled, run_folder: str = "") -> str | None:
    """Where the process finds its checkpoints: an address, or a path below a mount."""
    checkpoint = settled.workload.checkpoint
    if checkpoint is None:
        return None
    address = checkpoint.url.rstrip("/")
    if settled.workload.storage_kind is StorageKind.FUSE:
        mount = settled.workload.storage.mount or FUSE_MOUNT
        folder = bucket_of(checkpoint.url).folder
        address = f"{mount}/{folder}" if folder else mount
    elif settled.workload.storage_kind is StorageKind.CLAIM:
        address = address.removeprefix("file://")
    return f"{address}/{run_folder}" if run_folder else address


def _run(settled: Settled, run_folder: str) -> list[Value]:
    address = run_address(settled, run_folder)
    if address is None:
        return []
    reason = "Outlives the node and the Pod: whoever starts next resumes from here."
    if settled.workload.kind in (Kind.SWEEP, Kind.CI):
        reason += " Outlast appends the index of an indexed Job."
    env: list[Value] = [_plain("OUTLAST_RUN_URL", address, reason)]
    interval = settled.workload.checkpoint.interval if settled.workload.checkpoint else None
    if isinstance(interval, timedelta):
        seconds = interval / timedelta(seconds=1)
        env.append(_plain("OUTLAST_EVERY_SECONDS", f"{seconds:.15g}"))
    elif interval is not None:
        env.append(_plain("OUTLAST_EVERY_STEPS", str(interval)))
    else:
        env += _prior(settled)
    return env


def _prior(settled: Settled) -> list[Value]:
    """What earlier runs measured of the pool, so that a run need not learn it anew."""
    workload = settled.workload
    mean, unannounced = workload.measured.between_interruptions, workload.measured.unannounced
    if mean is None or not settled.can_be_reclaimed:
        return []
    seconds = mean / timedelta(seconds=1) / workload.nodes
    reason = "As measured: how often this pool interrupts a run sets how often it saves."
    env: list[Value] = [
        _plain("OUTLAST_PRIOR_MEAN_SECONDS", f"{seconds:.6g}", reason),
        _plain("OUTLAST_PRIOR_WEIGHT", f"{LEARNED_WEIGHT:g}"),
    ]
    if unannounced is not None:
        env.append(_plain("OUTLAST_PRIOR_UNANNOUNCED_SHARE", f"{unannounced:g}"))
    return env


def _grace(settled: Settled) -> tuple[str, str]:
    reason = ""
    if settled.uses_fuse:
        reason = "Shorter than the Pod's grace: the FUSE sidecar ends after the program and still "
        reason += "has to flush."
    elif settled.can_be_reclaimed:
        reason = "What a reclaimed node really gives: "
        reason += "the kubelet's shutdown window less its last 15 s."
    return str(settled.process_grace_seconds), reason


def _endpoints(settled: Settled) -> list[Value]:
    env: list[Value] = []
    for name, endpoint in (
        ("OUTLAST_QUEUE_URL", settled.workload.queue),
        ("OUTLAST_SINK_URL", settled.workload.sink),
    ):
        if endpoint is not None:
            env.append(_endpoint(name, endpoint))
    return env


def _endpoint(name: str, endpoint: Endpoint) -> Value:
    if endpoint.url is not None:
        return _plain(name, endpoint.url)
    assert endpoint.secret is not None
    return _secret(name, endpoint.secret)


def _clock(settled: Settled) -> list[Value]:
    if not settled.has_lease:
        return []
    reason = "The expiry clock: Outlast reads from this node when its lease ends, and stops ahead."
    env: list[Value] = [
        {
            "name": Why("OUTLAST_NODE_NAME", reason),
            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        }
    ]
    if settled.tier is Tier.FLEX_START:
        seconds = str(int(settled.workload.max_run.total_seconds()))
        reason = "Counted from the boot of the node, should its annotation not be readable."
        env.append(_plain("OUTLAST_MAX_RUN_SECONDS", seconds, reason))
    return env


def _plain(name: str, value: str, reason: str = "") -> Value:
    return {"name": Why(name, reason), "value": value}


def _secret(name: str, ref: str) -> Value:
    secret, _, key = ref.partition("/")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
