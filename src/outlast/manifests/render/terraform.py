"""The node pool as Terraform, formatted as by `terraform fmt`."""

import json
import re

from outlast.capacity.vocabulary import TaintEffect, Tier
from outlast.capacity.workload.cluster import LONG_WINDOW, NodePoolSpec
from outlast.manifests.render.files import SETUP, RenderedFile
from outlast.manifests.render.nodes import has_long_window, machine_of
from outlast.manifests.render.resolved import ResolvedWorkload

_EFFECTS = {
    TaintEffect.NO_SCHEDULE: "NO_SCHEDULE",
    TaintEffect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    TaintEffect.NO_EXECUTE: "NO_EXECUTE",
}


def terraform_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    pool = resolved.pool
    if pool is None or pool.exists:
        return None
    cluster = resolved.workload.cluster
    variables = [
        _variable("project", cluster.project, "The project of the cluster."),
        _variable("cluster", cluster.name, "The name of the cluster."),
    ]
    label = re.sub(r"[^a-z0-9]", "_", pool.name)
    body = [
        *_attributes(
            {
                "name": quoted(pool.name),
                "project": "var.project",
                "cluster": "var.cluster",
                "location": quoted(cluster.location),
            }
        ),
        "",
        *_autoscaling(resolved),
        "",
        *_node_config(resolved, pool),
    ]
    if resolved.tier is Tier.FLEX_START:
        body += ["", "# Flex-start nodes are replaced, not repaired."]
        body += _block("management", _attributes({"auto_repair": "false", "auto_upgrade": "true"}))
        if resolved.is_queued:
            body += ["", *_block("queued_provisioning", _attributes({"enabled": "true"}))]
    resource = _block(f'resource "google_container_node_pool" {quoted(label)}', body)
    head = "# The same node pool as in node-pool.sh."
    text = "\n\n".join([head, *variables, "\n".join(resource)]) + "\n"
    return RenderedFile(path=f"{SETUP}/node-pool.tf", text=text)


def quoted(text: str) -> str:
    """A string for HCL. Templates are escaped, so nothing in it is evaluated."""
    return json.dumps(text).replace("${", "$${").replace("%{", "%%{")


def _variable(name: str, default: str | None, description: str) -> str:
    attributes = {"type": "string", "description": quoted(description)}
    if default is not None:
        attributes["default"] = quoted(default)
    return "\n".join(_block(f"variable {quoted(name)}", _attributes(attributes)))


def _autoscaling(resolved: ResolvedWorkload) -> list[str]:
    return [
        "initial_node_count = 0",
        "",
        *_block(
            "autoscaling",
            _attributes(
                {
                    "total_min_node_count": "0",
                    "total_max_node_count": str(resolved.pool_nodes_max),
                    "location_policy": quoted("ANY"),
                }
            ),
        ),
    ]


def _node_config(resolved: ResolvedWorkload, pool: NodePoolSpec) -> list[str]:
    attributes = {"machine_type": quoted(machine_of(resolved, pool))}
    if resolved.tier is Tier.SPOT:
        attributes["spot"] = "true"
    if resolved.tier is Tier.FLEX_START:
        seconds = int(resolved.workload.max_run.total_seconds())
        attributes["flex_start"] = "true"
        attributes["max_run_duration"] = quoted(f"{seconds}s")
    lines = _attributes(attributes)
    if pool.labels:
        pairs = {quoted(key): quoted(value) for key, value in pool.labels.items()}
        lines += ["", "labels = {", *_indented(_attributes(pairs)), "}"]
    for block in _node_blocks(resolved, pool):
        lines += ["", *block]
    return _block("node_config", lines)


def _node_blocks(resolved: ResolvedWorkload, pool: NodePoolSpec) -> list[list[str]]:
    blocks = []
    accelerator = resolved.workload.accelerator
    if accelerator is not None:
        driver = _block(
            "gpu_driver_installation_config",
            _attributes({"gpu_driver_version": quoted("DEFAULT")}),
        )
        pairs = {"type": quoted(accelerator.type), "count": str(accelerator.count)}
        blocks.append(_block("guest_accelerator", [*_attributes(pairs), "", *driver]))
    for taint in pool.taints:
        pairs = {
            "key": quoted(taint.key),
            "value": quoted(taint.value),
            "effect": quoted(_EFFECTS[taint.effect]),
        }
        blocks.append(_block("taint", _attributes(pairs)))
    if resolved.tier is Tier.FLEX_START:
        pairs = {"consume_reservation_type": quoted("NO_RESERVATION")}
        blocks.append(_block("reservation_affinity", _attributes(pairs)))
    if has_long_window(resolved):
        seconds = str(int(LONG_WINDOW.total_seconds()))
        window = _attributes({"shutdown_grace_period_seconds": seconds})
        blocks.append(_block("kubelet_config", window))
    pairs = {"mode": quoted("GKE_METADATA")}
    blocks.append(_block("workload_metadata_config", _attributes(pairs)))
    return blocks


def _block(head: str, lines: list[str]) -> list[str]:
    return [f"{head} {{", *_indented(lines), "}"]


def _attributes(pairs: dict[str, str]) -> list[str]:
    width = max(map(len, pairs))
    return [f"{name:{width}} = {value}" for name, value in pairs.items()]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
