"""Training over several nodes: a JobSet, the Service its Pods find each other by, torchrun."""

from pathlib import PurePosixPath

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.job import failure_rules, job_metadata
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why

_GROUP = "node"
_PORT = 29_400
_JOIN_SECONDS = 3600


def jobset_files(settled: Settled) -> list[RenderedFile]:
    return [_service(settled), _jobset(settled)]


def jobset_pod_pattern(settled: Settled) -> str:
    return f"{settled.name}-{_GROUP}-0-[0-9]+-[a-z0-9]{{5}}"


def _service(settled: Settled) -> RenderedFile:
    body: Value = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": settled.name,
            "namespace": settled.namespace,
            "labels": settled.labels,
        },
        "spec": {
            "clusterIP": Why("None", "Headless: a name for each Pod instead of one address."),
            "selector": {"jobset.sigs.k8s.io/jobset-name": settled.name},
            "publishNotReadyAddresses": Why(
                True, "The Pods meet before they are ready, and are ready by meeting."
            ),
            "ports": [{"name": "rendezvous", "port": _PORT}],
        },
    }
    return manifest("45-service.yaml", body)


def _jobset(settled: Settled) -> RenderedFile:
    spec: dict[str, Value] = {}
    if settled.is_queued:
        spec["suspend"] = Why(True, "Kueue resumes it once its nodes are there.")
    spec["network"] = {
        "enableDNSHostnames": True,
        "subdomain": Why(settled.name, "The headless Service beside this."),
    }
    spec["failurePolicy"] = _failure_policy(settled)
    spec["replicatedJobs"] = [
        {"name": _GROUP, "replicas": 1, "template": {"spec": _job_spec(settled)}}
    ]
    body: Value = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": job_metadata(settled, settled.name),
        "spec": spec,
    }
    reason = (
        f"Tier {settled.tier}. {settled.tier_reason} Outlast refuses to save the state of more "
        "than one rank (WORLD_SIZE > 1) until sharded state is supported: until then the program "
        "saves by its own means, below OUTLAST_RUN_URL. torchrun leaves with 1, not 75, when it is "
        "stopped, so that the condition DisruptionTarget is what tells an eviction."
    )
    return manifest("50-jobset.yaml", body, reason=reason)


def _failure_policy(settled: Settled) -> Value:
    retries = settled.workload.retries
    return {
        "maxRestarts": Why(retries, "Real failures; the default of 0 would allow none."),
        "rules": [
            {
                "name": "interrupted",
                "action": Why(
                    "RestartJobSetAndIgnoreMaxRestarts",
                    "An eviction restarts all nodes and spends no restart.",
                ),
                "onJobFailureReasons": ["PodFailurePolicy"],
            }
        ],
    }


def _job_spec(settled: Settled) -> Value:
    nodes = settled.workload.nodes
    return {
        "parallelism": nodes,
        "completions": nodes,
        "completionMode": "Indexed",
        "backoffLimit": Why(0, "One node's failure is the failure of all: they restart together."),
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": failure_rules("FailJob")},
        "template": pod_template(
            settled,
            command=_torchrun(settled.workload.command),
            extra_env=_rendezvous(settled),
        ),
    }


def _torchrun(command: tuple[str, ...]) -> list[str]:
    """The command under torchrun, which takes the place of the interpreter."""
    if command and PurePosixPath(command[0]).name in ("python", "python3"):
        return ["torchrun", *command[1:]]
    return list(command)


def _rendezvous(settled: Settled) -> list[Value]:
    accelerator = settled.workload.accelerator
    first = f"{settled.name}-{_GROUP}-0-0.{settled.name}:{_PORT}"
    pairs = {
        "PET_NNODES": str(settled.workload.nodes),
        "PET_NPROC_PER_NODE": str(accelerator.count) if accelerator else "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": first,
        "PET_RDZV_ID": settled.name,
        "PET_RDZV_CONF": f"join_timeout={_JOIN_SECONDS}",
    }
    reasons = {
        "PET_NNODES": "torchrun reads its options from PET_ variables.",
        "PET_RDZV_ENDPOINT": "The first Pod, by the name that the Service gives it.",
        "PET_RDZV_CONF": "Nodes come one by one; the first must wait for the last.",
    }
    return [{"name": Why(n, reasons.get(n, "")), "value": value} for n, value in pairs.items()]
