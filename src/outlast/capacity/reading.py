"""Read YAML into a tree whose every part knows its line and column.

Scalars stay text: what `1.30` or `no` means is for the field to say that it stands in, so a version
keeps its zero. Built from the parser's events with bounds on size, depth and the expansion of
aliases, so no input takes more than a moment. Nothing in the text can make an object or run code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outlast.capacity.errors import PlanningPackageMissing, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT_CHARACTERS_MAX = 1024**2
NODES_MAX = 20_000
DEPTH_MAX = 40

_NULLS = {"", "~", "null", "Null", "NULL"}
_STRING_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place in a source, counted from 1. A value from the command line has no line."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"

    def error(self, message: str, *, hint: str | None = None) -> WorkloadError:
        return WorkloadError(
            f"{self}: {message}", hint=hint, file=self.source, line=self.line, column=self.column
        )


@dataclass(kw_only=True, slots=True)
class Node:
    """One value of the tree: `value` is a text, None, a list of nodes or a dict of entries."""

    mark: Mark
    value: str | list[Node] | dict[str, Entry] | None

    def plain(self) -> object:
        """The value without its marks."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def find(self, path: tuple[str | int, ...]) -> tuple[Node | None, Mark]:
        """The node at `path` and the mark to show for it: its key's, or its own in a list.

        Where the path leaves the tree, the node is None and the mark is of the last part that is
        there.
        """
        node, mark = self, self.mark
        for part in path:
            if isinstance(node.value, dict) and part in node.value:
                entry = node.value[str(part)]
                node, mark = entry.node, entry.mark
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                mark = node.mark
            else:
                return None, mark
        return node, mark


@dataclass(kw_only=True, slots=True)
class Entry:
    """A key's value, and where the key stands."""

    mark: Mark
    node: Node


def read_yaml(text: str, *, source: str) -> Node:
    """The one document in `text`. Raises `WorkloadError` with the place of what is wrong."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise Mark(source=source).error(
            f"The text has {len(text):,} characters; at most {TEXT_CHARACTERS_MAX:,} are read.",
            hint="A workload file is a few dozen lines. Is this the right file?",
        )
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise Mark(source=source).error("The text holds half a character.", hint="Use UTF-8.")
    return _Builder(source=source).build(text)


@dataclass(kw_only=True, slots=True)
class _Open:
    """A collection whose end has not been seen. `key` waits for its value."""

    node: Node
    anchor: str | None
    key: tuple[str, Mark] | None = None


@dataclass(kw_only=True, slots=True)
class _Builder:
    source: str
    anchors: dict[str, Node] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    documents: list[Node] = field(default_factory=list)
    count: int = 0

    def build(self, text: str) -> Node:
        yaml = _yaml()
        try:
            for event in _events(text):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            place = error.problem_mark or error.context_mark
            mark = self._mark(place) if place else Mark(source=self.source)
            problem = error.problem or error.context or "cannot be read"
            raise mark.error(
                f"This is not YAML: {problem}.", hint="Check the indentation and quotes before it."
            ) from None
        except yaml.YAMLError as error:
            # The reader's own errors carry a position, not a mark: characters YAML does not allow.
            raise Mark(source=self.source).error(
                f"This is not YAML: {str(error).splitlines()[0]}.",
                hint="Save the file as plain UTF-8 text.",
            ) from None
        if not self.documents:
            raise Mark(source=self.source, line=1, column=1).error("There is nothing in here.")
        return self.documents[0]

    def _take(self, event: Any) -> None:
        yaml = _yaml()
        if isinstance(event, yaml.DocumentStartEvent) and self.documents:
            raise self._mark(event.start_mark).error(
                "A second document starts here.", hint="Keep one workload in one file."
            )
        if isinstance(event, yaml.AliasEvent):
            self._add_alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._add_scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            self._add(done.node, done.anchor)

    def _add_scalar(self, event: Any) -> None:
        mark = self._mark(event.start_mark)
        self._refuse_tag(event, mark)
        # Only a scalar without quotes may mean nothing at all.
        value = None if event.implicit[0] and event.value in _NULLS else event.value
        self._add(Node(mark=mark, value=value), event.anchor)

    def _open(self, event: Any, value: Any) -> None:
        mark = self._mark(event.start_mark)
        self._refuse_tag(event, mark)
        if len(self.stack) >= DEPTH_MAX:
            raise mark.error(f"This is nested more than {DEPTH_MAX} levels deep.")
        self.stack.append(_Open(node=Node(mark=mark, value=value), anchor=event.anchor))

    def _add_alias(self, event: Any) -> None:
        mark = self._mark(event.start_mark)
        if event.anchor not in self.anchors:
            raise mark.error(f"The alias *{event.anchor} stands for nothing that ends before it.")
        target = self.anchors[event.anchor]
        self._add(self._copy(target, mark), None)

    def _copy(self, node: Node, mark: Mark) -> Node:
        """Another node with the same value, blamed on the alias.

        Each part counts anew, or nine lines of aliases to aliases would stand for billions.
        """
        self._count(mark)
        value = node.value
        if isinstance(value, dict):
            value = {k: Entry(mark=mark, node=self._copy(e.node, mark)) for k, e in value.items()}
        elif isinstance(value, list):
            value = [self._copy(item, mark) for item in value]
        return Node(mark=mark, value=value)

    def _add(self, node: Node, anchor: str | None) -> None:
        self._count(node.mark)
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.documents.append(node)
            return
        top = self.stack[-1]
        if isinstance(top.node.value, list):
            top.node.value.append(node)
        elif top.key is None:
            top.key = self._key(top.node, node)
        else:
            assert isinstance(top.node.value, dict)
            key, mark = top.key
            top.node.value[key] = Entry(mark=mark, node=node)
            top.key = None

    def _key(self, parent: Node, node: Node) -> tuple[str, Mark]:
        if not isinstance(node.value, str):
            raise node.mark.error("A key is a plain word here.")
        assert isinstance(parent.value, dict)
        if node.value in parent.value:
            first = parent.value[node.value].mark
            raise node.mark.error(
                f"The key {node.value!r} stands here twice.",
                hint=f"The first is in line {first.line}. Keep one of them.",
            )
        return node.value, node.mark

    def _refuse_tag(self, event: Any, mark: Mark) -> None:
        if event.tag not in (None, "!", _STRING_TAG):
            raise mark.error(f"The tag {event.tag!r} means nothing here.", hint="Leave it out.")

    def _count(self, mark: Mark) -> None:
        self.count += 1
        if self.count > NODES_MAX:
            raise mark.error(f"There are more than {NODES_MAX:,} values in here.")

    def _mark(self, mark: Any) -> Mark:
        return Mark(source=self.source, line=mark.line + 1, column=mark.column + 1)


def _events(text: str) -> Iterator[Any]:
    yaml = _yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.parse(text, Loader=loader)  # type: ignore[no-any-return]


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise PlanningPackageMissing("PyYAML") from error
    return yaml
