"""The JSON Schema of workload files, for editors, and its keys as a table, for people."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast.capacity.workload import Workload


class Key(NamedTuple):
    """A key of a workload file. `default` is "required", a value, or empty where `meaning` says."""

    name: str
    default: str
    meaning: str


def workload_schema() -> dict[str, Any]:
    """The schema, the same for every call. A value that it allows may still be refused: it knows
    each key, but not what the keys must be to each other."""
    schema = _without_titles(Workload.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Outlast workload",
        **schema,
    }


def workload_keys() -> Iterator[Key]:
    """Every key with its path, such as `cluster.pools[].taints`."""
    schema = workload_schema()
    return _keys(schema, schema["$defs"], above="")


def _keys(part: dict[str, Any], parts: dict[str, Any], *, above: str) -> Iterator[Key]:
    for name, key in part["properties"].items():
        path = f"{above}{name}"
        below, choices = _referred(key, parts)
        # Where a key means what its part means, only the part says it.
        meaning = key.get("description") or below["description"]
        if choices:
            meaning += f" One of {', '.join(choices)}."
        default = "" if below else _text(key.get("default"))
        yield Key(path, "required" if name in part.get("required", ()) else default, meaning)
        if below:
            dots = f"{path}[]." if key.get("type") == "array" else f"{path}."
            yield from _keys(below, parts, above=dots)


def _referred(key: dict[str, Any], parts: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The part that stands under a key, and the words that it chooses from; either may be empty."""
    for one in (key, key.get("items", {}), *key.get("anyOf", ())):
        found: dict[str, Any] = parts.get(one.get("$ref", "").rpartition("/")[2], {})
        if "enum" in found:
            return {}, found["enum"]
        if found:
            return found, []
    return {}, []


def _text(default: object) -> str:
    if default in (None, "", [], {}):
        return ""
    return default if isinstance(default, str) else json.dumps(default)


def _without_titles(schema: Any) -> Any:
    """Leaves out the titles that pydantic makes from the names: they say nothing new."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
