"""Read YAML and JSON into plain values with exact positions, whatever the text.

One pass over the events of PyYAML's C parser. Bounds on depth and on what aliases expand to keep
every later walk over the values short. A document that cannot be read becomes a `Broken` with its
place, and the next one is read all the same: documents are cut apart at their separator first, as
kubectl does.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from outlast.manifests.lint.nodes import OPEN, Map, Seq, Span
from outlast.manifests.lint.scalars import as_key, resolve, resolve_tagged

DEPTH_MAX = 200
EXPANDED_MAX = 100_000
"""So many values may come out of aliases and merge keys of one file."""
BROKEN_MAX = 20
"""After so many documents that cannot be read, the rest of a file is left alone."""

_SEPARATOR = re.compile(r"^---[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
# A directive or comment belongs to the document that follows its separator.
_PREAMBLE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n|%[^\n]*\n)*")
# JSON may write a character as two halves, which YAML refuses. No rule reads such text.
_HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+(?:#[^\n]*\s+)*)*")
_MERGE = "<<"
_NO_KEY: Any = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A document that cannot be read, and why, at an offset."""

    offset: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """A key that stands twice in one mapping; the later one counts."""

    key: str
    first: Span
    second: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What is in a text. `documents` are the roots, in order; empty ones are left out."""

    documents: list[Any] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    repeated: list[Repeated] = field(default_factory=list)


def read(text: str) -> Reading:
    """Every document of a text. Never raises for what is in it."""
    reading = Reading()
    budget = _Budget()
    for start, end in _chunks(text):
        try:
            _Reader(text[start:end], start, reading, budget).run()
        except _Unreadable as error:
            reading.broken.append(Broken(offset=error.offset, reason=error.reason))
            if len(reading.broken) >= BROKEN_MAX:
                break
    return reading


def _chunks(text: str) -> Iterator[Span]:
    start = 0
    for match in _SEPARATOR.finditer(text):
        if match.start() > start and not _PREAMBLE.fullmatch(text, start, match.start()):
            yield start, match.start()
            start = match.start()
    yield start, len(text)


class _Unreadable(Exception):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


@dataclass(slots=True)
class _Budget:
    """What aliases of the whole file may still expand to."""

    left: int = EXPANDED_MAX

    def spend(self, count: int, offset: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _Unreadable(offset, f"aliases expand to more than {EXPANDED_MAX:,} values")


class _Reader:
    """Reads one chunk of a text, which starts at the offset `base`."""

    def __init__(self, chunk: str, base: int, reading: Reading, budget: _Budget) -> None:
        self._chunk = chunk
        self._base = base
        self._reading = reading
        self._budget = budget
        self._anchors: dict[str, Any] = {}

    def run(self) -> None:
        yaml = _yaml()
        chunk = self._chunk
        if chunk.lstrip()[:1] in ("{", "["):
            chunk = _HALVES.sub(r"\\ufffd", chunk)
        try:
            self._read_events(yaml.CSafeLoader(chunk).get_event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            offset = self._base + min(mark.index, len(chunk)) if mark else self._base
            reason = error.problem or error.context or "it cannot be read"
            raise _Unreadable(offset, reason) from None
        except yaml.reader.ReaderError as error:
            before = chunk.encode()[: error.position].decode(errors="ignore")
            reason = f"the character U+{error.character:04X} is not allowed"
            raise _Unreadable(self._base + len(before), reason) from None

    def _read_events(self, get_event: Callable[[], Any]) -> None:
        events = _yaml().events
        while True:
            kind = type(get_event())
            if kind is events.DocumentStartEvent:
                self._anchors = {}
                root = self._read_node(get_event)
                # The end of the document; what follows it may be wrong as well.
                get_event()
                if root is not None:
                    self._reading.documents.append(root)
            elif kind is events.StreamEndEvent:
                return

    # One long function on purpose: it runs for each of many thousand events.
    def _read_node(self, get_event: Callable[[], Any]) -> Any:  # noqa: C901
        events = _yaml().events
        scalar, alias = events.ScalarEvent, events.AliasEvent
        ends = (events.MappingEndEvent, events.SequenceEndEvent)
        mapping_start = events.MappingStartEvent
        base = self._base
        stack: list[tuple[Any, Any, Span]] = []
        current: Any = None
        key = _NO_KEY
        key_span: Span = (0, 0)
        end = 0
        while True:
            event = get_event()
            kind = type(event)
            if kind is scalar:
                value = event.value
                start, end = event.start_mark.index + base, event.end_mark.index + base
                weight = 1
                if event.anchor is not None or event.tag is not None:
                    start, value = self._with_properties(event, start, end)
                elif event.implicit[0]:
                    value = resolve(value)
                elif event.style in "|>":
                    end = self._trimmed(start, end)
            elif kind in ends:
                value = current
                start, weight = value.start, value.weight + 1
                # The last part of a block ends where the block does.
                end = self._finish(value, event, end)
                current, key, key_span = stack.pop()
            elif kind is alias:
                start, end = event.start_mark.index + base, event.end_mark.index + base
                value, weight = self._alias(event, start)
            else:
                stack.append((current, key, key_span))
                key = _NO_KEY
                current = self._open(event, len(stack), Map if kind is mapping_start else Seq)
                continue
            if current is None:
                return value
            current.weight += weight
            if type(current) is Seq:
                current.append(value)
                current.spans.append((start, end))
            elif key is _NO_KEY:
                key = value if type(value) is str else self._key(value, start)
                key_span = (start, end)
            else:
                if key in current:
                    self._note_repeated(current, key, key_span)
                current[key] = value
                current.spans[key] = (*key_span, start, end)
                key = _NO_KEY

    def _open(self, event: Any, depth: int, kind: type[Map] | type[Seq]) -> Map | Seq:
        start = event.start_mark.index + self._base
        if depth > DEPTH_MAX:
            raise _Unreadable(start, f"it is nested more than {DEPTH_MAX} levels deep")
        if event.anchor is None and event.tag is None:
            return kind(start, is_flow=bool(event.flow_style))
        opened = kind(self._past_properties(start), is_flow=bool(event.flow_style))
        if event.anchor is not None:
            self._anchors[event.anchor] = opened
        return opened

    def _finish(self, value: Map | Seq, event: Any, last_end: int) -> int:
        value.weight += 1
        value.end = event.end_mark.index + self._base if value.is_flow else last_end
        if _MERGE in value and isinstance(value, Map):
            start, end = value.spans[_MERGE][:2]
            # In quotes it is a key like any other.
            if end - start == len(_MERGE):
                self._merge(value)
        return value.end

    def _with_properties(self, event: Any, start: int, end: int) -> tuple[int, Any]:
        value = event.value
        if event.tag is not None:
            value = resolve_tagged(value, event.tag)
        elif event.implicit[0]:
            value = resolve(value)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return min(self._past_properties(start), end), value

    def _alias(self, event: Any, start: int) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise _Unreadable(start, f"the alias *{event.anchor} stands for nothing before it")
        value = self._anchors[event.anchor]
        if not isinstance(value, (Map, Seq)):
            return value, 1
        if value.end == OPEN:
            raise _Unreadable(start, f"what *{event.anchor} stands for contains itself")
        self._budget.spend(value.weight, start)
        return value, value.weight

    def _key(self, value: Any, start: int) -> str:
        key = as_key(value)
        if key is None:
            raise _Unreadable(start, "a key must be a text, a number or a boolean")
        return key

    def _merge(self, target: Map) -> None:
        """Brings in what `<<` names; what is written in the mapping itself wins."""
        start = target.spans[_MERGE][2]
        given = target[_MERGE]
        sources = given if isinstance(given, Seq) else [given]
        if not all(isinstance(source, Map) for source in sources):
            raise _Unreadable(start, "a merge key << needs a mapping or a list of mappings")
        del target[_MERGE], target.spans[_MERGE]
        brought = set()
        for source in sources:
            self._budget.spend(len(source), start)
            for key, value in source.items():
                if key not in target:
                    target[key] = value
                    target.spans[key] = source.spans[key]
                    brought.add(key)
        target.merged = frozenset(brought)

    def _note_repeated(self, current: Map, key: str, second: Span) -> None:
        first = current.spans[key][:2]
        self._reading.repeated.append(Repeated(key=key, first=first, second=second))

    def _trimmed(self, start: int, end: int) -> int:
        """The end of a block scalar without the blank lines after it."""
        text = self._chunk[start - self._base : end - self._base]
        return start + len(text.rstrip())

    def _past_properties(self, start: int) -> int:
        """Where the value itself starts, behind its anchor and tag."""
        match = _PROPERTIES.match(self._chunk, start - self._base)
        assert match is not None
        return match.end() + self._base


@cache
def _yaml() -> Any:
    try:
        import yaml

        if not yaml.__with_libyaml__:
            raise ImportError("PyYAML was built without its parser in C.")
    except ImportError as error:
        from outlast.capacity.errors import PlanningPackageMissing

        raise PlanningPackageMissing("PyYAML with its parser in C") from error
    return yaml
