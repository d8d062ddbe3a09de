"""Deployments, ReplicaSets, StatefulSets and DaemonSets."""

import re
from typing import Any

from outlast.manifests.lint.validation.metadata import (
    check_selector,
    is_empty_selector,
    selects,
)
from outlast.manifests.lint.validation.names import LABEL_HINT, label_problem
from outlast.manifests.lint.validation.pods import check_template
from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    counted,
    forbidden,
    invalid,
    is_integer,
    mapping,
    mappings,
    number,
    required,
    text,
    unsupported,
)
from outlast.manifests.lint.validation.volumes import check_claim
from outlast.yamltext.nodes import Path

_PERCENT = re.compile(r"(\d+)%", re.ASCII)
_PROGRESS_DEFAULT = 600
_SPEC: Path = ("spec",)


def check_deployment(data: dict[str, Any]) -> Refusals:
    spec = mapping(data, "spec")
    yield from _common(spec, "Deployment")
    yield from _strategy(mapping(spec, "strategy"), "strategy", "Recreate")
    deadline, ready = number(spec, "progressDeadlineSeconds"), number(spec, "minReadySeconds")
    yield from counted(spec, _SPEC, "progressDeadlineSeconds")
    if (_PROGRESS_DEFAULT if deadline is None else deadline) <= (ready or 0):
        yield invalid(
            ("spec", "progressDeadlineSeconds"),
            f"it must be more than minReadySeconds ({ready or 0})",
        )


def check_replica_set(data: dict[str, Any]) -> Refusals:
    yield from _common(mapping(data, "spec"), "ReplicaSet")


def check_daemon_set(data: dict[str, Any]) -> Refusals:
    spec = mapping(data, "spec")
    yield from _common(spec, "DaemonSet")
    strategy = mapping(spec, "updateStrategy")
    yield from _strategy(strategy, "updateStrategy", "OnDelete", kind="DaemonSet")


def check_stateful_set(data: dict[str, Any]) -> Refusals:
    spec = mapping(data, "spec")
    claims = frozenset(
        text(mapping(claim, "metadata"), "name")
        for _, claim in mappings(spec, "volumeClaimTemplates")
    )
    yield from _common(spec, "StatefulSet", volumes=claims)
    policy = text(spec, "podManagementPolicy")
    if policy and policy not in ("OrderedReady", "Parallel"):
        yield invalid(
            ("spec", "podManagementPolicy"),
            f"{policy!r} is not a policy",
            "Use OrderedReady or Parallel.",
        )
    for index, claim in mappings(spec, "volumeClaimTemplates"):
        path: Path = ("spec", "volumeClaimTemplates", index, "spec")
        yield from check_claim(mapping(claim, "spec"), path)
    service = text(spec, "serviceName")
    if service and (problem := label_problem(service)):
        yield invalid(("spec", "serviceName"), problem, LABEL_HINT)
    yield from _stateful_update(mapping(spec, "updateStrategy"))
    retention = mapping(spec, "persistentVolumeClaimRetentionPolicy")
    for key in ("whenDeleted", "whenScaled"):
        yield from choice(
            retention, key, (*_SPEC, "persistentVolumeClaimRetentionPolicy"), ("Delete", "Retain")
        )
    yield from counted(mapping(spec, "ordinals"), (*_SPEC, "ordinals"), "start")


def _stateful_update(strategy: dict[str, Any]) -> Refusals:
    at: Path = ("spec", "updateStrategy")
    kind, rolling = text(strategy, "type"), mapping(strategy, "rollingUpdate")
    if kind and kind not in ("RollingUpdate", "OnDelete"):
        yield invalid(at, f"{kind!r} is not a strategy", "Use RollingUpdate or OnDelete.")
    if kind == "OnDelete" and rolling:
        yield invalid((*at, "rollingUpdate"), "only the type RollingUpdate has it")
    yield from counted(rolling, (*at, "rollingUpdate"), "partition")
    yield from check_share(rolling, "maxUnavailable", (*at, "rollingUpdate"))
    if _share(rolling.get("maxUnavailable")) == 0:
        yield invalid((*at, "rollingUpdate", "maxUnavailable"), "it cannot be 0")


def _common(spec: dict[str, Any], kind: str, *, volumes: frozenset[str] = frozenset()) -> Refusals:
    yield from counted(spec, _SPEC, "replicas", "minReadySeconds", "revisionHistoryLimit")
    template = mapping(spec, "template")
    yield from _selector(spec, template)
    yield from check_template(template, ("spec", "template"), extra_volumes=volumes)
    pod = mapping(template, "spec")
    policy = text(pod, "restartPolicy")
    if policy and policy != "Always":
        path: Path = ("spec", "template", "spec", "restartPolicy")
        yield unsupported(path, policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        yield forbidden(
            ("spec", "template", "spec", "activeDeadlineSeconds"),
            f"a {kind} replaces its Pods, so they have no deadline",
            "Remove it, or use a Job.",
        )


def _selector(spec: dict[str, Any], template: dict[str, Any]) -> Refusals:
    selector = spec.get("selector")
    path: Path = ("spec", "selector")
    if selector is None:
        yield required(path, "the selector is missing", "Set matchLabels as in the template.")
        return
    yield from check_selector(selector, path)
    if is_empty_selector(selector):
        yield invalid(path, "the selector is empty", "Set matchLabels as in the template.")
        return
    labels = mapping(mapping(template, "metadata"), "labels")
    if not selects(selector, labels):
        yield invalid(
            ("spec", "template", "metadata", "labels"),
            "the selector does not match the labels of the template",
            "Use the same labels in both.",
        )


def _strategy(
    strategy: dict[str, Any], key: str, other: str, *, kind: str = "Deployment"
) -> Refusals:
    at: Path = ("spec", key)
    name, rolling = text(strategy, "type"), strategy.get("rollingUpdate")
    if name and name not in ("RollingUpdate", other):
        yield unsupported((*at, "type"), name, ("RollingUpdate", other))
    if not isinstance(rolling, dict):
        return
    path: Path = (*at, "rollingUpdate")
    if name == "Recreate":
        yield forbidden(path, "the strategy Recreate has none", "Remove rollingUpdate.")
    for field in ("maxSurge", "maxUnavailable"):
        yield from check_share(rolling, field, path, up_to_100=field == "maxUnavailable")
    surge, unavailable = (_share(rolling.get(one)) for one in ("maxSurge", "maxUnavailable"))
    if surge == 0 and unavailable == 0 and name != "Recreate":
        yield (invalid if kind == "Deployment" else required)(
            (*path, "maxUnavailable"),
            "maxSurge and maxUnavailable are both 0, so no Pod could ever be replaced",
            "Set one of them to 1.",
        )
    if kind == "DaemonSet" and surge and unavailable:
        yield invalid((*path, "maxSurge"), "it must be 0 unless maxUnavailable is 0")


def check_share(node: dict[str, Any], key: str, at: Path, *, up_to_100: bool = True) -> Refusals:
    """A number or a percentage."""
    value = node.get(key)
    yield from counted(node, at, key)
    if isinstance(value, str):
        percent = _PERCENT.fullmatch(value)
        if percent is None:
            yield invalid((*at, key), f"{value!r} is not a percentage", "Use one such as 25%.")
        elif up_to_100 and int(percent[1]) > 100:
            yield invalid((*at, key), f"{value} is more than 100%")


def _share(value: object) -> int | None:
    """The number, also of a percentage; None if it is neither."""
    if is_integer(value):
        return int(str(value))
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return int(percent[1]) if percent else None
