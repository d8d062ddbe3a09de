"""Kinds with few checks: budgets, priorities, claims, configuration, autoscalers and roles."""

import binascii
import json
from typing import Any

from outlast.manifests.lint.validation.controllers import check_share
from outlast.manifests.lint.validation.metadata import check_selector
from outlast.manifests.lint.validation.names import config_key_problem
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    choice,
    forbidden,
    invalid,
    listed,
    mapping,
    mappings,
    number,
    required,
    text,
    unsupported,
)
from outlast.manifests.lint.validation.volumes import check_claim
from outlast.yamltext.nodes import Path

_PRIORITY_MAX = 1_000_000_000
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
_BYTES_MAX = 1024 * 1024
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")
_RBAC = "rbac.authorization.k8s.io"


def check_budget(data: dict[str, Any]) -> Refusals:
    """A PodDisruptionBudget."""
    spec, at = mapping(data, "spec"), ("spec",)
    shares = [key for key in ("minAvailable", "maxUnavailable") if spec.get(key) is not None]
    if len(shares) > 1:
        yield invalid(at, "minAvailable and maxUnavailable exclude each other", "Keep one of them.")
    for key in shares:
        yield from check_share(spec, key, at)
    yield from check_selector(spec.get("selector"), ("spec", "selector"))
    yield from choice(spec, "unhealthyPodEvictionPolicy", at, ("AlwaysAllow", "IfHealthyBudget"))


def check_priority_class(data: dict[str, Any]) -> Refusals:
    name, value = text(mapping(data, "metadata"), "name"), number(data, "value")
    if name.startswith("system-"):
        if name not in _SYSTEM_CLASSES:
            path: Path = ("metadata", "name")
            reason = Reason.FORBIDDEN
            yield Refusal(path=path, reason=reason, detail="names with 'system-' are reserved")
    elif value is not None and value > _PRIORITY_MAX:
        yield Refusal(
            path=("value",),
            reason=Reason.FORBIDDEN,
            detail=f"{value} is above {_PRIORITY_MAX}, the highest priority for users",
        )
    yield from choice(data, "preemptionPolicy", (), ("Never", "PreemptLowerPriority"))


def check_persistent_claim(data: dict[str, Any]) -> Refusals:
    yield from check_claim(mapping(data, "spec"), ("spec",))


def check_config_map(data: dict[str, Any]) -> Refusals:
    binary = mapping(data, "binaryData")
    size = 0
    for part in ("data", "binaryData"):
        for key, value in mapping(data, part).items():
            size += len(value) if isinstance(value, str) else 0
            if problem := config_key_problem(key):
                yield invalid((part, key), problem, of_key=True)
            if part == "data" and key in binary:
                yield invalid((part, key), f"{key!r} is in binaryData too", of_key=True)
    if size > _BYTES_MAX:
        detail = f"the ConfigMap has {size} bytes, at most {_BYTES_MAX} are allowed"
        yield Refusal(path=(), reason=Reason.TOO_LONG, detail=detail)


def check_secret(data: dict[str, Any]) -> Refusals:
    given, plain = mapping(data, "data"), mapping(data, "stringData")
    for part in ("data", "stringData"):
        for key in mapping(data, part):
            if problem := config_key_problem(key):
                yield invalid((part, key), problem, of_key=True)
    for key, value in given.items():
        if isinstance(value, str) and not _is_base64(value):
            yield Refusal(
                path=("data", key),
                reason=Reason.MALFORMED,
                detail="the value is not base64, so the server cannot decode the object",
                hint="Use stringData for plain text.",
            )
    kind = text(data, "type")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in given and key not in plain:
            yield required(("data", key), f"a Secret of the type {kind} needs it")
        elif key in _JSON_KEYS and isinstance(plain.get(key), str) and not _is_json(plain[key]):
            yield invalid(("stringData", key), "the value is not a JSON object")
    names = ("username", "password")
    if kind == "kubernetes.io/basic-auth" and not any(
        key in given or key in plain for key in names
    ):
        yield required(("data", "username"), f"a Secret of the type {kind} needs it")


def _is_base64(value: str) -> bool:
    try:
        binascii.a2b_base64("".join(value.split()), strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_json(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


def check_autoscaler(data: dict[str, Any]) -> Refusals:
    """A HorizontalPodAutoscaler."""
    spec, at = mapping(data, "spec"), ("spec",)
    least, most = number(spec, "minReplicas"), number(spec, "maxReplicas")
    if least is not None and least < 1 and not _scales_to_zero(spec):
        yield invalid(("spec", "minReplicas"), f"{least} is less than 1")
    if most is not None and most < 1:
        yield invalid(("spec", "maxReplicas"), f"{most} is not more than 0")
    elif most is not None and least is not None and most < least:
        yield invalid(("spec", "maxReplicas"), f"{most} is less than minReplicas ({least})")
    target = mapping(spec, "scaleTargetRef")
    for key in ("kind", "name"):
        if not text(target, key):
            yield required((*at, "scaleTargetRef", key), f"the {key} of the target is missing")
    for index, metric in mappings(spec, "metrics"):
        yield from _metric(metric, ("spec", "metrics", index))


def _scales_to_zero(spec: dict[str, Any]) -> bool:
    """A feature gate allows 0 if there is a metric that exists without Pods."""
    least = number(spec, "minReplicas")
    kinds = {text(metric, "type") for _, metric in mappings(spec, "metrics")}
    return least == 0 and bool(kinds & {"External", "Object"})


def _metric(metric: dict[str, Any], at: Path) -> Refusals:
    kinds = {
        "ContainerResource": "containerResource",
        "External": "external",
        "Object": "object",
        "Pods": "pods",
        "Resource": "resource",
    }
    kind = text(metric, "type")
    if kind not in kinds:
        yield unsupported((*at, "type"), kind, kinds)
        return
    source = mapping(metric, kinds[kind])
    if not source:
        yield required((*at, kinds[kind]), f"the type {kind} needs it")
        return
    target = mapping(source, "target")
    path: Path = (*at, kinds[kind], "target")
    for key in ("averageUtilization", "averageValue", "value"):
        value = target.get(key)
        if isinstance(value, int) and value < 1:
            yield invalid((*path, key), f"{value} is not more than 0")
    if kind == "Resource" and "averageUtilization" in target and "averageValue" in target:
        yield forbidden(path, "only one of averageUtilization and averageValue can be set")


def check_role(data: dict[str, Any]) -> Refusals:
    """A Role or ClusterRole."""
    is_cluster = text(data, "kind") == "ClusterRole"
    for index, rule in mappings(data, "rules"):
        path: Path = ("rules", index)
        if not listed(rule, "verbs"):
            yield required((*path, "verbs"), "the rule allows nothing")
        if listed(rule, "nonResourceURLs"):
            if not is_cluster:
                yield invalid((*path, "nonResourceURLs"), "only a ClusterRole has URLs")
            continue
        if not listed(rule, "apiGroups"):
            yield required((*path, "apiGroups"), "the groups are missing", 'Use "" for the core.')
        if not listed(rule, "resources"):
            yield required((*path, "resources"), "the resources are missing")


def check_role_binding(data: dict[str, Any]) -> Refusals:
    """A RoleBinding or ClusterRoleBinding."""
    reference = mapping(data, "roleRef")
    is_cluster = text(data, "kind") == "ClusterRoleBinding"
    group = reference.get("apiGroup")
    if isinstance(group, str) and group not in ("", _RBAC):
        yield unsupported(("roleRef", "apiGroup"), group, (_RBAC,))
    kinds = ("ClusterRole",) if is_cluster else ("Role", "ClusterRole")
    if text(reference, "kind") not in kinds:
        yield unsupported(("roleRef", "kind"), text(reference, "kind"), kinds)
    if not text(reference, "name"):
        yield required(("roleRef", "name"), "the name of the role is missing")
    for index, subject in mappings(data, "subjects"):
        path: Path = ("subjects", index)
        kind = text(subject, "kind")
        if kind not in ("Group", "ServiceAccount", "User"):
            yield unsupported((*path, "kind"), kind, ("ServiceAccount", "User", "Group"))
        elif kind == "ServiceAccount" and text(subject, "apiGroup"):
            yield unsupported((*path, "apiGroup"), text(subject, "apiGroup"), ('""',))
