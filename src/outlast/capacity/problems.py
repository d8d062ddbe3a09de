"""Turn what the checks found into sentences with file, line, column and a suggestion."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from outlast.capacity.errors import WorkloadError
from outlast.capacity.fields import FieldError, Part, ValidationError, part_of
from outlast.capacity.reading import Mark, Node

_PROBLEMS_MAX = 10
_VALUE_CHARACTERS_MAX = 60
_PRIVATE = {"url", "queue", "sink", "env"}
_EXPECTED = {
    "int_parsing": "A whole number is expected.",
    "int_type": "A whole number is expected.",
    "int_from_float": "A whole number is expected.",
    "int_parsing_size": "The number is too large.",
    "float_parsing": "A number is expected.",
    "float_type": "A number is expected.",
    "finite_number": "A finite number is expected.",
    "bool_parsing": "true or false is expected.",
    "bool_type": "true or false is expected.",
    "string_type": "A text is expected.",
    "tuple_type": "A list is expected.",
    "list_type": "A list is expected.",
    "dict_type": "A mapping of keys is expected.",
    "model_type": "A mapping of keys is expected.",
    "model_attributes_type": "A mapping of keys is expected.",
}


def as_workload_error(error: ValidationError, tree: Node, model: type[Part]) -> WorkloadError:
    """One error that tells of every problem, in the order of their lines."""
    problems = sorted(_problems(error, tree, model), key=_order)
    mark, _ = problems[0]
    lines = [f"{where}: {sentence}" for where, sentence in problems[:_PROBLEMS_MAX]]
    if len(problems) > _PROBLEMS_MAX:
        lines.append(f"and {len(problems) - _PROBLEMS_MAX} more.")
    return WorkloadError(
        "\n  ".join(lines),
        hint="`outlast schema` prints every key and what it takes.",
        file=mark.source,
        line=mark.line,
        column=mark.column,
    )


def _order(problem: tuple[Mark, str]) -> tuple[int, int]:
    mark, _ = problem
    return (mark.line or 0, mark.column or 0)


def _problems(error: ValidationError, tree: Node, model: type[Part]) -> Iterator[tuple[Mark, str]]:
    for detail in error.errors(include_url=False):
        if detail["type"] == "default_factory_not_called":
            # Only says that another field, which is told of itself, was wrong.
            continue
        path = tuple(part for part in detail["loc"] if part != "[key]")
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, FieldError):
            path += cause.path
        node, mark = tree.find(path)
        yield mark, _sentence(detail, path, node, model)


def _sentence(
    detail: Any, path: tuple[str | int, ...], node: Node | None, model: type[Part]
) -> str:
    dotted = ".".join(map(str, path))
    kind = detail["type"]
    if kind == "missing":
        return f"The key {dotted!r} is missing."
    if kind == "extra_forbidden":
        return f"There is no key {dotted!r}{_place_hint(path, model)}"
    shown = _shown(path, node)
    if kind in ("enum", "literal_error"):
        return f"{dotted} is {shown}; {_choices(detail, node)}"
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ValueError):
        expected = str(cause)
    elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        expected = _bound(kind, detail["ctx"])
    else:
        expected = _EXPECTED.get(kind, f"{detail['msg']}.")
    if node is not None and node.value is None:
        return f"{dotted} is empty. {expected}"
    if shown is None:
        return f"{dotted}: {expected}" if dotted else expected
    return f"{dotted} is {shown}. {expected}"


def _shown(path: tuple[str | int, ...], node: Node | None) -> str | None:
    """The value as it may be shown: short, and never an address that could hold a password."""
    if node is None or isinstance(node.value, list | dict) or _PRIVATE & set(map(str, path)):
        return None
    text = str(node.value)
    if "://" in text:
        return None
    return repr(text if len(text) <= _VALUE_CHARACTERS_MAX else text[:_VALUE_CHARACTERS_MAX] + "…")


def _choices(detail: Any, node: Node | None) -> str:
    choices = [
        one.strip("'") for one in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")
    ]
    near = get_close_matches(str(node.value) if node else "", choices, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"one of {', '.join(choices)} is expected."


def _bound(kind: str, context: dict[str, Any]) -> str:
    [bound] = [context[name] for name in ("gt", "ge", "lt", "le") if name in context]
    text = f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
    word = {
        "greater_than": "above {}",
        "greater_than_equal": "from {}",
        "less_than": "below {}",
        "less_than_equal": "up to {}",
    }[kind]
    return f"A number {word.format(text)} is expected."


def _place_hint(path: tuple[str | int, ...], model: type[Part]) -> str:
    """What was probably meant: a near word at this place, or the same word at another."""
    here: type[Part] | None = model
    for part in path[:-1]:
        here = part_of(here, part) if here is not None else None
    word = str(path[-1])
    if here is not None:
        near = get_close_matches(word, list(here.model_fields), n=1, cutoff=0.6)
        if near:
            return f"; did you mean {'.'.join([*map(str, path[:-1]), near[0]])!r}?"
    elsewhere = [name for name in _all_keys(model) if name.rpartition(".")[2] == word]
    if elsewhere:
        return f"; did you mean {elsewhere[0]!r}?"
    return "."


def _all_keys(model: type[Part], above: str = "") -> Iterator[str]:
    for name in model.model_fields:
        yield f"{above}{name}"
        below = part_of(model, name)
        if below is not None:
            yield from _all_keys(below, f"{above}{name}.")
