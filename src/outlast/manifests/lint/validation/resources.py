"""Requests and limits of containers and Pods."""

from typing import Any

from outlast.manifests.lint.validation.names import QUALIFIED_HINT, qualified_problem
from outlast.manifests.lint.validation.quantities import is_quantity, likely_quantity, quantity
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    duplicate,
    forbidden,
    invalid,
    mapping,
    mappings,
    text,
    unsupported,
)
from outlast.yamltext.nodes import Path

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_PARTS = ("limits", "requests")


def check_resources(resources: dict[str, Any], at: Path, claims: frozenset[str]) -> Refusals:
    """The resources of a container. `claims` are the resource claims of its Pod."""
    for part in _PARTS:
        amounts = mapping(resources, part)
        for name, amount in amounts.items():
            path: Path = (*at, part, name)
            yield from _name(name, path)
            yield from check_amount(name, amount, path)
    yield from _overcommitted(resources, at)
    yield from _huge_pages(resources, at)
    yield from _claims(resources, at, claims)


def check_pod_resources(resources: dict[str, Any], at: Path) -> Refusals:
    """The resources of a Pod as a whole."""
    for part in _PARTS:
        for name, amount in mapping(resources, part).items():
            path: Path = (*at, part, name)
            if name not in _OF_PODS and not name.startswith(_HUGE_PAGES):
                yield unsupported(path, name, sorted((*_OF_PODS, "hugepages-SIZE")))
            yield from check_amount(name, amount, path)
    yield from _overcommitted(resources, at)
    if "claims" in resources:
        yield forbidden((*at, "claims"), "a Pod's resources have no claims")


def check_amount(name: str, amount: Any, path: Path) -> Refusals:
    """One quantity: readable, not negative, and a whole number where parts make no sense."""
    if not is_quantity(amount):
        yield malformed_quantity(amount, path)
        return
    value = quantity(amount)
    if value is None:
        return
    if value < 0:
        yield invalid(path, f"{amount!r} is negative", "Use 0 or more.")
    if "/" in name and not _is_native(name) and value != value.to_integral_value():
        yield invalid(
            path,
            f"{name} is counted in integers, so {amount!r} is not possible",
            "Use an integer. To share a GPU, use time-sharing or MIG on the node pool.",
        )


def malformed_quantity(amount: str, path: Path) -> Refusal:
    likely = likely_quantity(amount)
    return Refusal(
        path=path,
        reason=Reason.MALFORMED,
        detail=f"{amount!r} is not a quantity, so the server cannot decode the object",
        hint=f"Use {likely}." if likely else "Use a number with a unit such as m, M, Gi or none.",
    )


def _name(name: str, path: Path) -> Refusals:
    if problem := qualified_problem(name):
        yield invalid(path, problem, QUALIFIED_HINT, of_key=True)
    elif "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE_PAGES):
            meant = "nvidia.com/gpu" if "gpu" in name.lower() else None
            yield invalid(
                path,
                f"{name!r} is not a resource of Kubernetes and has no domain",
                f"Use {meant}." if meant else "Use cpu, memory or ephemeral-storage.",
                of_key=True,
            )
    elif name.startswith("requests.") and not _is_native(name):
        yield invalid(path, f"{name!r} starts with 'requests.', which quotas use", of_key=True)


def _is_native(name: str) -> bool:
    """Whether Kubernetes itself defines the resource, not a device driver."""
    domain, slash, _ = name.partition("/")
    return not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def _overcommitted(resources: dict[str, Any], at: Path) -> Refusals:
    # The server reads an empty amount as 0.
    limits = {name: amount or 0 for name, amount in mapping(resources, "limits").items()}
    for name, amount in mapping(resources, "requests").items():
        asked, limit = quantity(amount), quantity(limits.get(name))
        # Devices, which allow no difference at all, have a rule of their own.
        if asked is None or limit is None or ("/" in name and not _is_native(name)):
            continue
        path: Path = (*at, "requests", name)
        if asked > limit:
            yield invalid(
                path,
                f"the request {amount!r} is above the limit {limits[name]!r}",
                "Lower the request, or raise the limit.",
            )
        elif asked != limit and name.startswith(_HUGE_PAGES):
            yield invalid(path, f"the request must equal the limit {limits[name]!r}")


def _huge_pages(resources: dict[str, Any], at: Path) -> Refusals:
    names = {name for part in _PARTS for name in mapping(resources, part)}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden(at, "huge pages need a request or limit for cpu or memory")


def _claims(resources: dict[str, Any], at: Path, known: frozenset[str]) -> Refusals:
    seen: set[str] = set()
    for index, claim in mappings(resources, "claims"):
        name = text(claim, "name")
        path: Path = (*at, "claims", index)
        if name in seen and "request" not in claim:
            yield duplicate(path, name)
        seen.add(name)
        if name and name not in known:
            yield Refusal(
                path=(*path, "name"),
                reason=Reason.NOT_FOUND,
                detail=f"the Pod has no resource claim {name!r}",
                hint="Add it to resourceClaims of the Pod.",
            )
