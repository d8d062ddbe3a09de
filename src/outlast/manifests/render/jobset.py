"""Training on several nodes: a JobSet whose Pods form one world, and the Service they meet at.

The nodes start and stop together. An interruption of one (the condition DisruptionTarget, or exit
code 75) fails its Job at once, and the JobSet then restarts all nodes without counting it.
"""

from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.job import failure_rules, job_metadata, reserve_reason
from outlast.manifests.render.launcher import GROUP, RENDEZVOUS_PORT
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value


def jobset_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    return [_service(resolved), _jobset(resolved)]


def jobset_pod_pattern(resolved: ResolvedWorkload) -> str:
    return f"{resolved.name}-{GROUP}-0-[0-9]+-[a-z0-9]{{5}}"


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
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT}],
        },
    }
    return manifest("45-service.yaml", body)


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
        {"name": GROUP, "replicas": 1, "template": {"spec": _job_spec(resolved)}}
    ]
    body: Value = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": job_metadata(resolved, resolved.name),
        "spec": spec,
    }
    reason = f"Tier {resolved.tier}. {resolved.tier_reason} Requires JobSet 0.7 or later."
    return manifest("50-jobset.yaml", body, reason=reason)


def _failure_policy(resolved: ResolvedWorkload) -> Value:
    reason = "Real failures; the default is 0." + reserve_reason(resolved)
    return {
        "maxRestarts": Commented(resolved.failures_max, reason),
        "restartStrategy": Commented(
            "BlockingRecreate", "No Pod starts until all Pods of the previous attempt are gone."
        ),
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
        "template": pod_template(resolved),
    }
