"""The keys of a workload file as a table, for the reference page."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from outlast.capacity.workload.file import workload_schema


class WorkloadKey(NamedTuple):
    """A key of a workload file. `default` is "required", a value, or empty (see `meaning`)."""

    name: str
    default: str
    meaning: str


def workload_keys() -> Iterator[WorkloadKey]:
    """Every key with its path, such as `cluster.pools[].taints`."""
    schema = workload_schema()
    return _keys(schema, schema["$defs"], above="")


def _keys(part: dict[str, Any], parts: dict[str, Any], *, above: str) -> Iterator[WorkloadKey]:
    for name, key in part["properties"].items():
        path = f"{above}{name}"
        below, choices = _referred(key, parts)
        # A key without a description has the same meaning as its section.
        meaning = key.get("description") or below["description"]
        if choices:
            meaning += f" One of {', '.join(choices)}."
        default = "" if below else _text(key.get("default"))
        yield WorkloadKey(
            path, "required" if name in part.get("required", ()) else default, meaning
        )
        if below:
            dots = f"{path}[]." if key.get("type") == "array" else f"{path}."
            yield from _keys(below, parts, above=dots)


def _referred(key: dict[str, Any], parts: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The section under a key, and the choices of an enum; either may be empty."""
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
