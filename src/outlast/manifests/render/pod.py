"""The Pod template that Jobs, JobSets and Deployments share."""

from collections.abc import Mapping, Sequence

from outlast.capacity.vocabulary import WorkloadKind
from outlast.manifests.conventions import FUSE_ANNOTATION, INTERRUPTED_CODE, SHELLS
from outlast.manifests.launchers import find_launcher, program_of
from outlast.manifests.render.eviction import priority_class_name
from outlast.manifests.render.launcher import launched_command, launcher_variables
from outlast.manifests.render.placement import placement
from outlast.manifests.render.resolved import CONTAINER, RESERVE_SECONDS, ResolvedWorkload
from outlast.manifests.render.resources import resources
from outlast.manifests.render.security import container_security, pod_security
from outlast.manifests.render.storage import mounts, volumes
from outlast.manifests.render.variables import variables
from outlast.yamltext.writing import Commented, Value

_GB = 1e9


def pod_template(
    resolved: ResolvedWorkload,
    *,
    restart_policy: str | None = "Never",
    extra_env: Sequence[Value] = (),
    run_folder: str = "",
    container: Mapping[str, Value] | None = None,
    extra_spec: Mapping[str, Value] | None = None,
) -> Value:
    """`container` and `extra_spec` add keys to the container and to the Pod's spec."""
    words = launched_command(resolved)
    body: dict[str, Value] = {"name": CONTAINER, "image": resolved.workload.image}
    if words:
        body["command"] = _as_first_process(list(words))
    body["env"] = [
        *variables(resolved, run_folder=run_folder),
        *launcher_variables(resolved),
        *extra_env,
    ]
    body["ports"] = _ports(resolved)
    body["resources"] = resources(resolved)
    body["securityContext"] = container_security(resolved)
    body.update(container or {})
    if listed := mounts(resolved):
        body["volumeMounts"] = listed
    spec: dict[str, Value] = {}
    if restart_policy is not None:
        reason = (
            "podFailurePolicy requires Never: the Job replaces Pods, the kubelet restarts none."
        )
        spec["restartPolicy"] = Commented(restart_policy, reason)
    spec["serviceAccountName"] = resolved.service_account
    if not resolved.has_lease:
        spec["automountServiceAccountToken"] = False
    if name := priority_class_name(resolved):
        spec["priorityClassName"] = name
    spec["terminationGracePeriodSeconds"] = Commented(
        resolved.grace_seconds, _grace_reason(resolved)
    )
    spec.update(placement(resolved))
    spec["securityContext"] = pod_security(resolved)
    spec.update(extra_spec or {})
    spec["containers"] = [body]
    if listed := volumes(resolved):
        spec["volumes"] = listed
    return {"metadata": _metadata(resolved), "spec": spec}


def _metadata(resolved: ResolvedWorkload) -> Value:
    metadata: dict[str, Value] = {"labels": resolved.labels}
    annotations: dict[str, Value] = {}
    if resolved.uses_fuse:
        reason = (
            "Must be on the Pod template, where the webhook looks; on the Job it has no effect."
        )
        annotations[FUSE_ANNOTATION] = Commented("true", reason)
    if not resolved.workload.interruptible and resolved.workload.kind is not WorkloadKind.SERVING:
        reason = "Keeps the autoscaler from evicting the Pod to remove underused nodes."
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = Commented("false", reason)
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _as_first_process(words: list[str]) -> Value:
    launcher = find_launcher(words)
    if program_of(words[0]) in SHELLS:
        reason = "A shell as PID 1 does not forward signals; `outlast exec` does."
    elif launcher is not None and not launcher.is_supervised:
        reason = (
            f"{launcher.name} always exits with 1 when it is stopped; `outlast exec` exits with "
            f"{INTERRUPTED_CODE} if the ranks have."
        )
    else:
        return words
    return Commented(["outlast", "exec", "--", *words], reason)


def _ports(resolved: ResolvedWorkload) -> list[Value]:
    ports: list[Value] = []
    if resolved.workload.kind is WorkloadKind.SERVING:
        ports.append({"name": "http", "containerPort": resolved.workload.serving.port})
    ports.append({"name": "metrics", "containerPort": resolved.workload.alerts.metrics_port})
    return ports


def _grace_reason(resolved: ResolvedWorkload) -> str:
    if not resolved.can_be_reclaimed:
        return "Drains, deletions and upgrades honor the full period."
    window = int(resolved.workload.cluster.shutdown_window.total_seconds())
    reason = (
        f"The most that a reclaimed Spot node gives: the kubelet reserves the last 15 s of its "
        f"{window} s shutdown window for critical Pods. A longer period would be cut short."
    )
    checkpoint = resolved.workload.checkpoint
    if checkpoint is not None and checkpoint.size is not None:
        seconds = resolved.process_grace_seconds - RESERVE_SECONDS
        speed = checkpoint.size / _GB / seconds
        reason += (
            f" A full final save within {seconds} s takes {speed:.2g} GB/s; if it does not finish, "
            "the last routine save is used."
        )
    return reason
