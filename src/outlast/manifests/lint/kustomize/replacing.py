"""Replacements: copy the value of one field to fields of other objects."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.kustomize.resources import Resource, select
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin, copied

_NAME = "metadata.name"
_MATCH = re.compile(r"\[([^=\]]+)=([^\]]*)\]")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_FIELD = re.compile(r"(?:\[[^\]]*\]|\\.|[^.\\\[])+")

Place = tuple[BuiltMap | BuiltSeq, str | int]


def replace_values(resources: Sequence[Resource], entry: BuiltMap, origin: Origin) -> None:
    """Make one entry of `replacements`."""
    value = _source_value(resources, entry)
    targets = entry.get("targets")
    if not isinstance(targets, BuiltSeq):
        raise CannotBuild("a replacement has no targets")
    for target in targets:
        selector = target.get("select") if isinstance(target, BuiltMap) else None
        if not isinstance(selector, BuiltMap):
            raise CannotBuild("a target of a replacement selects nothing")
        rejected = {
            id(one)
            for reject in target.get("reject") or ()
            if isinstance(reject, BuiltMap)
            for one in select(resources, reject)
        }
        for one in list(select(resources, selector)):
            if id(one) in rejected:
                continue
            for path in target.get("fieldPaths") or [_NAME]:
                _write(one, str(path), value, target.get("options"), origin)


def _source_value(resources: Sequence[Resource], entry: BuiltMap) -> Any:
    if "sourceValue" in entry:
        return entry["sourceValue"]
    source = entry.get("source")
    if not isinstance(source, BuiltMap):
        raise CannotBuild("a replacement has no source")
    found = [
        one
        for one in resources
        if any(
            source.get(key) in (None, "", getattr(known, key))
            for known in one.ids
            for key in ("name",)
        )
        and all(
            source.get(key) in (None, "", getattr(one.id, key))
            for key in ("group", "version", "kind")
        )
        and (
            source.get("namespace") in (None, "")
            or any(source["namespace"] == (known.namespace or "default") for known in one.ids)
        )
    ]
    if len(found) != 1:
        raise CannotBuild(f"the source of a replacement matches {len(found)} objects, not one")
    path = str(source.get("fieldPath") or _NAME)
    places = list(_places(found[0].data, _parts(path), created=None))
    if len(places) != 1:
        raise CannotBuild(f"the source of a replacement has no field {path!r}")
    node, key = places[0]
    value: Any = node[key]  # type: ignore[index]
    return _piece(value, source.get("options"))


def _piece(value: Any, options: Any) -> Any:
    if not isinstance(options, BuiltMap) or not options.get("delimiter"):
        return value
    parts = str(value).split(str(options["delimiter"]))
    index = options.get("index") or 0
    if not 0 <= index < len(parts):
        raise CannotBuild(f"a replacement takes part {index} of {value!r}")
    return parts[index]


def _write(one: Resource, path: str, value: Any, options: Any, origin: Origin) -> None:
    given = options if isinstance(options, BuiltMap) else BuiltMap()
    created = origin if given.get("create") is True else None
    places = list(_places(one.data, _parts(path), created=created))
    if not places:
        raise CannotBuild(f"a replacement finds no field {path!r} in {one.id.kind} {one.id.name!r}")
    for node, key in places:
        old: Any = node[key]  # type: ignore[index]
        new = _joined(old, value, given) if given.get("delimiter") else value
        if not isinstance(new, BuiltMap | BuiltSeq):
            new = _of_type(old, new)
        if _touches_identity(one, node, key):
            one.remember()
        if isinstance(node, BuiltMap):
            node.put(str(key), copied(new, origin.source), origin)
        else:
            node[int(key)] = copied(new, origin.source)


def _touches_identity(one: Resource, node: BuiltMap | BuiltSeq, key: str | int) -> bool:
    return node is one.data.get("metadata") and key in ("name", "namespace")


def _joined(old: Any, value: Any, options: BuiltMap) -> str:
    sign = str(options["delimiter"])
    parts = str(old).split(sign)
    index = options.get("index") or 0
    if index < 0:
        parts.insert(0, _as_text(value))
    elif index >= len(parts):
        parts.append(_as_text(value))
    else:
        parts[index] = _as_text(value)
    return sign.join(parts)


def _of_type(old: Any, new: Any) -> Any:
    """A new value as the type of the old one, which Kustomize keeps if it can."""
    text = _as_text(new)
    if isinstance(old, bool):
        return {"true": True, "false": False}.get(text, new)
    if isinstance(old, int) and _INTEGER.fullmatch(text):
        return int(text)
    return text if isinstance(old, str) else new


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parts(path: str) -> list[str]:
    """The parts of a path. `[key=value]` selects items of a list; `[key]` is a key with dots."""
    found = []
    for field in _FIELD.findall(path):
        is_key = field.startswith("[") and field.endswith("]") and "=" not in field
        found.append(field[1:-1] if is_key else field.replace("\\.", "."))
    return found


def _places(node: Any, parts: list[str], *, created: Origin | None) -> Iterator[Place]:
    part = parts[0]
    keys: list[str | int] = []
    if isinstance(node, BuiltSeq):
        keys = list(_indices(node, part))
    elif isinstance(node, BuiltMap):
        if part == "*":
            keys = list(node)
        elif part in node:
            keys = [part]
        elif created is not None and not _MATCH.fullmatch(part):
            node.put(part, "" if len(parts) == 1 else BuiltMap(created.span[0]), created)
            keys = [part]
    for key in keys:
        if len(parts) == 1:
            yield node, key
        else:
            child = node.own(str(key)) if isinstance(node, BuiltMap) else node[int(key)]
            yield from _places(child, parts[1:], created=created)


def _indices(node: BuiltSeq, part: str) -> Iterator[int]:
    match = _MATCH.fullmatch(part)
    for index, item in enumerate(node):
        if part in ("*", str(index)):
            yield index
        elif match and isinstance(item, BuiltMap) and _as_text(item.get(match[1])) == match[2]:
            yield index
