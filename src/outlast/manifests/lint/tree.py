"""Mappings and lists put together from several files, each part with the file it came from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outlast.yamltext.nodes import Map, Path, Seq
from outlast.yamltext.source import SourceSpan, SourceText

Shift = Callable[[int], int]

_NODES = (Map, Seq)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a value was set: the offsets of (key start, key end, value start, end) in a file."""

    source: SourceText
    span: tuple[int, int, int, int]

    @classmethod
    def of_key(cls, node: Map, key: str, source: SourceText) -> "Origin":
        """Where `node` sets `key`. A built node knows the file of each key itself."""
        own = node.sources[key] if isinstance(node, BuiltMap) else source
        return cls(source=own, span=node.spans[key])


class BuiltMap(Map):
    """A mapping. `sources` gives the file of each key."""

    __slots__ = ("sources",)

    def __init__(self, start: int = 0, *, is_flow: bool = False) -> None:
        super().__init__(start, is_flow=is_flow)
        self.end = start
        self.sources: dict[str, SourceText] = {}

    def put(self, key: str, value: Any, origin: Origin) -> None:
        self[key] = value
        self.spans[key] = origin.span
        self.sources[key] = origin.source

    def put_scalar(self, key: str, value: Any, origin: Origin) -> None:
        """Change a value where it is set, or set it at `origin`."""
        if key in self:
            self[key] = value
        else:
            self.put(key, value, origin)

    def drop(self, key: str) -> None:
        if key in self:
            del self[key], self.spans[key], self.sources[key]

    def origin(self, key: str) -> Origin:
        return Origin(source=self.sources[key], span=self.spans[key])

    def own(self, key: str) -> Any:
        """The value at a key, None if there is none. A shared one is copied, as it may change."""
        value = self.get(key)
        if isinstance(value, _NODES) and not isinstance(value, BuiltMap | BuiltSeq):
            value = self[key] = copied(value, self.sources[key])
        return value

    def child(self, key: str, origin: Origin) -> "BuiltMap | None":
        """The mapping at a key, created if missing, None if there is something else."""
        if self.get(key) is None:
            self.put(key, BuiltMap(origin.span[0]), origin)
        found = self[key]
        return found if isinstance(found, BuiltMap) else None


class BuiltSeq(Seq):
    """A list. `sources` gives the file of each item."""

    __slots__ = ("sources",)

    def __init__(self, start: int = 0, *, is_flow: bool = False) -> None:
        super().__init__(start, is_flow=is_flow)
        self.end = start
        self.sources: list[SourceText] = []

    def put(self, index: int, value: Any, span: tuple[int, int], source: SourceText) -> None:
        """Insert an item before `index`."""
        self.insert(index, value)
        self.spans.insert(index, span)
        self.sources.insert(index, source)

    def drop(self, index: int) -> None:
        del self[index], self.spans[index], self.sources[index]

    def take(self, other: "BuiltSeq", index: int) -> None:
        """Append an item of another list."""
        self.put(len(self), other[index], other.spans[index], other.sources[index])


def copied(
    node: Any, source: SourceText, shift: Shift | None = None, *, shared: str | None = None
) -> Any:
    """A copy of a value that was read from `source`, or that was built. `shift` moves offsets.

    The mappings under the key `shared` are not copied. `own` copies them if they may change.
    """
    if isinstance(node, Map):
        new = BuiltMap(_moved(node.start, shift), is_flow=node.is_flow)
        new.end = _moved(node.end, shift)
        new.merged = node.merged
        # Most values are scalars, which need no copy. The order of the spans is that of the keys.
        for key, value in node.items():
            if isinstance(value, _NODES) and key != shared:
                value = copied(value, source, shift, shared=shared)
            new[key] = value
        spans = {key: node.spans[key] for key in node}
        if shift is not None:
            spans = {
                key: (shift(a), shift(b), shift(c), shift(d)) for key, (a, b, c, d) in spans.items()
            }
        new.spans = spans
        new.sources = (
            dict(node.sources) if isinstance(node, BuiltMap) else dict.fromkeys(node, source)
        )
        return new
    if isinstance(node, Seq):
        items = BuiltSeq(_moved(node.start, shift), is_flow=node.is_flow)
        items.end = _moved(node.end, shift)
        items += [
            copied(value, source, shift, shared=shared) if isinstance(value, _NODES) else value
            for value in node
        ]
        items.spans = [(_moved(start, shift), _moved(end, shift)) for start, end in node.spans]
        items.sources = list(node.sources) if isinstance(node, BuiltSeq) else [source] * len(items)
        return items
    return node


def _moved(offset: int, shift: Shift | None) -> int:
    return offset if shift is None else shift(offset)


def place_at(root: BuiltMap, source: SourceText, path: Path, *, of_key: bool = False) -> SourceSpan:
    """The span to point at for `path`, as `span_at` finds it, in the file that set the value."""
    found = SourceSpan(source=source, start=root.start, end=_first_end(root, source))
    node: Any = root
    for part in path:
        if isinstance(node, BuiltMap) and isinstance(part, str) and part in node:
            key_start, key_end, start, end = node.spans[part]
            source = node.sources[part]
            node = node[part]
            by_key = of_key or isinstance(node, (Map, Seq)) or start == end
            span = (key_start, key_end) if by_key else (start, end)
            found = SourceSpan(source=source, start=span[0], end=span[1])
        elif isinstance(node, BuiltSeq) and isinstance(part, int) and part < len(node):
            start, end = node.spans[part]
            source = node.sources[part]
            node = node[part]
            if isinstance(node, (Map, Seq)):
                end = _first_end(node, source) if isinstance(node, BuiltMap) else start + 1
            found = SourceSpan(source=source, start=start, end=end)
        else:
            break
    return found


def _first_end(node: BuiltMap, source: SourceText) -> int:
    """The end of the first key, if it is in the same file and follows the start."""
    if not node.is_flow:
        for key, span in node.spans.items():
            if node.sources[key] is source and span[0] == node.start:
                return span[1]
    return node.start + 1
