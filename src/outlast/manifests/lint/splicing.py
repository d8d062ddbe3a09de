"""Turn a change of an object into a splice of its text, which leaves everything else as it is.

Comments, order, quotes and layout stay. What cannot be spliced (a value that came by an alias, a
new key in nothing) gives None, and so no fix. Whether the text then reads as it should is checked
by `fixing`, so that nothing here needs to be trusted.
"""

from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.changes import Append, Change, Put, Remove, Rename
from outlast.manifests.lint.emitting import entry_lines, flow_text, item_lines, scalar_text
from outlast.manifests.lint.nodes import Map, Seq, get
from outlast.manifests.lint.source import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """The text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


def edit_for(source: Source, root: Map, change: Change) -> Edit | None:
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
            return Edit(start=start, end=end, text=scalar_text(key, is_json=is_json))
    return None


def _put(
    source: Source, parent: Any, last: str | int, value: Any, after: str | None
) -> Edit | None:
    old = get(parent, (last,), parent)
    if old is parent:
        is_new_key = isinstance(parent, Map) and isinstance(last, str)
        return _insert(source, parent, str(last), value, after) if is_new_key else None
    if isinstance(old, (Map, Seq)) or isinstance(value, (dict, list)):
        return None
    if isinstance(parent, Map):
        _, key_end, start, end = parent.spans[str(last)]
        is_json = parent.is_flow and source.text[key_end - 1] == '"'
    else:
        start, end = parent.spans[int(last)]
        is_json = parent.is_flow and source.text[start] == '"'
    # Nothing written reads as null; a space parts the new value from the colon.
    lead = " " if start == end and source.text[start - 1 : start] not in (" ", "\t") else ""
    return Edit(start=start, end=end, text=lead + scalar_text(value, is_json=is_json))


def _insert(source: Source, parent: Map, key: str, value: Any, after: str | None) -> Edit | None:
    own = [name for name in parent.spans if name not in parent.merged]
    if not own:
        if not parent.is_flow:
            return None
        at = parent.start + 1
        return Edit(start=at, end=at, text=f"{scalar_text(key)}: {flow_text(value)}")
    anchor = after if after in own else own[-1]
    key_start, key_end, _, end = parent.spans[anchor]
    if parent.is_flow:
        is_json = source.text[key_start] == '"'
        lead = _line_lead(source, key_start)
        name = scalar_text(key, is_json=is_json)
        glue = ", " if lead is None else "," + source.newline + lead
        text = f"{glue}{name}: {flow_text(value, is_json=is_json)}"
        end = max(end, key_end)
        return Edit(start=end, end=end, text=text)
    _, column = source.position(key_start)
    return _below(source, max(end, key_end), entry_lines(key, value), column - 1)


def _append(source: Source, target: Seq, value: Any) -> Edit | None:
    if not target.spans:
        if not target.is_flow:
            return None
        at = target.start + 1
        return Edit(start=at, end=at, text=flow_text(value))
    start, end = target.spans[-1]
    if target.is_flow:
        is_json = source.text[target.spans[0][0]] in '"{['
        return Edit(start=end, end=end, text=", " + flow_text(value, is_json=is_json))
    _, column = source.position(target.start)
    return _below(source, max(start, end), item_lines(value), column - 1)


def _below(source: Source, offset: int, lines: list[str], indent: int) -> Edit:
    """New lines under the one that `offset` ends in."""
    line, _ = source.position(offset)
    _, at = source.line_bounds(line)
    text = "".join(source.newline + " " * indent + one for one in lines)
    return Edit(start=at, end=at, text=text)


def _remove_key(source: Source, parent: Map, key: str) -> Edit | None:
    own = [name for name in parent.spans if name not in parent.merged]
    if key not in own or len(own) == 1:
        return None
    index = own.index(key)
    key_start, key_end, _, end = parent.spans[key]
    if parent.is_flow:
        spans = [(parent.spans[name][0], parent.spans[name][3]) for name in own]
        return _remove_from_flow(spans, index)
    if _line_lead(source, key_start) is not None:
        return _remove_lines(source, key_start, max(end, key_end))
    # The first key of a list's item shares its line with the dash: the next key takes its place.
    following = parent.spans[own[index + 1]][0] if index + 1 < len(own) else None
    if following is None or "#" in source.text[max(end, key_end) : following]:
        return None
    return Edit(start=key_start, end=following, text="")


def _remove_item(source: Source, parent: Seq, index: int) -> Edit | None:
    if not 0 <= index < len(parent) or len(parent) == 1:
        return None
    if parent.is_flow:
        return _remove_from_flow(parent.spans, index)
    start, end = parent.spans[index]
    line, column = source.position(start)
    before = source.line_text(line)[: column - 1]
    # Only a plain `- item` in a line of its own can go without a trace.
    return _remove_lines(source, start, end) if before.strip() == "-" else None


def _remove_from_flow(spans: list[tuple[int, int]], index: int) -> Edit:
    if index + 1 < len(spans):
        return Edit(start=spans[index][0], end=spans[index + 1][0], text="")
    return Edit(start=spans[index - 1][1], end=spans[index][1], text="")


def _remove_lines(source: Source, start: int, end: int) -> Edit:
    first, _ = source.position(start)
    last, _ = source.position(end)
    begin, _ = source.line_bounds(first)
    if last < source.line_count:
        return Edit(start=begin, end=source.line_bounds(last + 1)[0], text="")
    return Edit(start=max(0, begin - len(source.newline)), end=len(source.text), text="")


def _line_lead(source: Source, offset: int) -> str | None:
    """The blanks before `offset` in its line; None if something else stands there."""
    line, column = source.position(offset)
    lead = source.line_text(line)[: column - 1]
    return lead if not lead.strip() else None
