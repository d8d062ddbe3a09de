"""Read a workload file: what to run, on which machines, by when, and how it handles interruptions.

`Workload.read` takes a file and `Workload.parse` its text. Both refuse invalid content with the
file, line and column of every problem, and suggest a correction for a likely typo. Nothing is
written, and no other file is read.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from outlast.capacity.errors import WorkloadError
from outlast.capacity.workload.checks import check_workload
from outlast.capacity.workload.fields import (
    FieldError,
    ValidationError,
    WorkloadSection,
    model_validator,
    section_of,
)
from outlast.capacity.workload.spec import WorkloadSpec
from outlast.capacity.workload.tree import Mark, WorkloadEntry, WorkloadNode, read_yaml
from outlast.errors import OutlastError

FILE_BYTES_MAX = 4 * 1024**2
_PROBLEMS_MAX = 10
_VALUE_CHARACTERS_MAX = 60
_PRIVATE = {"url", "queue", "sink", "env"}
_EXPECTED = {
    "int_parsing": "Expected a whole number.",
    "int_type": "Expected a whole number.",
    "int_from_float": "Expected a whole number.",
    "int_parsing_size": "The number is too large.",
    "float_parsing": "Expected a number.",
    "float_type": "Expected a number.",
    "finite_number": "Expected a finite number.",
    "bool_parsing": "Expected true or false.",
    "bool_type": "Expected true or false.",
    "string_type": "Expected text.",
    "tuple_type": "Expected a list.",
    "list_type": "Expected a list.",
    "dict_type": "Expected a mapping.",
    "model_type": "Expected a mapping.",
    "model_attributes_type": "Expected a mapping.",
}


class Workload(WorkloadSpec):
    """A workload as described by its file. About ten lines are enough; the rest has defaults."""

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, overrides: Mapping[str, str] | None = None
    ) -> Self:
        """Read a workload file. `overrides` maps dotted keys to values: {"work.hours": "40"}.

        Raises `WorkloadError`, which has the file, line and column.
        """
        return cls.parse(_text_of(path), name=os.fspath(path), overrides=overrides)

    @classmethod
    def parse(cls, text: str, *, name: str, overrides: Mapping[str, str] | None = None) -> Self:
        """Parse the text of a workload file. `name` identifies it in errors."""
        tree = read_yaml(text, source=name)
        if not isinstance(tree.value, dict):
            shape = "a list" if isinstance(tree.value, list) else "a single value"
            raise tree.mark.error(
                f"Expected a mapping of keys at the top level, got {shape}.",
                hint="Start with lines such as `name: tiny-gpt` and `kind: training`.",
            )
        for key, value in (overrides or {}).items():
            _override(tree, key, _override_node(value, Mark(source=f"--set {key}")))
        try:
            return cls.model_validate(tree.plain())
        except ValidationError as error:
            raise _workload_error(error, tree, cls) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_workload(self)
        return self


def workload_schema() -> dict[str, Any]:
    """The schema, identical for every call.

    A file that matches it may still be refused: it covers each key, but not their combinations.
    """
    schema = _without_titles(Workload.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Outlast workload",
        **schema,
    }


def parse_overrides(given: Sequence[str]) -> dict[str, str]:
    """The pairs passed as `--set key=value`. If a key is repeated, the last value wins."""
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise OutlastError(
                f"--set: expected key=value, got {text!r}.",
                hint="For example: --set work.hours=40.",
            )
        pairs[key.strip()] = value.strip()
    return pairs


def _text_of(path: str | os.PathLike[str]) -> str:
    mark = Mark(source=os.fspath(path))
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise mark.error("The file is larger than 4 MiB, the limit for workload files.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise mark.error(
            f"Could not read the workload file: {error.strerror}.",
            hint="Pass the path of a workload file such as workload.yaml.",
        ) from error
    except UnicodeDecodeError:
        raise mark.error("The file is not UTF-8 text.", hint="Save it as UTF-8.") from None


def _override(tree: WorkloadNode, key: str, node: WorkloadNode) -> None:
    """Set a dotted key in place. Keys that do not exist are reported by the model's own checks."""
    mark = node.mark
    parts = key.split(".")
    if not all(parts):
        raise mark.error(
            f"Invalid key {key!r}.", hint="Separate nested keys with dots: work.hours=40."
        )
    here = tree
    for part in parts[:-1]:
        here = _child(here, part, mark)
    last = parts[-1]
    if isinstance(here.value, list):
        here.value[_index(here.value, last, mark)] = node
    elif isinstance(here.value, dict):
        here.value[last] = WorkloadEntry(mark=mark, node=node)
    else:
        raise mark.error(
            f"Cannot set {key!r}: the key above it is {str(here.value)!r}, a single value."
        )


def _child(node: WorkloadNode, part: str, mark: Mark) -> WorkloadNode:
    if isinstance(node.value, list):
        return node.value[_index(node.value, part, mark)]
    if not isinstance(node.value, dict):
        raise mark.error(f"Cannot set {part!r}: the key above it has a single value.")
    entry = node.value.get(part)
    if entry is None or entry.node.value is None:
        entry = WorkloadEntry(mark=mark, node=WorkloadNode(mark=mark, value={}))
        node.value[part] = entry
    return entry.node


def _index(items: list[WorkloadNode], part: str, mark: Mark) -> int:
    if not part.isdecimal() or int(part[:9]) >= len(items):
        raise mark.error(
            f"{part!r} is not an index of a list with {len(items)} items; the first is 0."
        )
    return int(part)


def _override_node(value: str, mark: Mark) -> WorkloadNode:
    """The value as text for the field to parse; `[a, b]` and `{a: b}` are read as YAML.

    An empty value or `null` removes the key.
    """
    if value.strip()[:1] in ("[", "{"):
        return WorkloadNode(mark=mark, value=read_yaml(value, source=mark.source).value)
    return WorkloadNode(mark=mark, value=None if value in ("", "null") else value)


def _workload_error(
    error: ValidationError, tree: WorkloadNode, model: type[WorkloadSection]
) -> WorkloadError:
    """One error that lists every problem, ordered by line."""
    problems = sorted(_problems(error, tree, model), key=_order)
    mark, _ = problems[0]
    lines = [_line(where, sentence) for where, sentence in problems[:_PROBLEMS_MAX]]
    if len(problems) > _PROBLEMS_MAX:
        lines.append(f"and {len(problems) - _PROBLEMS_MAX} more.")
    return WorkloadError(
        "\n  ".join(lines),
        hint="Run `outlast schema` for all keys and the values they accept.",
        file=mark.source,
        line=mark.line,
        column=mark.column,
    )


def _line(where: Mark, sentence: str) -> str:
    """The problem with its position. An override, `--set work.hours`, names the key already."""
    key = str(where).removeprefix("--set ")
    return f"{where}: {sentence.removeprefix(f'{key}: ') if key != str(where) else sentence}"


def _order(problem: tuple[Mark, str]) -> tuple[int, int]:
    mark, _ = problem
    return (mark.line or 0, mark.column or 0)


def _problems(
    error: ValidationError, tree: WorkloadNode, model: type[WorkloadSection]
) -> Iterator[tuple[Mark, str]]:
    for detail in error.errors(include_url=False):
        if detail["type"] == "default_factory_not_called":
            # Only says that another field was invalid, which is reported on its own.
            continue
        path = tuple(part for part in detail["loc"] if part != "[key]")
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, FieldError):
            path += cause.path
        node, mark = tree.find(path)
        yield mark, _sentence(detail, path, node, model)


def _sentence(
    detail: Any,
    path: tuple[str | int, ...],
    node: WorkloadNode | None,
    model: type[WorkloadSection],
) -> str:
    dotted = ".".join(map(str, path))
    kind = detail["type"]
    if kind == "missing":
        return f"The key {dotted!r} is missing."
    if kind == "extra_forbidden":
        return f"Unknown key {dotted!r}.{_key_suggestion(path, model)}"
    cause = detail.get("ctx", {}).get("error")
    if kind in ("enum", "literal_error"):
        expected = _choices(detail, node)
    elif isinstance(cause, ValueError):
        expected = str(cause)
    elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        expected = _bound(kind, detail["ctx"])
    else:
        expected = _EXPECTED.get(kind, f"{detail['msg']}.")
    if node is not None and node.value is None:
        return f"{dotted} is empty. {expected}"
    return _with_value(dotted, expected, _shown(path, node))


def _with_value(dotted: str, expected: str, shown: str | None) -> str:
    """The message about a key, with its value if that may be shown."""
    if not dotted:
        return expected
    if not expected.startswith("Expected "):
        return f"{dotted}: {expected}" if shown is None else f"{dotted} is {shown}. {expected}"
    expected = expected.replace("E", "e", 1)
    if shown is None:
        return f"{dotted}: {expected}"
    first, _, rest = expected.partition(". ")
    sentence = f"{dotted}: {first.removesuffix('.')}, got {shown}."
    return f"{sentence} {rest}" if rest else sentence


def _shown(path: tuple[str | int, ...], node: WorkloadNode | None) -> str | None:
    """The value as it may be shown: short, and never an address that could contain a password."""
    if node is None or isinstance(node.value, list | dict) or _PRIVATE & set(map(str, path)):
        return None
    text = str(node.value)
    if "://" in text:
        return None
    return repr(text if len(text) <= _VALUE_CHARACTERS_MAX else text[:_VALUE_CHARACTERS_MAX] + "…")


def _choices(detail: Any, node: WorkloadNode | None) -> str:
    choices = [
        one.strip("'") for one in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")
    ]
    near = get_close_matches(str(node.value) if node else "", choices, n=1)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    return f"Expected one of {', '.join(choices)}.{suggestion}"


def _bound(kind: str, context: dict[str, Any]) -> str:
    [bound] = [context[name] for name in ("gt", "ge", "lt", "le") if name in context]
    text = f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
    word = {
        "greater_than": "above {}",
        "greater_than_equal": "of at least {}",
        "less_than": "below {}",
        "less_than_equal": "of at most {}",
    }[kind]
    return f"Expected a number {word.format(text)}."


def _key_suggestion(path: tuple[str | int, ...], model: type[WorkloadSection]) -> str:
    """A suggestion for an unknown key: a similar key here, or the same key in another section."""
    here: type[WorkloadSection] | None = model
    for part in path[:-1]:
        here = section_of(here, part) if here is not None else None
    word = str(path[-1])
    if here is not None:
        near = get_close_matches(word, list(here.model_fields), n=1, cutoff=0.6)
        if near:
            return f" Did you mean {'.'.join([*map(str, path[:-1]), near[0]])!r}?"
    elsewhere = [name for name in _all_keys(model) if name.rpartition(".")[2] == word]
    return f" Did you mean {elsewhere[0]!r}?" if elsewhere else ""


def _all_keys(model: type[WorkloadSection], above: str = "") -> Iterator[str]:
    for name in model.model_fields:
        yield f"{above}{name}"
        below = section_of(model, name)
        if below is not None:
            yield from _all_keys(below, f"{above}{name}.")


def _without_titles(schema: Any) -> Any:
    """Remove the titles that pydantic derives from the names: they add nothing."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
