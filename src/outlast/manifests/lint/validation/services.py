"""Services."""

from typing import Any

from outlast.manifests.lint.validation.metadata import check_labels
from outlast.manifests.lint.validation.names import (
    LABEL_HINT,
    NAME_HINT,
    label_problem,
    name_problem,
    port_number_problem,
    port_problem,
)
from outlast.manifests.lint.validation.pods import is_address
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
from outlast.yamltext.nodes import Path

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OUTSIDE = ("LoadBalancer", "NodePort")
_SPEC: Path = ("spec",)
_PORTS: Path = ("spec", "ports")


def check_service(data: dict[str, Any]) -> Refusals:
    spec = mapping(data, "spec")
    kind = text(spec, "type") or "ClusterIP"
    is_headless = text(spec, "clusterIP") == "None"
    yield from choice(spec, "type", _SPEC, _TYPES)
    yield from choice(spec, "sessionAffinity", _SPEC, ("ClientIP", "None"))
    yield from choice(spec, "internalTrafficPolicy", _SPEC, ("Cluster", "Local"))
    yield from check_labels(spec, "selector", _SPEC)
    if not listed(spec, "ports") and not is_headless and kind != "ExternalName":
        yield required(_PORTS, "the Service has no ports", "Add a port, or use clusterIP: None.")
    address = text(spec, "clusterIP")
    if address and not is_headless and not is_address(address):
        yield invalid(
            ("spec", "clusterIP"), f"{address!r} is not an address", "Use None or omit it."
        )
    if is_headless and kind in _OUTSIDE:
        yield invalid(("spec", "clusterIP"), f"it cannot be None for the type {kind}")
    if kind == "ExternalName":
        yield from _external(spec)
    yield from _ports(spec, kind)
    policy = text(spec, "externalTrafficPolicy")
    if policy and kind not in _OUTSIDE and not listed(spec, "externalIPs"):
        yield invalid(("spec", "externalTrafficPolicy"), f"the type {kind} is not reachable from "
                      "outside the cluster")  # fmt: skip
    elif policy:
        yield from choice(spec, "externalTrafficPolicy", _SPEC, ("Cluster", "Local"))
    for key in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(key) not in (None, []) and kind != "LoadBalancer":
            yield forbidden(("spec", key), "only the type LoadBalancer has it")


def _external(spec: dict[str, Any]) -> Refusals:
    host = text(spec, "externalName").rstrip(".")
    if not host:
        yield required(("spec", "externalName"), "the type ExternalName needs it")
    elif problem := name_problem(host):
        yield invalid(("spec", "externalName"), problem, NAME_HINT)


def _ports(spec: dict[str, Any], kind: str) -> Refusals:
    names: set[str] = set()
    pairs: set[tuple[str, object]] = set()
    is_single = len(listed(spec, "ports")) == 1
    for index, port in mappings(spec, "ports"):
        path: Path = (*_PORTS, index)
        name, outer = text(port, "name"), number(port, "port")
        if not name and not is_single:
            yield required((*path, "name"), "with several ports, each needs a name")
        elif name and (problem := label_problem(name)):
            yield invalid((*path, "name"), problem, LABEL_HINT)
        if name and name in names:
            yield duplicate((*path, "name"), name)
        names.add(name)
        if outer is not None and (problem := port_number_problem(outer)):
            yield invalid((*path, "port"), problem)
        yield from choice(port, "protocol", path, ("SCTP", "TCP", "UDP"))
        target = port.get("targetPort")
        if target not in (None, 0) and (problem := port_problem(target)):
            yield invalid((*path, "targetPort"), problem)
        if number(port, "nodePort") and kind == "ClusterIP":
            yield forbidden((*path, "nodePort"), "the type ClusterIP has no node ports")
        pair = (text(port, "protocol") or "TCP", outer)
        if outer is not None and pair in pairs:
            yield duplicate(path, outer)
        pairs.add(pair)
