"""Security contexts of Pods and containers."""

from typing import Any

from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    invalid,
    listed,
    mapping,
    mappings,
    number,
    required,
    text,
)
from outlast.yamltext.nodes import Path

_ID_MAX = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def check_security(context: dict[str, Any], at: Path) -> Refusals:
    """The security context of a container."""
    yield from _ids(context, at, "runAsUser", "runAsGroup")
    yield from _profiles(context, at)
    yield from choice(context, "procMount", at, ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged") is True:
            yield invalid(
                at,
                "privileged is true and allowPrivilegeEscalation is false",
                "A privileged container can always gain privileges: remove one of them.",
            )
        if "CAP_SYS_ADMIN" in listed(mapping(context, "capabilities"), "add"):
            yield invalid(at, "CAP_SYS_ADMIN contradicts allowPrivilegeEscalation: false")


def check_pod_security(context: dict[str, Any], at: Path) -> Refusals:
    """The security context of a Pod."""
    yield from _ids(context, at, "runAsUser", "runAsGroup", "fsGroup")
    for index, group in enumerate(listed(context, "supplementalGroups")):
        if isinstance(group, int) and not 0 <= group <= _ID_MAX:
            yield invalid((*at, "supplementalGroups", index), _outside(group))
    yield from choice(context, "fsGroupChangePolicy", at, ("Always", "OnRootMismatch"))
    yield from choice(context, "supplementalGroupsPolicy", at, ("Merge", "Strict"))
    yield from _profiles(context, at)
    names: set[str] = set()
    for index, sysctl in mappings(context, "sysctls"):
        name = text(sysctl, "name")
        if not name:
            yield required((*at, "sysctls", index, "name"), "the name is missing")
        elif name in names:
            yield invalid((*at, "sysctls", index, "name"), f"{name!r} appears more than once")
        names.add(name)


def _ids(context: dict[str, Any], at: Path, *keys: str) -> Refusals:
    for key in keys:
        value = number(context, key)
        if value is not None and not 0 <= value <= _ID_MAX:
            yield invalid((*at, key), _outside(value))


def _outside(value: int) -> str:
    return f"{value} is not between 0 and {_ID_MAX}"


def _profiles(context: dict[str, Any], at: Path) -> Refusals:
    for key in ("seccompProfile", "appArmorProfile"):
        profile = context.get(key)
        if not isinstance(profile, dict):
            continue
        path: Path = (*at, key)
        yield from choice(profile, "type", path, _PROFILES)
        kind, local = text(profile, "type"), profile.get("localhostProfile")
        if not kind:
            yield required((*path, "type"), "the type of the profile is missing")
        elif kind == "Localhost" and not local:
            yield required((*path, "localhostProfile"), "the type Localhost needs a profile")
        elif kind != "Localhost" and local is not None:
            yield invalid((*path, "localhostProfile"), f"the type {kind} has no localhostProfile")
