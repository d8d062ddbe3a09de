"""The Pod template that Jobs, JobSets and Deployments share."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.placement import placement
from outlast.manifests.render.priority_class import priority_class_name
from outlast.manifests.render.settled import CONTAINER, Settled
from outlast.manifests.render.storage import mounts, quantity, volumes
from outlast.manifests.render.text import Value, Why
from outlast.manifests.render.variables import variables

_SHELLS = {"sh", "bash", "dash", "ash", "zsh"}
_GB = 1e9
RESERVE_SECONDS = 2
"""The end of the grace period that Outlast keeps for leaving."""


def pod_template(
    settled: Settled,
    *,
    restart_policy: str | None = "Never",
    extra_env: Sequence[Value] = (),
    run_folder: str = "",
    command: Sequence[str] | None = None,
    container: Mapping[str, Value] | None = None,
    extra_spec: Mapping[str, Value] | None = None,
) -> Value:
    """`container` and `extra_spec` add keys to the container and to the Pod's spec."""
    words = settled.workload.command if command is None else command
    body: dict[str, Value] = {"name": CONTAINER, "image": settled.workload.image}
    if words:
        body["command"] = _as_first_process(list(words))
    body["env"] = [*variables(settled, run_folder=run_folder), *extra_env]
    body["ports"] = _ports(settled)
    body["resources"] = _resources(settled)
    body["securityContext"] = {"allowPrivilegeEscalation": False}
    body.update(container or {})
    if listed := mounts(settled):
        body["volumeMounts"] = listed
    spec: dict[str, Value] = {}
    if restart_policy is not None:
        reason = "A podFailurePolicy needs Never: the Job replaces Pods, the kubelet restarts none."
        spec["restartPolicy"] = Why(restart_policy, reason)
    spec["serviceAccountName"] = settled.service_account
    if not settled.has_lease:
        spec["automountServiceAccountToken"] = False
    if name := priority_class_name(settled):
        spec["priorityClassName"] = name
    spec["terminationGracePeriodSeconds"] = Why(settled.grace_seconds, _grace_reason(settled))
    spec.update(placement(settled))
    spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec.update(extra_spec or {})
    spec["containers"] = [body]
    if listed := volumes(settled):
        spec["volumes"] = listed
    return {"metadata": _metadata(settled), "spec": spec}


def _metadata(settled: Settled) -> Value:
    metadata: dict[str, Value] = {"labels": settled.labels}
    annotations: dict[str, Value] = {}
    if settled.uses_fuse:
        reason = (
            "Here on the Pod template, where the webhook looks; on the Job it would do nothing."
        )
        annotations["gke-gcsfuse/volumes"] = Why("true", reason)
    if not settled.workload.interruptible and settled.workload.kind is not Kind.SERVING:
        reason = "The autoscaler must not move it to tidy up nodes."
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = Why("false", reason)
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _as_first_process(words: list[str]) -> Value:
    if PurePosixPath(words[0]).name not in _SHELLS:
        return words
    reason = "A shell as the first process keeps signals to itself; `outlast exec` passes them on."
    return Why(["outlast", "exec", "--", *words], reason)


def _ports(settled: Settled) -> list[Value]:
    ports: list[Value] = []
    if settled.workload.kind is Kind.SERVING:
        ports.append({"name": "http", "containerPort": settled.workload.serving.port})
    ports.append({"name": "metrics", "containerPort": settled.workload.alerts.metrics_port})
    return ports


def _resources(settled: Settled) -> Value:
    wanted, accelerator = settled.workload.resources, settled.workload.accelerator
    requests: dict[str, Value] = {}
    limits: dict[str, Value] = {}
    if wanted.cpu is not None:
        requests["cpu"] = f"{wanted.cpu:.15g}"
    if wanted.memory is not None:
        requests["memory"] = limits["memory"] = quantity(wanted.memory)
    if accelerator is not None:
        count = str(accelerator.count)
        requests["nvidia.com/gpu"] = count
        limits["nvidia.com/gpu"] = Why(count, "GPUs need a limit, equal to the request.")
    if not limits and not requests:
        return {}
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _grace_reason(settled: Settled) -> str:
    if not settled.can_be_reclaimed:
        return "Drains, deletions and upgrades give all of it."
    window = int(settled.workload.cluster.shutdown_window.total_seconds())
    reason = (
        f"All that a reclaimed Spot node gives: the kubelet keeps the last 15 s of its {window} s "
        "window for critical Pods. More would be ignored there, and the kill comes anyway."
    )
    checkpoint = settled.workload.checkpoint
    if checkpoint is not None and checkpoint.size is not None:
        seconds = settled.process_grace_seconds - RESERVE_SECONDS
        speed = checkpoint.size / _GB / seconds
        reason += (
            f" A whole final save has {seconds} s, which takes {speed:.2g} GB/s; if it does not "
            "fit, the last routine save counts."
        )
    return reason
