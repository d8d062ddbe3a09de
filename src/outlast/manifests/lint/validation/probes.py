"""Probes and lifecycle hooks of a container."""

import re
from typing import Any

from outlast.manifests.lint.validation.names import port_problem
from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    counted,
    forbidden,
    invalid,
    is_integer,
    listed,
    mapping,
    mappings,
    number,
    required,
    text,
)
from outlast.yamltext.nodes import Path

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_OF_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_OF_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_GRACE_DEFAULT = 30


def check_probes(container: dict[str, Any], at: Path) -> Refusals:
    for key in _PROBES:
        probe = container.get(key)
        if isinstance(probe, dict):
            yield from _probe(probe, key, (*at, key))


def _probe(probe: dict[str, Any], kind: str, at: Path) -> Refusals:
    yield from _handler(probe, _OF_PROBES, at)
    yield from counted(probe, at, *_COUNTS)
    successes = number(probe, "successThreshold")
    if kind != "readinessProbe" and successes is not None and successes not in (0, 1):
        yield invalid(
            (*at, "successThreshold"), f"{successes} is not possible for a {kind}", "Use 1."
        )
    grace = number(probe, "terminationGracePeriodSeconds")
    if grace is not None and (kind == "readinessProbe" or grace <= 0):
        why = "a readinessProbe ends nothing" if grace > 0 else f"{grace} is not more than 0"
        yield invalid((*at, "terminationGracePeriodSeconds"), why)


def check_hooks(container: dict[str, Any], at: Path, grace: int | None) -> Refusals:
    """The hooks of a container. `grace` is the grace period of its Pod."""
    lifecycle = container.get("lifecycle")
    if not isinstance(lifecycle, dict):
        return
    limit = _GRACE_DEFAULT if grace is None else max(grace, 0)
    for key in ("postStart", "preStop"):
        hook = lifecycle.get(key)
        if isinstance(hook, dict):
            path: Path = (*at, "lifecycle", key)
            yield from _handler(hook, _OF_HOOKS, path)
            seconds = number(mapping(hook, "sleep"), "seconds")
            if seconds is not None and not 0 <= seconds <= limit:
                yield invalid(
                    (*path, "sleep", "seconds"),
                    f"{seconds} s is not between 0 and the grace period of {limit} s",
                    "Shorten the hook, or raise terminationGracePeriodSeconds.",
                )


def _handler(node: dict[str, Any], kinds: tuple[str, ...], at: Path) -> Refusals:
    found = [kind for kind in kinds if isinstance(node.get(kind), dict)]
    if not found:
        yield required(
            at, f"it does nothing; one of {', '.join(kinds)} is needed", f"Set {kinds[0]}."
        )
    for extra in found[1:]:
        yield forbidden((*at, extra), "only one handler can be set", "Keep one of them.")
    for kind in found[:1]:
        yield from _action(node[kind], kind, (*at, kind))


def _action(action: dict[str, Any], kind: str, at: Path) -> Refusals:
    if kind == "exec" and not listed(action, "command"):
        yield required((*at, "command"), "the command is missing")
    if kind in ("httpGet", "tcpSocket", "grpc"):
        problem = port_problem(action.get("port"))
        if problem and (kind != "grpc" or is_integer(action.get("port"))):
            yield invalid((*at, "port"), problem)
    if kind == "httpGet":
        yield from choice(action, "scheme", at, ("HTTP", "HTTPS"))
        for index, header in mappings(action, "httpHeaders"):
            name = text(header, "name")
            if not _HEADER.fullmatch(name):
                yield invalid((*at, "httpHeaders", index), f"{name!r} is not a header name")
