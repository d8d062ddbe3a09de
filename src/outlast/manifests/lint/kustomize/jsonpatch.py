"""JSON patches (RFC 6902): a list of operations on paths of an object."""

from typing import Any

from outlast.manifests.lint.kustomize.errors import CannotBuild
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin, copied

_NONE: Any = object()


def apply_operations(root: BuiltMap, operations: BuiltSeq) -> None:
    """Apply the operations in order. Changes `root`.

    An operation can add an annotation even if there is none yet, as in Kustomize.
    """
    metadata = root.get("metadata")
    if isinstance(metadata, BuiltMap) and metadata.get("annotations") is None and metadata:
        metadata.put("annotations", BuiltMap(metadata.start), metadata.origin(next(iter(metadata))))
    _apply_all(root, operations)
    if isinstance(metadata, BuiltMap) and metadata.get("annotations") == {}:
        metadata.drop("annotations")


def _apply_all(root: BuiltMap, operations: BuiltSeq) -> None:
    for index, operation in enumerate(operations):
        if not isinstance(operation, BuiltMap):
            raise CannotBuild("an operation of the JSON patch is not a mapping")
        source = operations.sources[index]
        value_origin = (
            operation.origin("value")
            if "value" in operation
            else Origin(source=source, span=(operation.start, operation.start + 1) * 2)
        )
        _apply(root, operation, value_origin)


def _apply(root: BuiltMap, operation: BuiltMap, origin: Origin) -> None:
    path = _path(operation, "path")
    match operation.get("op"):
        case "add":
            _add(root, path, copied(operation.get("value"), origin.source), origin)
        case "replace":
            node, part = _parent(root, path)
            if isinstance(node, BuiltSeq) or part in node:
                _take(root, path)
            _add(root, path, copied(operation.get("value"), origin.source), origin)
        case "remove":
            _take(root, path)
        case "move":
            _add(root, path, _take(root, _path(operation, "from")), origin)
        case "copy":
            found = _parent(root, _path(operation, "from"))
            _add(root, path, copied(_item(*found), origin.source), origin)
        case "test":
            if _item(*_parent(root, path)) != operation.get("value"):
                raise CannotBuild(f"the JSON patch tests {operation.get('path')!r}, which differs")
        case other:
            raise CannotBuild(f"the JSON patch has the unknown operation {other!r}")


def _path(operation: BuiltMap, key: str) -> list[str]:
    text = operation.get(key)
    if not isinstance(text, str) or not text.startswith("/"):
        raise CannotBuild(f"the JSON patch has the invalid {key} {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _parent(root: BuiltMap, path: list[str]) -> tuple[BuiltMap | BuiltSeq, str]:
    node: Any = root
    for part in path[:-1]:
        node = _item(node, part) if isinstance(node, BuiltMap | BuiltSeq) else _NONE
        if not isinstance(node, BuiltMap | BuiltSeq):
            raise CannotBuild(f"the JSON patch refers to '/{'/'.join(path)}', which does not exist")
    return node, path[-1]


def _item(node: BuiltMap | BuiltSeq, part: str) -> Any:
    if isinstance(node, BuiltMap):
        if part not in node:
            raise CannotBuild(f"the JSON patch refers to {part!r}, which does not exist")
        return node.own(part)
    return node[_index(node, part, len(node) - 1)]


def _index(node: BuiltSeq, part: str, index_max: int) -> int:
    try:
        index = int(part)
    except ValueError:
        raise CannotBuild(f"the JSON patch uses {part!r} as the index of a list") from None
    if index < 0:
        index += len(node) + 1 if index_max == len(node) else len(node)
    if not 0 <= index <= index_max:
        raise CannotBuild(f"the JSON patch uses the index {part} in a list of {len(node)}")
    return index


def _take(root: BuiltMap, path: list[str]) -> Any:
    node, part = _parent(root, path)
    value = _item(node, part)
    if isinstance(node, BuiltMap):
        node.drop(part)
    else:
        node.drop(_index(node, part, len(node) - 1))
    return value


def _add(root: BuiltMap, path: list[str], value: Any, origin: Origin) -> None:
    node, part = _parent(root, path)
    if isinstance(node, BuiltMap):
        node.put(part, value, origin)
        return
    index = len(node) if part == "-" else _index(node, part, len(node))
    node.put(index, value, origin.span[2:], origin.source)
