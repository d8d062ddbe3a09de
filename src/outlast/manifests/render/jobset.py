"""Training on several nodes: a JobSet that runs torchrun, and the Service its Pods meet at."""

from pathlib import PurePosixPath

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.job import failure_rules, job_metadata
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_GROUP = "node"
_PORT = 29_400
_JOIN_SECONDS = 3600


def jobset_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    return [_service(resolved), _jobset(resolved)]


def jobset_pod_pattern(resolved: ResolvedWorkload) -> str:
    return f"{resolved.name}-{_GROUP}-0-[0-9]+-[a-z0-9]{{5}}"


def _service(resolved: ResolvedWorkload) -> RenderedFile:
    body: Value = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": resolved.metadata,
        "spec": {
            "clusterIP": Commented(
                "None", "Headless: a DNS name for each Pod instead of one IP address."
            ),
            "selector": {"jobset.sigs.k8s.io/jobset-name": resolved.name},
            "publishNotReadyAddresses": Commented(
                True, "The Pods must find each other before they are ready."
            ),
            "ports": [{"name": "rendezvous", "port": _PORT}],
        },
    }
    return manifest("45-service.yaml", body)


_RANKS = (
    "Outlast does not yet save the state of more than one rank (WORLD_SIZE > 1): until sharded "
    "state is supported, the program has to save its own checkpoints below OUTLAST_RUN_URL. "
    "torchrun exits with 1, not 75, when it is stopped, so evictions are recognized by the "
    "condition DisruptionTarget."
)


def _jobset(resolved: ResolvedWorkload) -> RenderedFile:
    spec: dict[str, Value] = {}
    if resolved.is_queued:
        spec["suspend"] = Commented(True, "Kueue resumes it when its nodes are ready.")
    spec["network"] = {
        "enableDNSHostnames": True,
        "subdomain": Commented(resolved.name, "The headless Service in 45-service.yaml."),
    }
    spec["failurePolicy"] = _failure_policy(resolved)
    spec["replicatedJobs"] = [
        {"name": _GROUP, "replicas": 1, "template": {"spec": _job_spec(resolved)}}
    ]
    body: Value = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": job_metadata(resolved, resolved.name),
        "spec": spec,
    }
    reason = f"Tier {resolved.tier}. {resolved.tier_reason} {_RANKS}"
    return manifest("50-jobset.yaml", body, reason=reason)


def _failure_policy(resolved: ResolvedWorkload) -> Value:
    retries = resolved.workload.retries
    return {
        "maxRestarts": Commented(retries, "Real failures; the default is 0."),
        "rules": [
            {
                "name": "interrupted",
                "action": Commented(
                    "RestartJobSetAndIgnoreMaxRestarts",
                    "An eviction restarts all nodes and does not count as a restart.",
                ),
                "onJobFailureReasons": ["PodFailurePolicy"],
            }
        ],
    }


def _job_spec(resolved: ResolvedWorkload) -> Value:
    nodes = resolved.workload.nodes
    return {
        "parallelism": nodes,
        "completions": nodes,
        "completionMode": "Indexed",
        "backoffLimit": Commented(0, "If one node fails, all fail: they restart together."),
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": failure_rules("FailJob")},
        "template": pod_template(
            resolved,
            command=_torchrun(resolved.workload.command),
            extra_env=_rendezvous(resolved),
        ),
    }


def _torchrun(command: tuple[str, ...]) -> list[str]:
    """The command run by torchrun, which replaces the interpreter."""
    if command and PurePosixPath(command[0]).name in ("python", "python3"):
        return ["torchrun", *command[1:]]
    return list(command)


def _rendezvous(resolved: ResolvedWorkload) -> list[Value]:
    accelerator = resolved.workload.accelerator
    first = f"{resolved.name}-{_GROUP}-0-0.{resolved.name}:{_PORT}"
    pairs = {
        "PET_NNODES": str(resolved.workload.nodes),
        "PET_NPROC_PER_NODE": str(accelerator.count) if accelerator else "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": first,
        "PET_RDZV_ID": resolved.name,
        "PET_RDZV_CONF": f"join_timeout={_JOIN_SECONDS}",
    }
    reasons = {
        "PET_NNODES": "torchrun reads its options from PET_* variables.",
        "PET_RDZV_ENDPOINT": "The first Pod, by its DNS name from the Service.",
        "PET_RDZV_CONF": "Nodes start one by one, and the first has to wait for the last.",
    }
    return [
        {"name": Commented(n, reasons.get(n, "")), "value": value} for n, value in pairs.items()
    ]
