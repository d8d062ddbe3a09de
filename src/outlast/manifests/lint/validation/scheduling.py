"""Where a Pod may run: selectors, affinities and spread constraints.

Tolerations have a rule of their own.
"""

from typing import Any

from outlast.manifests.lint.validation.metadata import check_labels, check_selector
from outlast.manifests.lint.validation.names import (
    QUALIFIED_HINT,
    VALUE_HINT,
    qualified_problem,
    value_problem,
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
    unsupported,
)
from outlast.yamltext.nodes import Path

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WITH_VALUES, _WITHOUT, _COMPARING = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_WEIGHT_MAX = 100


def check_scheduling(spec: dict[str, Any], at: Path) -> Refusals:
    """The scheduling constraints of a Pod."""
    yield from check_labels(spec, "nodeSelector", at)
    affinity = spec.get("affinity")
    if isinstance(affinity, dict):
        yield from _node_affinity(mapping(affinity, "nodeAffinity"), (*at, "affinity"))
        for key in ("podAffinity", "podAntiAffinity"):
            yield from _pod_affinity(mapping(affinity, key), (*at, "affinity", key))
    if "topologySpreadConstraints" in spec:
        yield from _spread(spec, at)


def _node_affinity(affinity: dict[str, Any], at: Path) -> Refusals:
    path: Path = (*at, "nodeAffinity")
    for index, term in mappings(mapping(affinity, _REQUIRED), "nodeSelectorTerms"):
        yield from _term(term, (*path, _REQUIRED, "nodeSelectorTerms", index), is_required=True)
    for index, preferred in mappings(affinity, _PREFERRED):
        inside: Path = (*path, _PREFERRED, index)
        yield from _weight(preferred, inside)
        preference = mapping(preferred, "preference")
        yield from _term(preference, (*inside, "preference"), is_required=False)


def _term(term: dict[str, Any], at: Path, *, is_required: bool) -> Refusals:
    for index, item in mappings(term, "matchExpressions"):
        path: Path = (*at, "matchExpressions", index)
        yield from _operator(item, path)
        if problem := qualified_problem(text(item, "key")):
            yield invalid((*path, "key"), problem, QUALIFIED_HINT)
        for position, value in enumerate(listed(item, "values") if is_required else ()):
            if isinstance(value, str) and (problem := value_problem(value)):
                yield invalid((*path, "values", position), problem, VALUE_HINT)
    for index, item in mappings(term, "matchFields"):
        path = (*at, "matchFields", index)
        if text(item, "key") != "metadata.name":
            yield invalid(
                (*path, "key"), "only metadata.name can be matched", "Use matchExpressions."
            )
        if text(item, "operator") not in _WITH_VALUES:
            yield invalid((*path, "operator"), "only In and NotIn are possible for a field")
        elif len(listed(item, "values")) != 1:
            yield required((*path, "values"), "exactly one value is needed")


def _operator(item: dict[str, Any], at: Path) -> Refusals:
    operator, count = text(item, "operator"), len(listed(item, "values"))
    if operator in _WITH_VALUES:
        if not count:
            yield required((*at, "values"), f"the operator {operator} needs values")
    elif operator in _WITHOUT:
        if count:
            yield forbidden((*at, "values"), f"the operator {operator} allows no values")
    elif operator in _COMPARING:
        if count != 1:
            yield required((*at, "values"), f"the operator {operator} needs exactly one value")
    else:
        yield invalid(
            (*at, "operator"),
            f"{operator!r} is not an operator",
            f"Use {', '.join((*_WITH_VALUES, *_WITHOUT, *_COMPARING))}.",
        )


def _weight(item: dict[str, Any], at: Path) -> Refusals:
    weight = number(item, "weight")
    if weight is not None and not 1 <= weight <= _WEIGHT_MAX:
        yield invalid((*at, "weight"), f"{weight} is not between 1 and 100")


def _pod_affinity(affinity: dict[str, Any], at: Path) -> Refusals:
    for index, term in mappings(affinity, _REQUIRED):
        yield from _pod_term(term, (*at, _REQUIRED, index))
    for index, weighted in mappings(affinity, _PREFERRED):
        path: Path = (*at, _PREFERRED, index)
        yield from _weight(weighted, path)
        yield from _pod_term(mapping(weighted, "podAffinityTerm"), (*path, "podAffinityTerm"))


def _pod_term(term: dict[str, Any], at: Path) -> Refusals:
    key = text(term, "topologyKey")
    if not key:
        yield required(
            (*at, "topologyKey"), "the label that defines a place is missing", "Use for example "
            "kubernetes.io/hostname.",
        )  # fmt: skip
    elif problem := qualified_problem(key):
        yield invalid((*at, "topologyKey"), problem, QUALIFIED_HINT)
    for selector in ("labelSelector", "namespaceSelector"):
        yield from check_selector(term.get(selector), (*at, selector))


def _spread(spec: dict[str, Any], at: Path) -> Refusals:
    pairs: set[tuple[str, str]] = set()
    for index, item in mappings(spec, "topologySpreadConstraints"):
        path: Path = (*at, "topologySpreadConstraints", index)
        skew, domains = number(item, "maxSkew"), number(item, "minDomains")
        key, action = text(item, "topologyKey"), text(item, "whenUnsatisfiable")
        if skew is not None and skew <= 0:
            yield invalid((*path, "maxSkew"), f"{skew} is not more than 0")
        if not key:
            yield required((*path, "topologyKey"), "the label that defines a place is missing")
        if action not in _UNSATISFIABLE:
            yield unsupported((*path, "whenUnsatisfiable"), action, _UNSATISFIABLE)
        if (key, action) in pairs:
            yield duplicate(path, f"{key}, {action}")
        pairs.add((key, action))
        if domains is not None and (domains <= 0 or action != _UNSATISFIABLE[0]):
            why = "needs whenUnsatisfiable: DoNotSchedule" if domains > 0 else "is not more than 0"
            yield invalid((*path, "minDomains"), f"{domains} {why}")
        yield from choice(item, "nodeAffinityPolicy", path, ("Honor", "Ignore"))
        yield from choice(item, "nodeTaintsPolicy", path, ("Honor", "Ignore"))
        yield from check_selector(item.get("labelSelector"), (*path, "labelSelector"))
