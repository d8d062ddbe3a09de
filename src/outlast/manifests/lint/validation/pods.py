"""Pods and Pod templates."""

from collections.abc import Callable
from typing import Any

from outlast.manifests.lint.validation.containers import check_containers
from outlast.manifests.lint.validation.metadata import check_template_metadata
from outlast.manifests.lint.validation.names import (
    LABEL_HINT,
    NAME_HINT,
    QUALIFIED_HINT,
    label_problem,
    name_problem,
    qualified_problem,
)
from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    duplicate,
    forbidden,
    invalid,
    listed,
    mapping,
    mappings,
    number,
    required,
    text,
)
from outlast.manifests.lint.validation.resources import check_pod_resources
from outlast.manifests.lint.validation.scheduling import check_scheduling
from outlast.manifests.lint.validation.security import check_pod_security
from outlast.manifests.lint.validation.volumes import check_volumes
from outlast.yamltext.nodes import Path

_DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_RESTARTS = ("Always", "Never", "OnFailure")
_DEADLINE_MAX = 2**31 - 1
_NAMESERVERS_MAX = 3
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def check_template(
    template: dict[str, Any], at: Path, *, extra_volumes: frozenset[str] = frozenset()
) -> Refusals:
    """A Pod template. `extra_volumes` are volumes that its owner adds."""
    yield from check_template_metadata(template, at)
    yield from _deletion_cost(template, at)
    spec = mapping(template, "spec")
    yield from check_pod_spec(spec, (*at, "spec"), extra_volumes=extra_volumes)
    if listed(spec, "ephemeralContainers"):
        path = (*at, "spec", "ephemeralContainers")
        yield forbidden(path, "a template has no ephemeral containers")


def check_pod(data: dict[str, Any]) -> Refusals:
    """A Pod; its metadata is checked elsewhere."""
    yield from _deletion_cost(data, ())
    yield from check_pod_spec(mapping(data, "spec"), ("spec",))


def check_pod_spec(
    spec: dict[str, Any], at: Path, *, extra_volumes: frozenset[str] = frozenset()
) -> Refusals:
    """The spec of a Pod or of a Pod template."""
    sources = {
        text(volume, "name"): next((key for key in volume if key != "name"), "")
        for _, volume in mappings(spec, "volumes")
    }
    sources.update(dict.fromkeys(extra_volumes, "persistentVolumeClaim"))
    if "volumes" in spec:
        yield from check_volumes(spec, at)
    yield from check_containers(spec, at, sources)
    yield from check_scheduling(spec, at)
    yield from choice(spec, "restartPolicy", at, _RESTARTS)
    yield from choice(spec, "dnsPolicy", at, _DNS)
    yield from choice(spec, "preemptionPolicy", at, ("Never", "PreemptLowerPriority"))
    yield from _names(spec, at)
    yield from _rare(spec, at)


def _names(spec: dict[str, Any], at: Path) -> Refusals:
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        name = text(spec, key)
        if name and (problem := name_problem(name)):
            yield invalid((*at, key), problem, NAME_HINT)
    for key in ("hostname", "subdomain"):
        name = text(spec, key)
        if name and (problem := label_problem(name)):
            yield invalid((*at, key), problem, LABEL_HINT)


def _rare(spec: dict[str, Any], at: Path) -> Refusals:
    """Fields that few Pods have."""
    deadline = number(spec, "activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _DEADLINE_MAX:
        yield invalid(
            (*at, "activeDeadlineSeconds"), f"{deadline} is not between 1 and {_DEADLINE_MAX}"
        )
    for key, check in _PARTS.items():
        part = spec.get(key)
        if part and isinstance(part, dict):
            yield from check(part, (*at, key))
    for key, check in _LISTS.items():
        if key in spec:
            yield from check(spec, at)
    if "dnsConfig" in spec or text(spec, "dnsPolicy") == "None":
        yield from _dns(spec, at)


def _system(system: dict[str, Any], at: Path) -> Refusals:
    yield from choice(system, "name", at, ("linux", "windows"))


def _aliases(spec: dict[str, Any], at: Path) -> Refusals:
    for index, alias in mappings(spec, "hostAliases"):
        address = text(alias, "ip")
        if not is_address(address):
            yield invalid((*at, "hostAliases", index, "ip"), f"{address!r} is not an address")


def _readiness_gates(spec: dict[str, Any], at: Path) -> Refusals:
    for index, gate in mappings(spec, "readinessGates"):
        if problem := qualified_problem(text(gate, "conditionType")):
            yield invalid((*at, "readinessGates", index, "conditionType"), problem, QUALIFIED_HINT)


def _dns(spec: dict[str, Any], at: Path) -> Refusals:
    config = mapping(spec, "dnsConfig")
    servers = listed(config, "nameservers")
    path = (*at, "dnsConfig", "nameservers")
    if text(spec, "dnsPolicy") == "None" and not servers:
        where = path if config else (*at, "dnsConfig")
        yield required(where, "dnsPolicy None needs at least one name server")
    if len(servers) > _NAMESERVERS_MAX:
        yield invalid(path, f"there are {len(servers)}, at most {_NAMESERVERS_MAX} are allowed")
    for index, server in enumerate(servers):
        if isinstance(server, str) and not is_address(server):
            yield invalid((*path, index), f"{server!r} is not an address")


def is_address(value: str) -> bool:
    """Whether it is an IP address."""
    # Imported here because few objects have one.
    import ipaddress

    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _gates(spec: dict[str, Any], at: Path) -> Refusals:
    seen: set[str] = set()
    for index, gate in mappings(spec, "schedulingGates"):
        name = text(gate, "name")
        path: Path = (*at, "schedulingGates", index)
        if problem := qualified_problem(name):
            yield invalid(path, problem, QUALIFIED_HINT)
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)


def _claims(spec: dict[str, Any], at: Path) -> Refusals:
    seen: set[str] = set()
    for index, claim in mappings(spec, "resourceClaims"):
        path: Path = (*at, "resourceClaims", index)
        name = text(claim, "name")
        if not name:
            yield required((*path, "name"), "the claim has no name")
        elif name in seen:
            yield duplicate((*path, "name"), name)
        elif problem := label_problem(name):
            yield invalid((*path, "name"), problem, LABEL_HINT)
        seen.add(name)
        kinds = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim]
        if len(kinds) != 1:
            yield invalid(path, "exactly one of resourceClaimName and "
                          "resourceClaimTemplateName is needed")  # fmt: skip


def _deletion_cost(template: dict[str, Any], at: Path) -> Refusals:
    cost = mapping(mapping(template, "metadata"), "annotations").get(_DELETION_COST)
    if isinstance(cost, str) and not cost.lstrip("-").isdecimal():
        yield invalid(
            (*at, "metadata", "annotations", _DELETION_COST), f"{cost!r} is not an integer"
        )


_PARTS: dict[str, Callable[[dict[str, Any], Path], Refusals]] = {
    "os": _system,
    "resources": check_pod_resources,
    "securityContext": check_pod_security,
}
_LISTS: dict[str, Callable[[dict[str, Any], Path], Refusals]] = {
    "hostAliases": _aliases,
    "readinessGates": _readiness_gates,
    "resourceClaims": _claims,
    "schedulingGates": _gates,
}
