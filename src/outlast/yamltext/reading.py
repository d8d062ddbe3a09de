"""Read YAML and JSON into plain values with exact positions. Never raises for the content.

One pass over the events of PyYAML's C parser. Limits on depth and alias expansion keep every later
walk over the values short. A document that cannot be read becomes a `Broken` with its position, and
the next one is still read: documents are split at their separators first, as kubectl does.

A `Dialect` decides what plain scalars mean and how much is allowed. Nothing in a text can create
objects or run code.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from outlast.yamltext.errors import PlanningPackageMissing
from outlast.yamltext.nodes import OPEN, Map, Seq, Span
from outlast.yamltext.scalars import Scalar, as_key, resolve, resolve_tagged

DEPTH_MAX = 200
EXPANDED_MAX = 100_000
BROKEN_MAX = 20
"""After this many unreadable documents, the rest of a file is skipped."""

_SEPARATOR = re.compile(r"^---[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
# A directive or comment belongs to the document that follows its separator.
_PREAMBLE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n|%[^\n]*\n)*")
# JSON may write a character as two halves, which YAML refuses. No rule reads such text.
_HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+(?:#[^\n]*\s+)*)*")
_MERGE = "<<"
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_NO_KEY: Any = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How a text is understood.

    `resolve` gives the value of a plain scalar. `expanded_max` limits how many values aliases and
    merge keys of a file may expand to. A strict dialect allows one document, no tags other than
    `!!str`, no merge keys and no half characters; it also works without PyYAML's C parser.
    """

    resolve: Callable[[str], Scalar]
    depth_max: int
    expanded_max: int
    is_strict: bool


KUBERNETES = Dialect(
    resolve=resolve, depth_max=DEPTH_MAX, expanded_max=EXPANDED_MAX, is_strict=False
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenDocument:
    """A document that cannot be read: the offset, the reason and, if known, what to do."""

    offset: int
    reason: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedKey:
    """A key that appears twice in one mapping; the later one counts."""

    key: str
    first: Span
    second: Span


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlContent:
    """The content of a text. `documents` are the roots in order, without empty ones."""

    documents: list[Any] = field(default_factory=list)
    broken: list[BrokenDocument] = field(default_factory=list)
    repeated: list[RepeatedKey] = field(default_factory=list)


def read(text: str, dialect: Dialect = KUBERNETES) -> YamlContent:
    """Every document of a text. Never raises for its content."""
    reading = YamlContent()
    budget = _Budget(left=dialect.expanded_max, limit=dialect.expanded_max)
    for start, end in _chunks(text):
        before = len(reading.repeated)
        try:
            _Reader(text[start:end], start, reading, budget, dialect).run()
        except _Unreadable as error:
            # What is not YAML, such as the output of `kubectl describe`, has no keys.
            del reading.repeated[before:]
            reading.broken.append(error.broken)
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
    def __init__(self, offset: int, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.broken = BrokenDocument(offset=offset, reason=reason, hint=hint)


@dataclass(slots=True)
class _Budget:
    """How many more values the aliases of a file may expand to."""

    left: int
    limit: int

    def spend(self, count: int, offset: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _Unreadable(offset, f"aliases expand to more than {self.limit:,} values")


class _Reader:
    """Reads one chunk of a text, which starts at the offset `base`."""

    def __init__(
        self, chunk: str, base: int, reading: YamlContent, budget: _Budget, dialect: Dialect
    ) -> None:
        self._chunk = chunk
        self._base = base
        self._reading = reading
        self._budget = budget
        self._dialect = dialect
        self._anchors: dict[str, Any] = {}

    def run(self) -> None:
        is_strict = self._dialect.is_strict
        yaml = _yaml(needs_c=not is_strict)
        chunk = self._chunk
        if chunk.lstrip()[:1] in ("{", "[") and not is_strict:
            chunk = _HALVES.sub(r"\\ufffd", chunk)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._read_events(loader(chunk).get_event, yaml.events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            offset = self._base + min(mark.index, len(chunk)) if mark else self._base
            reason = error.problem or error.context or "it cannot be read"
            hint = "Check the indentation and quotes before it."
            raise _Unreadable(offset, reason, hint) from None
        except yaml.reader.ReaderError as error:
            before = chunk.encode()[: error.position].decode(errors="ignore")
            reason = f"the character U+{error.character:04X} is not allowed"
            hint = "Save the file as plain UTF-8 text."
            raise _Unreadable(self._base + len(before), reason, hint) from None

    def _read_events(self, get_event: Callable[[], Any], events: Any) -> None:
        is_strict = self._dialect.is_strict
        documents = self._reading.documents
        while True:
            event = get_event()
            kind = type(event)
            if kind is events.DocumentStartEvent:
                if is_strict and documents:
                    start = event.start_mark.index + self._base
                    hint = "Keep one document per file."
                    raise _Unreadable(start, "a second document starts here", hint)
                self._anchors = {}
                root = self._read_node(get_event, events)
                # The end of the document; what follows it may be wrong as well.
                get_event()
                if root is not None or is_strict:
                    documents.append(root)
            elif kind is events.StreamEndEvent:
                return

    # One long function on purpose: it runs for each of many thousand events.
    def _read_node(self, get_event: Callable[[], Any], events: Any) -> Any:  # noqa: C901
        resolve = self._dialect.resolve
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
        depth_max = self._dialect.depth_max
        if depth > depth_max:
            raise _Unreadable(start, f"it is nested more than {depth_max} levels deep")
        if event.anchor is None and event.tag is None:
            return kind(start, is_flow=bool(event.flow_style))
        self._check_tag(event, start)
        opened = kind(self._past_properties(start), is_flow=bool(event.flow_style))
        if event.anchor is not None:
            self._anchors[event.anchor] = opened
        return opened

    def _finish(self, value: Map | Seq, event: Any, last_end: int) -> int:
        value.weight += 1
        value.end = event.end_mark.index + self._base if value.is_flow else last_end
        if _MERGE in value and isinstance(value, Map) and not self._dialect.is_strict:
            start, end = value.spans[_MERGE][:2]
            # In quotes it is a key like any other.
            if end - start == len(_MERGE):
                self._merge(value)
        return value.end

    def _with_properties(self, event: Any, start: int, end: int) -> tuple[int, Any]:
        value = event.value
        self._check_tag(event, start)
        if event.tag is not None:
            value = resolve_tagged(value, event.tag)
        elif event.implicit[0]:
            value = self._dialect.resolve(value)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return min(self._past_properties(start), end), value

    def _check_tag(self, event: Any, start: int) -> None:
        if self._dialect.is_strict and event.tag not in (None, *_STRING_TAGS):
            raise _Unreadable(start, f"the tag {event.tag!r} is not supported", "Remove it.")

    def _alias(self, event: Any, start: int) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise _Unreadable(start, f"the alias *{event.anchor} has no anchor before it")
        value = self._anchors[event.anchor]
        if not isinstance(value, (Map, Seq)):
            return value, 1
        if value.end == OPEN:
            raise _Unreadable(start, f"the alias *{event.anchor} is part of what it refers to")
        self._budget.spend(value.weight, start)
        return value, value.weight

    def _key(self, value: Any, start: int) -> str:
        key = as_key(value)
        if key is None:
            raise _Unreadable(start, "a key must be text, a number or a boolean")
        return key

    def _merge(self, target: Map) -> None:
        """Add the keys of the mappings that `<<` names; the mapping's own keys win."""
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
        self._reading.repeated.append(RepeatedKey(key=key, first=first, second=second))

    def _trimmed(self, start: int, end: int) -> int:
        """The end of a block scalar without the blank lines after it."""
        text = self._chunk[start - self._base : end - self._base]
        return start + len(text.rstrip())

    def _past_properties(self, start: int) -> int:
        """Where the value itself starts, after its anchor and tag."""
        match = _PROPERTIES.match(self._chunk, start - self._base)
        assert match is not None
        return match.end() + self._base


@cache
def _yaml(*, needs_c: bool) -> Any:
    try:
        import yaml

        if needs_c and not yaml.__with_libyaml__:
            raise ImportError("PyYAML was built without its C parser.")
    except ImportError as error:
        raise PlanningPackageMissing("PyYAML with its C parser" if needs_c else "PyYAML") from error
    return yaml
