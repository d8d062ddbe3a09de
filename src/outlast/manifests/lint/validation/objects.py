"""Everything that the API server refuses about an object beyond its schema.

One table of kinds; a new kind is one row. Pure: an object in, refusals out.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from outlast.manifests.lint.kubernetes.placeholders import (
    asks_for_value,
    is_in_templates,
    is_instruction,
    is_replaced,
)
from outlast.manifests.lint.kubernetes.templates import SLOTS, expand
from outlast.manifests.lint.validation.controllers import (
    check_daemon_set,
    check_deployment,
    check_replica_set,
    check_stateful_set,
)
from outlast.manifests.lint.validation.cronjobs import check_cron_job
from outlast.manifests.lint.validation.jobs import JobOwner, check_job, check_job_template
from outlast.manifests.lint.validation.metadata import check_metadata
from outlast.manifests.lint.validation.others import (
    check_autoscaler,
    check_budget,
    check_config_map,
    check_persistent_claim,
    check_priority_class,
    check_role,
    check_role_binding,
    check_secret,
)
from outlast.manifests.lint.validation.pods import check_pod, check_template
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    listed,
    mapping,
    mappings,
    text,
)
from outlast.manifests.lint.validation.services import check_service
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Path, get

Check = Callable[[dict[str, Any]], Refusals]

# Text that is replaced before the manifest is applied.
_PLACEHOLDER = re.compile(
    r"[${}<>]|%[A-Z]|^ENC\[|(?:^|[/:.-])_{0,2}[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_{0,2}(?=$|[/:.-])"
)
_CAPITALS = re.compile(r"^[A-Z][A-Z0-9-]{2,}$|(?:^|[-./])[A-Z][A-Z0-9]{4,}(?=$|[-./])")
_VERSIONS = ("v1", "v2")
_JOBSET = ("jobset.x-k8s.io", "JobSet")


def _metadata_only(data: dict[str, Any]) -> Refusals:
    return iter(())


_KINDS: dict[tuple[str, str], Check] = {
    ("", "ConfigMap"): check_config_map,
    ("", "Namespace"): _metadata_only,
    ("", "PersistentVolumeClaim"): check_persistent_claim,
    ("", "Pod"): check_pod,
    ("", "PodTemplate"): lambda data: check_template(mapping(data, "template"), ("template",)),
    ("", "Secret"): check_secret,
    ("", "Service"): check_service,
    ("", "ServiceAccount"): _metadata_only,
    ("apps", "DaemonSet"): check_daemon_set,
    ("apps", "Deployment"): check_deployment,
    ("apps", "ReplicaSet"): check_replica_set,
    ("apps", "StatefulSet"): check_stateful_set,
    ("autoscaling", "HorizontalPodAutoscaler"): check_autoscaler,
    ("batch", "CronJob"): check_cron_job,
    ("batch", "Job"): check_job,
    ("policy", "PodDisruptionBudget"): check_budget,
    ("rbac.authorization.k8s.io", "ClusterRole"): check_role,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): check_role_binding,
    ("rbac.authorization.k8s.io", "Role"): check_role,
    ("rbac.authorization.k8s.io", "RoleBinding"): check_role_binding,
    ("scheduling.k8s.io", "PriorityClass"): check_priority_class,
}


def refusals(manifest: KubernetesObject) -> Iterator[Refusal]:
    """What the server refuses. Empty for kinds of which nothing is known.

    Placeholders are not judged, nor what is missing from an object that Kustomize completes.
    """
    key = (manifest.group, manifest.kind)
    for refusal in _raw(manifest, key):
        if manifest.is_base and refusal.reason in (Reason.REQUIRED, Reason.NOT_FOUND):
            continue
        if not (_is_placeholder(manifest, refusal) or _is_completed_by_spark(manifest, refusal)):
            yield refusal


def _raw(manifest: KubernetesObject, key: tuple[str, str]) -> Refusals:
    check = _KINDS.get(key)
    if check is not None and manifest.api_version.rpartition("/")[2] not in _VERSIONS:
        # A version that was removed, with fields of its own.
        return
    if check is not None:
        yield from check_metadata(manifest.data, manifest.kind)
        yield from check(manifest.data)
    elif key == _JOBSET:
        yield from check_metadata(manifest.data, manifest.kind)
        yield from _job_set(manifest)
    elif key in SLOTS:
        # Its controller may complete the templates, so nothing is missing yet.
        for slot in SLOTS[key]:
            for path in expand(manifest.data, slot.template):
                template = get(manifest.data, path)
                if isinstance(template, dict):
                    for refusal in check_template(template, path):
                        if refusal.reason not in (Reason.REQUIRED, Reason.NOT_FOUND):
                            yield refusal


def _job_set(manifest: KubernetesObject) -> Refusals:
    spec = mapping(manifest.data, "spec")
    owner = JobOwner(
        kind="JobSet",
        restart_policy="OnFailure",
        completion_mode="Indexed",
        volumes=frozenset(_claimed(spec)),
    )
    for index, replicated in mappings(spec, "replicatedJobs"):
        template = mapping(replicated, "template")
        yield from check_job_template(
            template, ("spec", "replicatedJobs", index, "template"), owner
        )


def _claimed(spec: dict[str, Any]) -> Iterator[str]:
    """The volumes that a JobSet adds to its Pods for the claims that it makes."""
    for _, policy in mappings(spec, "volumeClaimPolicies"):
        for template in listed(policy, "templates"):
            if isinstance(template, dict):
                yield text(mapping(template, "metadata"), "name")


def _is_completed_by_spark(manifest: KubernetesObject, refusal: Refusal) -> bool:
    """Whether an image is missing from what Spark takes as the template of its Pods."""
    if refusal.reason is not Reason.REQUIRED or refusal.path[-1:] != ("image",):
        return False
    containers = [one for _, one in mappings(mapping(manifest.data, "spec"), "containers")]
    names = {text(one, "name").rpartition("-")[2] for one in containers}
    return manifest.kind == "Pod" and names <= {"driver", "executor"}


def _is_filled_in(manifest: KubernetesObject, path: Path) -> bool:
    """Whether a program fills in a value that a template leaves empty."""
    parent = get(manifest.data, path[:-1])
    return is_in_templates(manifest.source) and isinstance(parent, dict) and path[-1] in parent


def _is_placeholder(manifest: KubernetesObject, refusal: Refusal) -> bool:
    value = refusal.path[-1] if refusal.of_key and refusal.path else None
    value = value if isinstance(value, str) else get(manifest.data, refusal.path)
    if value is None:
        return _is_filled_in(manifest, refusal.path)
    if isinstance(value, dict):
        value = value.get("name")
    if isinstance(value, list):
        return any(isinstance(one, str) and _PLACEHOLDER.search(one) for one in value)
    if not isinstance(value, str):
        return False
    if refusal.reason is Reason.MALFORMED and asks_for_value(value):
        return True
    if is_replaced(value, manifest.source) or is_instruction(value):
        return True
    # A word in capitals is a placeholder for a name, but a mistake where one of a few words is due.
    is_word = refusal.reason is Reason.INVALID and _CAPITALS.search(value)
    return bool(is_word or _PLACEHOLDER.search(value))
