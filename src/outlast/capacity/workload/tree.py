"""The text of a workload file as a tree in which every value knows its line and column.

Strict where manifests are tolerated: one document, no repeated keys, no tags, and limits on size,
depth and alias expansion, so that no input takes more than a moment. Scalars stay text: the field
decides what `1.30` or `no` means, so a version keeps its zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from outlast.capacity.errors import WorkloadError
from outlast.yamltext.nodes import Map, Seq
from outlast.yamltext.reading import Dialect, YamlContent, read
from outlast.yamltext.source import SourceText

TEXT_CHARACTERS_MAX = 1024**2
NODES_MAX = 20_000
DEPTH_MAX = 40

_LINE_SEPARATORS = "\x85\u2028\u2029"
_NULLS = {"", "~", "null", "Null", "NULL"}
_TEXT_ONLY = Dialect(
    resolve=lambda text: None if text in _NULLS else text,
    depth_max=DEPTH_MAX,
    expanded_max=NODES_MAX,
    is_strict=True,
)


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
class WorkloadNode:
    """One value of the tree: `value` is text, None, a list of nodes or a dict of entries."""

    mark: Mark
    value: str | list[WorkloadNode] | dict[str, WorkloadEntry] | None

    def plain(self) -> object:
        """The value without its marks."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def find(self, path: tuple[str | int, ...]) -> tuple[WorkloadNode | None, Mark]:
        """The node at `path` and the mark to show for it: its key's, or its own in a list.

        If the path does not exist, the node is None and the mark is that of its last existing part.
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
class WorkloadEntry:
    """The value of a key, and the position of the key."""

    mark: Mark
    node: WorkloadNode


def read_yaml(text: str, *, source: str) -> WorkloadNode:
    """The one document in `text`. Raises `WorkloadError` with the position of the problem."""
    _check_text(text, Mark(source=source))
    reading = read(text, _TEXT_ONLY)
    builder = _Builder(SourceText(name=source, text=text))
    builder.check(reading)
    if not reading.documents:
        raise Mark(source=source, line=1, column=1).error("The file is empty.")
    root = reading.documents[0]
    start = root.start if isinstance(root, Map | Seq) else len(text) - len(text.lstrip())
    return builder.node(root, start)


def _check_text(text: str, mark: Mark) -> None:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise mark.error(
            f"The text has {len(text):,} characters; the limit is {TEXT_CHARACTERS_MAX:,}.",
            hint="A workload file is a few dozen lines. Is this the right file?",
        )
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise mark.error("The text contains half of a surrogate pair.", hint="Save it as UTF-8.")
    for character in _LINE_SEPARATORS:
        if character in text:
            raise mark.error(
                f"The text contains U+{ord(character):04X}, an invisible line break that YAML "
                "would turn into a space.",
                hint=f'Delete it, or write "\\u{ord(character):04X}" in double quotes.',
            )


class _Builder:
    """Turns what was read into nodes. What an alias refers to is copied and marked at the alias."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._count = 0

    def check(self, reading: YamlContent) -> None:
        """Raise for the first problem in the text: a syntax error or a repeated key."""
        broken = min(reading.broken, key=lambda one: one.offset, default=None)
        repeated = min(reading.repeated, key=lambda one: one.second, default=None)
        if repeated is not None and (broken is None or repeated.second[0] < broken.offset):
            first = self._mark(repeated.first[0])
            raise self._mark(repeated.second[0]).error(
                f"The key {repeated.key!r} appears twice.",
                hint=f"It first appears on line {first.line}. Keep one of them.",
            )
        if broken is not None:
            raise self._mark(broken.offset).error(
                f"This YAML cannot be read: {broken.reason}.", hint=broken.hint
            )

    def node(self, value: Any, start: int, alias: Mark | None = None) -> WorkloadNode:
        # Only an alias starts with an asterisk: a scalar that does is in quotes.
        if alias is None and self._source.text[start : start + 1] == "*":
            alias = self._mark(start)
        mark = alias or self._mark(start)
        self._count += 1
        if self._count > NODES_MAX:
            raise mark.error(f"The text contains more than {NODES_MAX:,} values.")
        if isinstance(value, Map):
            return WorkloadNode(mark=mark, value=self._entries(value, alias))
        if isinstance(value, Seq):
            spans = zip(value, value.spans, strict=True)
            return WorkloadNode(
                mark=mark, value=[self.node(one, at, alias) for one, (at, _) in spans]
            )
        return WorkloadNode(mark=mark, value=value)

    def _entries(self, mapping: Map, alias: Mark | None) -> dict[str, WorkloadEntry]:
        entries = {}
        for key, value in mapping.items():
            key_start, _, start, _ = mapping.spans[key]
            mark = alias or self._mark(key_start)
            self._count += 1
            entries[key] = WorkloadEntry(mark=mark, node=self.node(value, start, alias))
        return entries

    def _mark(self, offset: int) -> Mark:
        line, column = self._source.position(offset)
        return Mark(source=self._source.name, line=line, column=column)
