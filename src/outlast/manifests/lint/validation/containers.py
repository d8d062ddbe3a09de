"""Containers of a Pod: names, ports, variables, restart policies."""

from collections.abc import Callable
from typing import Any

from outlast.manifests.lint.validation.names import (
    LABEL_HINT,
    NAME_HINT,
    config_key_problem,
    label_problem,
    name_problem,
    port_name_problem,
    port_number_problem,
    qualified_problem,
    variable_problem,
)
from outlast.manifests.lint.validation.probes import check_hooks, check_probes
from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    duplicate,
    forbidden,
    invalid,
    mapping,
    mappings,
    number,
    required,
    text,
    unsupported,
)
from outlast.manifests.lint.validation.resources import check_resources
from outlast.manifests.lint.validation.security import check_security
from outlast.manifests.lint.validation.volumes import check_devices, check_mounts
from outlast.yamltext.nodes import Path

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_KEYED_FIELDS = ("metadata.annotations", "metadata.labels")
_AMOUNTS = tuple(
    f"{part}.{name}"
    for part in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_AMOUNTS = ("limits.hugepages-", "requests.hugepages-")
_ONLY_FOR_SIDECARS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def check_containers(spec: dict[str, Any], at: Path, sources: dict[str, str]) -> Refusals:
    """The containers and init containers of a Pod. `sources`: its volumes and their types."""
    if spec.get("containers") is None or spec["containers"] == []:
        yield required((*at, "containers"), "the Pod has no containers")
    claims = frozenset(text(claim, "name") for _, claim in mappings(spec, "resourceClaims"))
    grace = number(spec, "terminationGracePeriodSeconds")
    names: set[str] = set()
    for index, container in mappings(spec, "containers"):
        path: Path = (*at, "containers", index)
        yield from _common(container, path, sources, claims)
        yield from _unique(container, path, names)
        yield from check_probes(container, path)
        yield from check_hooks(container, path, grace)
    for index, container in mappings(spec, "initContainers"):
        path = (*at, "initContainers", index)
        yield from _common(container, path, sources, claims)
        yield from _unique(container, path, names)
        if text(container, "restartPolicy") == "Always":
            yield from check_probes(container, path)
            yield from check_hooks(container, path, grace)
        else:
            yield from _only_for_sidecars(container, path)
    yield from _host_ports(spec, at)


def _unique(container: dict[str, Any], at: Path, names: set[str]) -> Refusals:
    name = text(container, "name")
    if name and name in names:
        yield duplicate((*at, "name"), name, "Rename one of the containers.")
    names.add(name)


def _only_for_sidecars(container: dict[str, Any], at: Path) -> Refusals:
    for key in _ONLY_FOR_SIDECARS:
        if isinstance(container.get(key), dict):
            yield forbidden(
                (*at, key),
                "an init container has no such field unless it is a sidecar",
                "Set restartPolicy: Always to make it a sidecar, or remove the field.",
            )


def _common(
    container: dict[str, Any], at: Path, sources: dict[str, str], claims: frozenset[str]
) -> Refusals:
    yield from _identity(container, at)
    yield from choice(container, "imagePullPolicy", at, _PULL_POLICIES)
    yield from choice(container, "restartPolicy", at, _RESTARTS)
    yield from choice(container, "terminationMessagePolicy", at, _MESSAGE_POLICIES)
    for key, check in _LISTS.items():
        if key in container:
            yield from check(container, at)
    if "volumeMounts" in container:
        yield from check_mounts(container, at, sources)
    if "volumeDevices" in container:
        yield from check_devices(container, at, sources)
    resources, context = container.get("resources"), container.get("securityContext")
    if resources and isinstance(resources, dict):
        yield from check_resources(resources, (*at, "resources"), claims)
    if context and isinstance(context, dict):
        yield from check_security(context, (*at, "securityContext"))


def _identity(container: dict[str, Any], at: Path) -> Refusals:
    name, image = text(container, "name"), container.get("image")
    if not name:
        yield required((*at, "name"), "the container has no name")
    elif problem := label_problem(name):
        yield invalid((*at, "name"), problem, LABEL_HINT)
    if image is None or image == "":
        yield required((*at, "image"), "the container has no image")
    # In the template of a Deployment, OpenShift replaces a space by the image of a trigger.
    elif isinstance(image, str) and image != image.strip() and image.strip():
        yield invalid((*at, "image"), f"{image!r} starts or ends with a space")


def _resizing(container: dict[str, Any], at: Path) -> Refusals:
    for index, policy in mappings(container, "resizePolicy"):
        path: Path = (*at, "resizePolicy", index)
        yield from choice(policy, "resourceName", path, ("cpu", "memory"))
        yield from choice(policy, "restartPolicy", path, ("NotRequired", "RestartContainer"))


def _ports(container: dict[str, Any], at: Path) -> Refusals:
    names: set[str] = set()
    for index, port in mappings(container, "ports"):
        path: Path = (*at, "ports", index)
        name = text(port, "name")
        if name and (problem := port_name_problem(name)):
            yield invalid((*path, "name"), problem, "Use at most 15 characters, such as http.")
        elif name and name in names:
            yield duplicate((*path, "name"), name, "Rename one of the ports.")
        names.add(name)
        inner, outer = number(port, "containerPort"), number(port, "hostPort")
        if inner is None or inner == 0:
            if port.get("containerPort") in (None, 0):
                yield required((*path, "containerPort"), "the port is missing")
        elif problem := port_number_problem(inner):
            yield invalid((*path, "containerPort"), problem)
        if outer and (problem := port_number_problem(outer)):
            yield invalid((*path, "hostPort"), problem)
        yield from choice(port, "protocol", path, _PROTOCOLS)


def _host_ports(spec: dict[str, Any], at: Path) -> Refusals:
    taken: set[tuple[object, ...]] = set()
    is_host = spec.get("hostNetwork") is True
    for index, container in mappings(spec, "containers"):
        if "ports" not in container:
            continue
        for position, port in mappings(container, "ports"):
            outer = number(port, "hostPort")
            if not outer:
                continue
            path: Path = (*at, "containers", index, "ports", position, "hostPort")
            key = (text(port, "protocol") or "TCP", text(port, "hostIP"), outer)
            if key in taken:
                yield duplicate(path, outer)
            taken.add(key)
            if is_host and outer != port.get("containerPort"):
                yield invalid(path, "with hostNetwork, hostPort must equal containerPort")


def _variables(container: dict[str, Any], at: Path) -> Refusals:
    for index, variable in mappings(container, "env"):
        name, source = variable.get("name"), variable.get("valueFrom")
        if not name:
            yield required((*at, "env", index, "name"), "the variable has no name")
        elif isinstance(name, str) and (problem := variable_problem(name)):
            yield invalid((*at, "env", index, "name"), problem, "Use printable ASCII without '='.")
        if isinstance(source, dict):
            path: Path = (*at, "env", index, "valueFrom")
            yield from _one_source(variable, source, path)
            yield from _source(source, path)


def _one_source(variable: dict[str, Any], source: dict[str, Any], at: Path) -> Refusals:
    count = sum(source.get(key) is not None for key in _SOURCES)
    if not count:
        yield invalid(at, f"valueFrom is empty; it needs one of {', '.join(_SOURCES)}")
    elif variable.get("value"):
        yield invalid(at, "value is set too", "Keep one of value and valueFrom.")
    elif count > 1:
        yield invalid(at, "it has more than one source", "Keep one of them.")


def _source(source: dict[str, Any], at: Path) -> Refusals:
    field = source.get("fieldRef")
    if isinstance(field, dict):
        yield from _field(field, (*at, "fieldRef"))
    amount = source.get("resourceFieldRef")
    if isinstance(amount, dict):
        name = text(amount, "resource")
        path: Path = (*at, "resourceFieldRef", "resource")
        if not name:
            yield required(path, "the resource is missing")
        elif name not in _AMOUNTS and not name.startswith(_HUGE_AMOUNTS):
            yield unsupported(path, name, _AMOUNTS)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(kind)
        if isinstance(reference, dict):
            yield from _key(reference, (*at, kind))


def _field(field: dict[str, Any], at: Path) -> Refusals:
    wanted = text(field, "fieldPath")
    path = (*at, "fieldPath")
    name, bracket, rest = wanted.partition("[")
    if not wanted:
        yield required(path, "the path of the field is missing")
    elif bracket and name in _KEYED_FIELDS and rest.startswith("'") and rest.endswith("']"):
        if problem := qualified_problem(rest[1:-2]):
            yield invalid(at, problem)
    elif wanted not in _FIELDS and wanted in (*_KEYED_FIELDS, "spec.restartPolicy", "status.phase"):
        yield unsupported(path, wanted, _FIELDS)
    elif wanted not in _FIELDS:
        yield invalid(
            path,
            f"{wanted!r} is not a field that a variable can have",
            f"Use one of {', '.join(_FIELDS)}, or a label such as metadata.labels['app'].",
        )


def _key(reference: dict[str, Any], at: Path) -> Refusals:
    name, key = text(reference, "name"), text(reference, "key")
    if problem := name_problem(name):
        yield invalid((*at, "name"), problem if name else "the name is missing", NAME_HINT)
    if not key:
        yield required((*at, "key"), "the key is missing")
    elif problem := config_key_problem(key):
        yield invalid((*at, "key"), problem)


def _variable_sources(container: dict[str, Any], at: Path) -> Refusals:
    for index, source in mappings(container, "envFrom"):
        path: Path = (*at, "envFrom", index)
        prefix = text(source, "prefix")
        if prefix and (problem := variable_problem(prefix)):
            yield invalid((*path, "prefix"), problem)
        kinds = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        if not kinds:
            yield invalid(path, "the source is empty", "Set configMapRef or secretRef.")
        elif len(kinds) > 1:
            yield invalid(path, "it has more than one source", "Use one entry for each.")
        for kind in kinds:
            name = text(mapping(source, kind), "name")
            if not name:
                yield required((*path, kind, "name"), "the name is missing")
            elif problem := name_problem(name.rstrip("-")):
                yield invalid((*path, kind, "name"), problem, NAME_HINT)


_LISTS: dict[str, Callable[[dict[str, Any], Path], Refusals]] = {
    "ports": _ports,
    "env": _variables,
    "envFrom": _variable_sources,
    "resizePolicy": _resizing,
}
