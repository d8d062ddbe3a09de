"""Fields of an object by a path such as `spec/template/metadata/labels`.

Lists on the path are entered: the rest of the path applies to each item.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.kustomize.resources import ResourceId
from outlast.manifests.lint.tree import BuiltMap, BuiltSeq, Origin


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The path of a field in objects of a kind and group; empty ones match all."""

    path: str
    kind: str = ""
    group: str | None = None
    version: str = ""
    is_created: bool = False

    def is_for(self, one: ResourceId) -> bool:
        return (
            self.kind in ("", one.kind)
            and (self.group is None or self.group == one.group)
            and self.version in ("", one.version)
        )


def owners_of(root: BuiltMap, path: str, created: Origin | None) -> Iterator[tuple[BuiltMap, str]]:
    """The mappings that have the last key of the path, or should have it if `created` is set.

    Missing mappings on the path are created if `created` is set.
    """
    yield from _owners(root, split_path(path), created)


def _owners(node: Any, parts: list[str], created: Origin | None) -> Iterator[tuple[BuiltMap, str]]:
    if isinstance(node, BuiltSeq):
        for item in node:
            yield from _owners(item, parts, created)
    elif isinstance(node, BuiltMap):
        name = parts[0].removesuffix("[]")
        if len(parts) == 1:
            if name in node or created is not None:
                yield node, name
            return
        if node.get(name) is None and created is not None and name == parts[0]:
            node.child(name, created)
        if name in node:
            yield from _owners(node[name], parts[1:], created)


def update_scalars(root: BuiltMap, path: str, change: Callable[[Any], Any]) -> None:
    """Replace each scalar at the path, and in lists there."""
    for owner, key in owners_of(root, path, None):
        value = owner[key]
        if isinstance(value, BuiltSeq):
            for index, item in enumerate(value):
                if not isinstance(item, BuiltMap | BuiltSeq):
                    value[index] = change(item)
        elif not isinstance(value, BuiltMap):
            owner[key] = change(value)


def split_path(path: str, sign: str = "/") -> list[str]:
    """The parts of a path. A backslash keeps the sign after it in its part."""
    return [
        part.replace("\0", sign) for part in path.replace(f"\\{sign}", "\0").split(sign) if part
    ]
