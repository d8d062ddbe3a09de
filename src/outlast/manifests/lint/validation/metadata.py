"""Names, labels, annotations and label selectors, which all kinds share."""

from typing import Any

from outlast.manifests.lint.validation.names import (
    LABEL_HINT,
    NAME_HINT,
    QUALIFIED_HINT,
    VALUE_HINT,
    label_problem,
    name_problem,
    qualified_problem,
    value_problem,
)
from outlast.manifests.lint.validation.refusal import (
    Reason,
    Refusal,
    Refusals,
    forbidden,
    invalid,
    listed,
    mapping,
    mappings,
    required,
    text,
)
from outlast.yamltext.nodes import Path

_LABEL_NAMES = frozenset({"Namespace", "Service", "StatefulSet"})
"""Kinds whose name is a DNS label."""

_FREE_NAMES = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
"""Kinds whose name may be anything that fits into a URL."""

_GENERATED_MAX = 57
_ANNOTATION_BYTES_MAX = 256 * 1024
_OPERATORS_WITH_VALUES = ("In", "NotIn")
_OPERATORS_WITHOUT = ("Exists", "DoesNotExist")


def check_metadata(data: Any, kind: str) -> Refusals:
    """The metadata of an object."""
    metadata = mapping(data, "metadata")
    at: Path = ("metadata",)
    yield from _name(metadata, kind, at)
    namespace = text(metadata, "namespace")
    if namespace and (problem := label_problem(namespace)):
        yield invalid((*at, "namespace"), problem, LABEL_HINT)
    yield from check_labels(metadata, "labels", at)
    yield from check_annotations(metadata, at)


def check_template_metadata(template: Any, at: Path) -> Refusals:
    """The labels and annotations of a template; a name in it is ignored."""
    metadata = mapping(template, "metadata")
    if metadata:
        inside = (*at, "metadata")
        yield from check_labels(metadata, "labels", inside)
        yield from check_annotations(metadata, inside)


def _name(metadata: dict[str, Any], kind: str, at: Path) -> Refusals:
    name, prefix = metadata.get("name"), text(metadata, "generateName")
    if not name and not prefix:
        if name is None or name == "":
            yield required((*at, "name"), "the object has no name", "Set name or generateName.")
        return
    if prefix:
        # A suffix is added, so it may end with a dash.
        problem = _problem(prefix[:_GENERATED_MAX].rstrip("-.") or prefix, kind)
        if problem:
            yield invalid((*at, "generateName"), problem, _hint(kind))
    if isinstance(name, str) and name and (problem := _problem(name, kind)):
        yield invalid((*at, "name"), problem, _hint(kind))


def _problem(name: str, kind: str) -> str | None:
    if kind in _FREE_NAMES:
        is_free = name not in (".", "..") and "/" not in name and "%" not in name
        return None if is_free else f"{name!r} is not part of a path"
    return label_problem(name) if kind in _LABEL_NAMES else name_problem(name)


def _hint(kind: str) -> str:
    return LABEL_HINT if kind in _LABEL_NAMES else NAME_HINT


def check_labels(node: Any, key: str, at: Path) -> Refusals:
    """Labels, or a selector that is a mapping of labels."""
    for name, value in mapping(node, key).items():
        if problem := qualified_problem(name):
            yield invalid((*at, key, name), problem, QUALIFIED_HINT, of_key=True)
        if isinstance(value, str) and (problem := value_problem(value)):
            yield invalid((*at, key, name), problem, VALUE_HINT)


def check_annotations(metadata: Any, at: Path) -> Refusals:
    size = 0
    for name, value in mapping(metadata, "annotations").items():
        # The server compares annotations in lower case.
        if problem := qualified_problem(name.lower()):
            yield invalid((*at, "annotations", name), problem, QUALIFIED_HINT, of_key=True)
        size += len(name) + (len(value.encode()) if isinstance(value, str) else 0)
    if size > _ANNOTATION_BYTES_MAX:
        yield Refusal(
            path=(*at, "annotations"),
            reason=Reason.TOO_LONG,
            detail=f"{size} bytes of annotations, at most {_ANNOTATION_BYTES_MAX} are allowed",
        )


def check_selector(selector: Any, at: Path) -> Refusals:
    """A label selector with matchLabels and matchExpressions."""
    if not isinstance(selector, dict):
        return
    yield from check_labels(selector, "matchLabels", at)
    for index, item in mappings(selector, "matchExpressions"):
        path: Path = (*at, "matchExpressions", index)
        operator, count = text(item, "operator"), len(listed(item, "values"))
        if operator in _OPERATORS_WITH_VALUES:
            if not count:
                yield required((*path, "values"), f"the operator {operator} needs values")
        elif operator in _OPERATORS_WITHOUT:
            if count:
                yield forbidden((*path, "values"), f"the operator {operator} allows no values")
        else:
            yield invalid(
                (*path, "operator"),
                f"{operator!r} is not an operator of a label selector",
                "Use In, NotIn, Exists or DoesNotExist.",
            )
        yield from _expression_words(item, path)


def _expression_words(item: dict[str, Any], path: Path) -> Refusals:
    if problem := qualified_problem(text(item, "key")):
        yield invalid((*path, "key"), problem, QUALIFIED_HINT)
    for index, value in enumerate(listed(item, "values")):
        if isinstance(value, str) and (problem := value_problem(value)):
            yield invalid((*path, "values", index), problem, VALUE_HINT)


def is_empty_selector(selector: Any) -> bool:
    """Whether it certainly has no requirement. Terraform can compute `matchLabels` at run time."""
    return (
        isinstance(selector, dict)
        and not selector.get("matchLabels")
        and not listed(selector, "matchExpressions")
    )


def selects(selector: Any, labels: dict[str, Any]) -> bool:
    """Whether a valid selector matches labels. One that is not valid matches, to be quiet."""
    if not isinstance(selector, dict):
        return True
    if any(labels.get(key) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    for _, item in mappings(selector, "matchExpressions"):
        key, operator = text(item, "key"), text(item, "operator")
        is_in = labels.get(key) in listed(item, "values")
        has = key in labels
        wrong = {
            "In": not is_in,
            "NotIn": is_in,
            "Exists": not has,
            "DoesNotExist": has,
        }
        if wrong.get(operator, False):
            return False
    return True
