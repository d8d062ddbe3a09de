"""Mappings and lists that know where each of their parts stands in the text.

They are plain `dict` and `list` to everyone else, so rules and schemas read them as such. Scalars
are plain values; their container knows their place. What an alias stands for is shared, not copied,
and what a merge key brings keeps the place it was written at.
"""

from collections.abc import Sequence
from typing import Any

Path = tuple[str | int, ...]
"""The way from a container to a part of it: keys of mappings and indices of lists."""

Span = tuple[int, int]
OPEN = -1
"""The end of a container whose end has not been read yet."""


class Map(dict[str, Any]):
    """A mapping. `spans` gives for each key the offsets of (key start, key end, value start, end).

    `merged` holds the keys that came by `<<` and are not written here.
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
    """What stands at `path`, or the default where the path leaves what is there."""
    node = root
    for part in path:
        if isinstance(node, dict) and isinstance(part, str) and part in node:
            node = node[part]
        elif isinstance(node, list) and isinstance(part, int) and -len(node) <= part < len(node):
            node = node[part]
        else:
            return default
    return node


def span_at(root: Map | Seq, path: Sequence[str | int], *, of_key: bool = False) -> Span:
    """The place to point at for `path`.

    A scalar is pointed at itself. A mapping or list under a key is pointed at by its key, because
    that is the word a reader looks for; so is everything if `of_key` is true. Where the path leaves
    what is there, it is the last part that is.
    """
    # The whole document has no key; its first line says enough.
    found: Span = (root.start, _first_end(root))
    node: Any = root
    for part in path:
        if isinstance(node, Map) and isinstance(part, str) and part in node:
            key_start, key_end, start, end = node.spans[part]
            node = node[part]
            is_container = isinstance(node, (Map, Seq))
            # An empty value has no text of its own.
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
    """Where the first key or item ends, so that a mark does not span pages."""
    if isinstance(node, Map) and node.spans and not node.is_flow:
        first = next((key for key in node.spans if key not in node.merged), None)
        if first is not None:
            return node.spans[first][1]
    return node.start + 1 if node.end > node.start else node.end
