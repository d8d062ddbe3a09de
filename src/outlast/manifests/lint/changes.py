"""What a fix does, said in terms of the object and not of its text.

A rule says which value is to change; how the text is spliced, and that it then reads as exactly
that change and nothing else, is for `splicing` and `fixing`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from outlast.manifests.lint.nodes import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """Changes that belong together. A safe one cannot change what works today."""

    title: str
    changes: tuple["Change", ...]
    is_safe: bool


@dataclass(frozen=True, slots=True)
class Put:
    """Put a value at `path`, in place of a scalar or as a new key.

    A new key stands behind the key `after`, or at the end of its mapping.
    """

    path: Path
    value: Any
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the key or the item at `path` away."""

    path: Path


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the key at `path` another name, and leave its value."""

    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class Append:
    """Add an item to the list at `path`."""

    path: Path
    value: Any


Change = Put | Remove | Rename | Append


def below(prefix: Path, change: Change) -> Change:
    """The same change, seen from further up."""
    return replace(change, path=(*prefix, *change.path))


def changed(root: Any, change: Change) -> Any:
    """A plain copy of `root` with the change made. Raises `LookupError` where it cannot be."""
    return _changed(root, change.path, change)


def plain(node: Any) -> Any:
    """A copy without positions."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
    return node


def _changed(node: Any, path: Path, change: Change) -> Any:
    copy: Any = dict(node) if isinstance(node, Mapping) else list(node)
    match change, path:
        case Append(value=value), ():
            return [*copy, value]
        case Put(value=value), (last,):
            copy[last] = value
        case Remove(), (last,):
            del copy[last]
        case Rename(key=key), (last,):
            if key in copy:
                raise LookupError(key)
            return {key if old == last else old: value for old, value in copy.items()}
        case _, (first, *rest):
            copy[first] = _changed(node[first], tuple(rest), change)
        case _:
            raise LookupError(path)
    return copy
