"""The nodes: a gcloud script that creates the node pool, kubelet settings, and the ComputeClass.

A ComputeClass is for hybrid workloads: GKE tries its tiers in order and creates the nodes itself.
"""

import shlex

from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.cluster import LONG_WINDOW, NodePoolSpec
from outlast.manifests.render.files import SETUP, RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value, to_yaml

SYSTEM_CONFIG = "system-config.yaml"
_DRIVER = "default"


def node_pool_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    pool = resolved.pool
    if pool is None or pool.exists:
        return []
    files = [RenderedFile(path=f"{SETUP}/node-pool.sh", text=_script(resolved, pool))]
    if has_long_window(resolved):
        files.append(RenderedFile(path=f"{SETUP}/{SYSTEM_CONFIG}", text=_system_config()))
    return files


def has_long_window(resolved: ResolvedWorkload) -> bool:
    is_long = resolved.workload.cluster.shutdown_window == LONG_WINDOW
    return resolved.tier is Tier.SPOT and is_long


def machine_of(resolved: ResolvedWorkload, pool: NodePoolSpec) -> str:
    return pool.machine or resolved.workload.machine_type


def known_machine(resolved: ResolvedWorkload) -> str | None:
    """The machine type of the nodes; None if GKE or somebody else has chosen it."""
    if resolved.is_autopilot:
        return None
    pool = resolved.pool
    if pool is not None and pool.exists:
        return pool.machine or resolved.workload.machine
    return resolved.workload.machine_type if pool is None else machine_of(resolved, pool)


def _script(resolved: ResolvedWorkload, pool: NodePoolSpec) -> str:
    lines = [
        "gcloud container node-pools create " + shlex.quote(pool.name),
        *_flags(resolved, pool),
    ]
    reasons = "\n".join(f"# {reason}" for reason in _reasons(resolved))
    return (
        "#!/usr/bin/env bash\n"
        "# Creates the node pool. Run it once. node-pool.tf is the same in Terraform.\n"
        f"{reasons}\n"
        "set -euo pipefail\n\n" + " \\\n  ".join(lines) + "\n"
    )


def _flags(resolved: ResolvedWorkload, pool: NodePoolSpec) -> list[str]:
    cluster = resolved.workload.cluster
    name = (
        shlex.quote(cluster.name)
        if cluster.name
        else '"${CLUSTER:?Set CLUSTER to the name of the cluster}"'
    )
    flags = [f"--cluster={name}", f"--location={shlex.quote(cluster.location)}"]
    if cluster.project is not None:
        flags.append(f"--project={shlex.quote(cluster.project)}")
    flags.append(f"--machine-type={shlex.quote(machine_of(resolved, pool))}")
    accelerator = resolved.workload.accelerator
    if accelerator is not None:
        value = f"type={accelerator.type},count={accelerator.count},gpu-driver-version={_DRIVER}"
        flags.append(f"--accelerator={shlex.quote(value)}")
    flags += _tier_flags(resolved)
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
        f"--total-max-nodes={resolved.pool_nodes_max}",
        "--location-policy=ANY",
        "--workload-metadata=GKE_METADATA",
    ]
    return flags


def _tier_flags(resolved: ResolvedWorkload) -> list[str]:
    if resolved.tier is Tier.SPOT:
        flags = ["--spot"]
        if has_long_window(resolved):
            flags.append(f'--system-config-from-file="$(dirname "$0")/{SYSTEM_CONFIG}"')
        return flags
    if resolved.tier is Tier.FLEX_START:
        seconds = int(resolved.workload.max_run.total_seconds())
        flags = ["--flex-start", f"--max-run-duration={seconds}s"]
        if resolved.is_queued:
            flags.append("--enable-queued-provisioning")
        return [*flags, "--reservation-affinity=none", "--no-enable-autorepair"]
    return []


def _reasons(resolved: ResolvedWorkload) -> list[str]:
    reasons = []
    if resolved.tier is Tier.SPOT:
        reasons.append("--node-taints keeps away Pods that do not tolerate Spot.")
    if has_long_window(resolved):
        reasons.append(
            "--system-config-from-file gives Pods 105 s to save instead of 15 s. Requires GKE"
        )
        reasons.append(
            "1.35.0-gke.1171000 or later, and a gcloud version that supports the setting."
        )
    if resolved.tier is Tier.FLEX_START:
        reasons.append("--max-run-duration is the lease. Outlast in the Pods knows when it ends.")
        reasons.append(
            "--reservation-affinity and --no-enable-autorepair: flex-start requires both."
        )
    reasons.append("--location-policy=ANY takes nodes from any zone with capacity.")
    reasons.append("--num-nodes=0: the autoscaler adds nodes for Pods and removes them afterwards.")
    return reasons


def _system_config() -> str:
    seconds = int(LONG_WINDOW.total_seconds())
    reason = "The kubelet reserves 15 s of this for critical Pods; the workload gets the rest."
    return to_yaml({"kubeletConfig": {"shutdownGracePeriodSeconds": seconds}}, reason=reason)


def compute_class_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    if resolved.tier is not Tier.HYBRID:
        return None
    body: Value = {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": resolved.cluster_wide_name, "labels": resolved.labels},
        "spec": {
            "priorities": [_priority(resolved, tier) for tier in resolved.hybrid_order],
            "nodePoolAutoCreation": {"enabled": True},
            "activeMigration": {
                "optimizeRulePriority": Commented(
                    False, "Migrating back to a cheaper node would be another interruption."
                )
            },
            "whenUnsatisfiable": Commented(
                "DoNotScaleUp", "Any other node would lack the accelerator or cost more."
            ),
        },
    }
    reason = (
        f"Tiers are tried in this order: {', '.join(resolved.hybrid_order)}. {resolved.tier_reason}"
    )
    return manifest("35-compute-class.yaml", body, reason=reason)


def _priority(resolved: ResolvedWorkload, tier: Tier) -> Value:
    workload = resolved.workload
    priority: dict[str, Value] = {"machineType": workload.machine_type}
    if workload.accelerator is not None:
        priority["gpu"] = {
            "type": workload.accelerator.type,
            "count": workload.accelerator.count,
            "driverVersion": "default",
        }
    if tier is Tier.SPOT:
        priority["spot"] = True
        if workload.cluster.shutdown_window == LONG_WINDOW:
            seconds = int(LONG_WINDOW.total_seconds())
            priority["nodeSystemConfig"] = {
                "kubeletConfig": {"shutdownGracePeriodSeconds": seconds}
            }
    if tier is Tier.ON_DEMAND:
        priority["spot"] = False
    if tier is Tier.FLEX_START:
        lead = int(workload.hybrid.recycle_lead.total_seconds())
        priority["maxRunDurationSeconds"] = int(workload.max_run.total_seconds())
        priority["flexStart"] = {
            "enabled": True,
            "nodeRecycling": Commented(
                {"leadTimeSeconds": lead},
                "GKE looks for a replacement this long before the lease ends.",
            ),
        }
    return priority
