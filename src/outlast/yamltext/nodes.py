"""Mappings and lists that know the position of each of their parts in the text.

They are subclasses of `dict` and `list`, so other code can use them as such. Scalars are plain
values; their container knows their position. The target of an alias is shared, not copied, and keys
from a merge keep their original position.
"""

from collections.abc import Sequence
from typing import Any

Path = tuple[str | int, ...]
"""The path from a container to a part of it: keys of mappings and indices of lists."""

Span = tuple[int, int]
OPEN = -1
"""The `end` of a container that has not been read completely."""

_MISSING = object()


class Map(dict[str, Any]):
    """A mapping. `spans` gives for each key the offsets of (key start, key end, value start, end).

    `merged` are the keys that came from a merge key `<<`.
    """

    __slots__ = ("end", "is_flow", "merged", "spans", "start", "weight")

    def __init__(self, start: int, *, is_flow: bool) -> None:
        self.start = start
        self.end = OPEN
        self.is_flow = is_flow
        self.spans: dict[str, tuple[int, int, int, int]] = {}
        self.merged: frozenset[str] = frozenset()
        self.weight = 0


class Seq(list[Any]):
    """A list. `spans` gives the offsets of each item."""

    __slots__ = ("end", "is_flow", "spans", "start", "weight")

    def __init__(self, start: int, *, is_flow: bool) -> None:
        self.start = start
        self.end = OPEN
        self.is_flow = is_flow
        self.spans: list[Span] = []
        self.weight = 0


def get(root: Any, path: Sequence[str | int], default: Any = None) -> Any:
    """The value at `path`, or the default if the path does not exist."""
    node = root
    for part in path:
        if isinstance(node, dict):
            node = node.get(part, _MISSING)
            if node is _MISSING:
                return default
        elif isinstance(node, list) and isinstance(part, int) and -len(node) <= part < len(node):
            node = node[part]
        else:
            return default
    return node


def span_at(root: Map | Seq, path: Sequence[str | int], *, of_key: bool = False) -> Span:
    """The span to point at for `path`.

    For a scalar, the scalar itself. For a mapping or list under a key, or if `of_key` is true, the
    key, because readers look for that. If the path does not exist, its last part that does.
    """
    # A document has no key, so point at its first line.
    found: Span = (root.start, _first_end(root))
    node: Any = root
    for part in path:
        if isinstance(node, Map) and isinstance(part, str) and part in node:
            key_start, key_end, start, end = node.spans[part]
            node = node[part]
            is_container = isinstance(node, (Map, Seq))
            # An empty value has no text.
            by_key = of_key or is_container or start == end
            found = (key_start, key_end) if by_key else (start, end)
        elif isinstance(node, Seq) and isinstance(part, int) and -len(node) <= part < len(node):
            start, end = node.spans[part]
            node = node[part]
            found = (start, _first_end(node)) if isinstance(node, (Map, Seq)) else (start, end)
        else:
            break
    return found


def _first_end(node: Map | Seq) -> int:
    """The end of the first key or item, so that the span stays short."""
    if isinstance(node, Map) and node.spans and not node.is_flow:
        first = next((key for key in node.spans if key not in node.merged), None)
        if first is not None:
            return node.spans[first][1]
    return node.start + 1 if node.end > node.start else node.end
