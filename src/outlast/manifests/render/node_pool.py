"""The node pool as a gcloud script, and the kubelet's settings where they differ."""

import shlex

from outlast.capacity.cluster import LONG_WINDOW, Pool
from outlast.capacity.vocabulary import Tier
from outlast.manifests.render.files import SETUP, RenderedFile
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import to_yaml

SYSTEM_CONFIG = "system-config.yaml"
_DRIVER = "default"


def node_pool_files(settled: Settled) -> list[RenderedFile]:
    pool = settled.pool
    if pool is None or pool.exists:
        return []
    files = [RenderedFile(path=f"{SETUP}/node-pool.sh", text=_script(settled, pool))]
    if has_long_window(settled):
        files.append(RenderedFile(path=f"{SETUP}/{SYSTEM_CONFIG}", text=_system_config()))
    return files


def has_long_window(settled: Settled) -> bool:
    is_long = settled.workload.cluster.shutdown_window == LONG_WINDOW
    return settled.tier is Tier.SPOT and is_long


def machine_of(settled: Settled, pool: Pool) -> str:
    return pool.machine or settled.workload.machine_type


def _script(settled: Settled, pool: Pool) -> str:
    lines = ["gcloud container node-pools create " + shlex.quote(pool.name), *_flags(settled, pool)]
    reasons = "\n".join(f"# {reason}" for reason in _reasons(settled))
    return (
        "#!/usr/bin/env bash\n"
        "# Creates the node pool. Run it once; node-pool.tf says the same in Terraform.\n"
        f"{reasons}\n"
        "set -euo pipefail\n\n" + " \\\n  ".join(lines) + "\n"
    )


def _flags(settled: Settled, pool: Pool) -> list[str]:
    cluster = settled.workload.cluster
    name = (
        shlex.quote(cluster.name)
        if cluster.name
        else '"${CLUSTER:?Set CLUSTER to the name of the cluster}"'
    )
    flags = [f"--cluster={name}", f"--location={shlex.quote(cluster.location)}"]
    if cluster.project is not None:
        flags.append(f"--project={shlex.quote(cluster.project)}")
    flags.append(f"--machine-type={shlex.quote(machine_of(settled, pool))}")
    accelerator = settled.workload.accelerator
    if accelerator is not None:
        value = f"type={accelerator.type},count={accelerator.count},gpu-driver-version={_DRIVER}"
        flags.append(f"--accelerator={shlex.quote(value)}")
    flags += _tier_flags(settled)
    if pool.taints:
        taints = ",".join(f"{t.key}={t.value}:{t.effect}" for t in pool.taints)
        flags.append(f"--node-taints={shlex.quote(taints)}")
    if pool.labels:
        labels = ",".join(f"{key}={value}" for key, value in pool.labels.items())
        flags.append(f"--node-labels={shlex.quote(labels)}")
    flags += [
        "--num-nodes=0",
        "--enable-autoscaling",
        "--total-min-nodes=0",
        f"--total-max-nodes={settled.pool_nodes_max}",
        "--location-policy=ANY",
        "--workload-metadata=GKE_METADATA",
    ]
    return flags


def _tier_flags(settled: Settled) -> list[str]:
    if settled.tier is Tier.SPOT:
        flags = ["--spot"]
        if has_long_window(settled):
            flags.append(f'--system-config-from-file="$(dirname "$0")/{SYSTEM_CONFIG}"')
        return flags
    if settled.tier is Tier.FLEX_START:
        seconds = int(settled.workload.max_run.total_seconds())
        flags = ["--flex-start", f"--max-run-duration={seconds}s"]
        if settled.is_queued:
            flags.append("--enable-queued-provisioning")
        return [*flags, "--reservation-affinity=none", "--no-enable-autorepair"]
    return []


def _reasons(settled: Settled) -> list[str]:
    reasons = []
    if settled.tier is Tier.SPOT:
        reasons.append("--node-taints keeps everything off that does not tolerate eviction.")
    if has_long_window(settled):
        reasons.append("--system-config-from-file: 105 s instead of 15 s to save. Needs GKE")
        reasons.append("1.35.0-gke.1171000 or newer, and a gcloud that knows the setting.")
    if settled.tier is Tier.FLEX_START:
        reasons.append("--max-run-duration is the lease; the Pods are told of its end.")
        reasons.append(
            "--reservation-affinity and --no-enable-autorepair: flex-start demands both."
        )
    reasons.append("--location-policy=ANY takes nodes from whatever zone has some.")
    reasons.append("--num-nodes=0: nodes come with the Pods and go after them.")
    return reasons


def _system_config() -> str:
    seconds = int(LONG_WINDOW.total_seconds())
    reason = "The kubelet keeps 15 s of this for critical Pods; ours get the rest."
    return to_yaml({"kubeletConfig": {"shutdownGracePeriodSeconds": seconds}}, reason=reason)
