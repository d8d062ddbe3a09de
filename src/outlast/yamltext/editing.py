"""Change values in the text of YAML or JSON and leave everything else as it is.

A change names a path in the values, not a place in the text. It becomes a splice of the text that
keeps comments, order, quotes and layout. The new text is read again and must equal the old values
with exactly those changes, so the splices need not be trusted. What cannot be spliced, such as a
value that came by an alias, is refused with None.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from outlast.yamltext.nodes import Map, Path, Seq, get
from outlast.yamltext.reading import YamlContent, read
from outlast.yamltext.source import SourceText
from outlast.yamltext.writing import entry_lines, flow_text, item_lines, scalar_text

_KEPT_BLANK_LINES = re.compile(r"[|>]\d?\+")
_HEADER_COMMENT = re.compile(r"[|>][-+0-9]*[ \t]+(#[^\r\n]*)")


@dataclass(frozen=True, slots=True)
class Put:
    """Set the value at `path`: replace a scalar or an empty collection, or add a key.

    A new key goes after the key `after`, or at the end of its mapping.
    """

    path: Path
    value: Any
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the key or the item at `path`."""

    path: Path


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename the key at `path` and keep its value."""

    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class Append:
    """Add an item to the list at `path`."""

    path: Path
    value: Any


Change = Put | Remove | Rename | Append


@dataclass(frozen=True, kw_only=True, slots=True)
class Splice:
    """The text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str

    def touches(self, other: "Splice") -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes of one mapping that belong together, and the splices that make them."""

    root: Map
    changes: tuple[Change, ...]
    splices: tuple[Splice, ...]


def plan_revision(source: SourceText, root: Map, changes: Iterable[Change]) -> Revision | None:
    """The revision that makes all of the changes, None if one cannot be spliced."""
    listed = tuple(changes)
    splices = [splice_for(source, root, change) for change in listed]
    if not all(splices):
        return None
    return Revision(root, listed, tuple(one for one in splices if one))


def revised_text(
    source: SourceText, reading: YamlContent, revisions: Sequence[Revision]
) -> str | None:
    """The text with the revisions made, None if it would not read as exactly that.

    `reading` is what the text reads as now. Roots are its documents or the items of a List in it.
    """
    text = source.text
    splices = list(enumerate(one for revision in revisions for one in revision.splices))
    # From the end, and what is inserted at the same offset keeps its order.
    for _, splice in sorted(splices, key=lambda item: (item[1].start, item[0]), reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    try:
        expected = _expected(reading.documents, revisions)
    except (LookupError, TypeError):
        return None
    after = read(text)
    is_as_expected = (
        len(after.broken) == len(reading.broken)
        and len(after.repeated) <= len(reading.repeated)
        and after.documents == expected
    )
    return text if is_as_expected else None


def with_values(text: str, values: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The text of one mapping with `{part: {key: value}}` set in it.

    None if the text has to be changed by hand.
    """
    source, reading = SourceText(name="", text=text), read(text)
    if len(reading.documents) != 1 or not isinstance(reading.documents[0], Map):
        return None
    root = reading.documents[0]
    changes: list[Change] = []
    for part, given in values.items():
        if root.get(part):
            changes += [Put((part, key), value) for key, value in given.items()]
    # New parts go last, so that a key added to the last part stays in it.
    changes += [Put((part,), dict(given)) for part, given in values.items() if not root.get(part)]
    revision = plan_revision(source, root, changes)
    return None if revision is None else revised_text(source, reading, [revision])


def below(prefix: Path, change: Change) -> Change:
    """The same change, with its path relative to an ancestor."""
    return replace(change, path=(*prefix, *change.path))


def changed(root: Any, change: Change) -> Any:
    """A plain copy of `root` with the change made. Raises `LookupError` if it cannot be."""
    return _changed(root, change.path, change)


def plain(node: Any) -> Any:
    """A copy without positions."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
    return node


def splice_for(source: SourceText, root: Map, change: Change) -> Splice | None:
    """The splice for one change, None if there is none."""
    if isinstance(change, Append):
        target = get(root, change.path)
        return _append(source, target, change.value) if isinstance(target, Seq) else None
    parent, last = get(root, change.path[:-1]), change.path[-1]
    if isinstance(parent, Map) and last in parent.merged:
        return None
    match change:
        case Put(value=value, after=after):
            return _put(source, parent, last, value, after)
        case Remove() if isinstance(parent, Map) and isinstance(last, str):
            return _remove_key(source, parent, last)
        case Remove() if isinstance(parent, Seq) and isinstance(last, int):
            return _remove_item(source, parent, last)
        case Rename(key=key) if isinstance(parent, Map) and last in parent:
            start, end, _, _ = parent.spans[str(last)]
            is_json = source.text[start] == '"'
            return Splice(start=start, end=end, text=scalar_text(key, is_json=is_json))
    return None


def _put(
    source: SourceText, parent: Any, last: str | int, value: Any, after: str | None
) -> Splice | None:
    old = get(parent, (last,), parent)
    if old is parent:
        is_new_key = isinstance(parent, Map) and isinstance(last, str)
        return _insert(source, parent, str(last), value, after) if is_new_key else None
    if isinstance(old, (Map, Seq)) and not old and old.is_flow:
        return Splice(start=old.start, end=old.end, text=flow_text(value))
    if isinstance(old, (Map, Seq)) or isinstance(value, (dict, list)):
        return None
    if isinstance(parent, Map):
        _, key_end, start, end = parent.spans[str(last)]
        is_json = parent.is_flow and source.text[key_end - 1] == '"'
    else:
        start, end = parent.spans[int(last)]
        is_json = parent.is_flow and source.text[start] == '"'
    # An empty value is null, so a space has to separate the new value from the colon.
    lead = " " if start == end and source.text[start - 1 : start] not in (" ", "\t") else ""
    text = lead + scalar_text(value, is_json=is_json)
    # The comment of a block scalar is on the line of its header.
    header = _HEADER_COMMENT.match(source.text, start, end)
    return Splice(start=start, end=end, text=f"{text}  {header[1]}" if header else text)


def _insert(
    source: SourceText, parent: Map, key: str, value: Any, after: str | None
) -> Splice | None:
    own = [name for name in parent.spans if name not in parent.merged]
    if not own:
        if not parent.is_flow:
            return None
        at = parent.start + 1
        return Splice(start=at, end=at, text=f"{scalar_text(key)}: {flow_text(value)}")
    anchor = after if after in own else own[-1]
    key_start, key_end, start, end = parent.spans[anchor]
    if parent.is_flow:
        is_json = source.text[key_start] == '"'
        lead = _line_lead(source, key_start)
        name = scalar_text(key, is_json=is_json)
        glue = ", " if lead is None else "," + source.newline + lead
        text = f"{glue}{name}: {flow_text(value, is_json=is_json)}"
        end = max(end, key_end)
        return Splice(start=end, end=end, text=text)
    _, column = source.position(key_start)
    value_end = _with_blank_lines(source, start, max(end, key_end))
    return _below(source, value_end, entry_lines(key, value), column - 1)


def _append(source: SourceText, target: Seq, value: Any) -> Splice | None:
    if not target.spans:
        if not target.is_flow:
            return None
        at = target.start + 1
        return Splice(start=at, end=at, text=flow_text(value))
    start, end = target.spans[-1]
    if target.is_flow:
        is_json = source.text[target.spans[0][0]] in '"{['
        return Splice(start=end, end=end, text=", " + flow_text(value, is_json=is_json))
    _, column = source.position(target.start)
    return _below(source, max(start, end), item_lines(value), column - 1)


def _below(source: SourceText, offset: int, lines: list[str], indent: int) -> Splice:
    """New lines below the one that contains `offset`."""
    line, _ = source.position(offset)
    _, at = source.line_bounds(line)
    text = "".join(source.newline + " " * indent + one for one in lines)
    return Splice(start=at, end=at, text=text)


def _with_blank_lines(source: SourceText, start: int, end: int) -> int:
    """The end of a value, after the blank lines that a block scalar with `+` keeps."""
    if not _KEPT_BLANK_LINES.match(source.text, start):
        return end
    line, _ = source.position(end)
    # The last line has no line break to insert after.
    while line + 1 < source.line_count and not source.line_text(line + 1).strip():
        line += 1
    return source.line_bounds(line)[1]


def _remove_key(source: SourceText, parent: Map, key: str) -> Splice | None:
    own = [name for name in parent.spans if name not in parent.merged]
    if key not in own or len(own) == 1:
        return None
    index = own.index(key)
    key_start, key_end, _, end = parent.spans[key]
    if parent.is_flow:
        spans = [(parent.spans[name][0], parent.spans[name][3]) for name in own]
        return _remove_from_flow(source, spans, index)
    if _line_lead(source, key_start) is not None:
        return _remove_lines(source, key_start, max(end, key_end))
    # The first key of a list item is on the line of the dash: the next key takes its place.
    following = parent.spans[own[index + 1]][0] if index + 1 < len(own) else None
    if following is None or "#" in source.text[max(end, key_end) : following]:
        return None
    return Splice(start=key_start, end=following, text="")


def _remove_item(source: SourceText, parent: Seq, index: int) -> Splice | None:
    if not 0 <= index < len(parent) or len(parent) == 1:
        return None
    if parent.is_flow:
        return _remove_from_flow(source, parent.spans, index)
    start, end = parent.spans[index]
    line, column = source.position(start)
    before = source.line_text(line)[: column - 1]
    # Only a plain `- item` on a line of its own can be removed cleanly.
    return _remove_lines(source, start, end) if before.strip() == "-" else None


def _remove_from_flow(
    source: SourceText, spans: list[tuple[int, int]], index: int
) -> Splice | None:
    if index + 1 < len(spans):
        start, end, kept = spans[index][0], spans[index + 1][0], spans[index][1]
    else:
        start, end, kept = spans[index - 1][1], spans[index][1], spans[index - 1][1]
    # A comment between two entries would be lost.
    between = source.text[kept : end if index + 1 < len(spans) else spans[index][0]]
    return None if "#" in between else Splice(start=start, end=end, text="")


def _remove_lines(source: SourceText, start: int, end: int) -> Splice:
    first, _ = source.position(start)
    last, _ = source.position(end)
    begin, finish = source.line_bounds(first)
    comment = source.text[end:finish].strip() if first == last else ""
    if comment.startswith("#"):
        # The comment on the line stays, because its author may still need it.
        lead = source.text[begin:start]
        return Splice(
            start=begin, end=finish, text=lead[: len(lead) - len(lead.lstrip())] + comment
        )
    if last < source.line_count:
        return Splice(start=begin, end=source.line_bounds(last + 1)[0], text="")
    return Splice(start=max(0, begin - len(source.newline)), end=len(source.text), text="")


def _line_lead(source: SourceText, offset: int) -> str | None:
    """The indentation before `offset` on its line, None if there is anything else."""
    line, column = source.position(offset)
    lead = source.line_text(line)[: column - 1]
    return lead if not lead.strip() else None


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


def _expected(documents: list[Any], revisions: Sequence[Revision]) -> list[Any]:
    changes: dict[int, list[Change]] = {}
    for revision in revisions:
        changes.setdefault(id(revision.root), []).extend(revision.changes)
    return [_with_changes(document, changes) for document in documents]


def _with_changes(node: Any, changes: dict[int, list[Change]]) -> Any:
    """A plain copy of a document. The roots are the document itself or the items of its List."""
    if isinstance(node, Map) and id(node) in changes:
        result: Any = plain(node)
        # Items are removed last and from the end, so that the others keep their index.
        for change in sorted(changes[id(node)], key=_order):
            result = changed(result, change)
        return result
    if isinstance(node, Map) and isinstance(node.get("items"), list):
        items = [_with_changes(item, changes) for item in node["items"]]
        return {**plain(node), "items": items}
    return plain(node)


def _order(change: Change) -> tuple[int, int]:
    match change:
        case Put() | Append():
            return (0, 0)
        case Rename():
            return (1, 0)
        case Remove(path=(*_, int(last))):
            return (3, -last)
        case Remove():
            return (2, 0)
