"""The least permissions that commands need, as the rules of a Role. Pure."""

from enum import StrEnum
from typing import Any

from outlast.cluster.resources import Query
from outlast.yamltext.writing import to_yaml

Rule = dict[str, Any]


class RoleName(StrEnum):
    """A set of commands that need the same permissions."""

    SUBMIT = "submit"
    WATCH = "watch"


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


_APPLY = ["get", "create", "patch"]
_FOLLOW = ["get", "list", "watch"]

SUBMIT_RULES: list[Rule] = [
    # list and watch are for --wait, delete for --replace.
    _rule("batch", ["jobs"], [*_APPLY, "list", "watch", "delete"]),
    _rule("jobset.x-k8s.io", ["jobsets"], [*_APPLY, "list", "watch", "delete"]),
    # For `outlast stop`, which waits until its Pods have ended.
    _rule("", ["pods"], ["list", "watch"]),
    # For `outlast stop` and `resume`, which switch `spec.active` of a queued Job's Workload.
    _rule("kueue.x-k8s.io", ["workloads"], ["list", "patch"]),
    _rule("apps", ["deployments"], [*_APPLY, "list", "watch"]),
    _rule("", ["serviceaccounts", "services", "persistentvolumeclaims"], _APPLY),
    _rule("networking.k8s.io", ["networkpolicies"], _APPLY),
    _rule("policy", ["poddisruptionbudgets"], _APPLY),
    _rule("autoscaling", ["horizontalpodautoscalers"], _APPLY),
    _rule("monitoring.googleapis.com", ["podmonitorings", "rules"], _APPLY),
]

WATCH_RULES: list[Rule] = [
    _rule("", ["pods", "events"], _FOLLOW),
    _rule("", ["pods/log"], ["get"]),
    _rule("batch", ["jobs"], _FOLLOW),
    _rule("jobset.x-k8s.io", ["jobsets"], _FOLLOW),
    _rule("kueue.x-k8s.io", ["workloads"], _FOLLOW),
    _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _FOLLOW),
]

WATCH_CLUSTER_RULES: list[Rule] = [
    _rule("", ["nodes"], _FOLLOW),
    _rule("cloud.google.com", ["computeclasses"], _FOLLOW),
    _rule("kueue.x-k8s.io", ["clusterqueues"], ["get"]),
]


def role_yaml(name: RoleName, namespace: str) -> str:
    """The Role, and for `watch` the optional ClusterRole, as YAML."""
    rules = SUBMIT_RULES if name is RoleName.SUBMIT else WATCH_RULES
    title = f"outlast-{name}"
    role = _role("Role", {"name": title, "namespace": namespace}, rules)
    text = to_yaml(role, reason=f"What `outlast {name}` needs in this namespace.")
    if name is RoleName.WATCH:
        reason = "Optional: without it, `outlast watch` shows no nodes and no queues."
        text += "---\n" + to_yaml(
            _role("ClusterRole", {"name": title}, WATCH_CLUSTER_RULES), reason=reason
        )
    return text


def _role(kind: str, metadata: dict[str, Any], rules: list[Rule]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": rules,
    }


def role_line(group: str, resource: str, *verbs: str, is_cluster_wide: bool = False) -> str:
    """What to do about a missing permission: the rule to add, as a sentence.

    `resource` is the plural, with its subresource if there is one, such as pods/log.
    """
    kind = "ClusterRole" if is_cluster_wide else "Role"
    listed = ", ".join(f'"{verb}"' for verb in verbs)
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: [{listed}]}}'
    return f"Add to a {kind}: {rule}."


def role_line_of(query: Query) -> str:
    """The rule that following a query needs, as a sentence."""
    resource = query.resource
    is_cluster_wide = not resource.is_namespaced or query.namespace is None
    return role_line(resource.group, resource.plural, *_FOLLOW, is_cluster_wide=is_cluster_wide)


def role_with(group: str, resource: str, verb: str) -> RoleName | None:
    """The role of `outlast doctor --role` that has a permission, None if none has it."""
    for name, rules in (
        (RoleName.WATCH, [*WATCH_RULES, *WATCH_CLUSTER_RULES]),
        (RoleName.SUBMIT, SUBMIT_RULES),
    ):
        for rule in rules:
            given = (rule["apiGroups"], rule["resources"], rule["verbs"])
            wanted = (group, resource, verb)
            if all(one in listed for one, listed in zip(wanted, given, strict=True)):
                return name
    return None
