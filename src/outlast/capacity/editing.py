"""Change values in the text of a YAML file, and leave everything else as it stands.

Pure: a text in, a text out. What comes out is read again, and must say what it said before but for
the changes. A text that is written in a way this cannot follow, such as with aliases, is refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from outlast.capacity.errors import WorkloadError
from outlast.capacity.reading import Node, read_yaml

_SCALAR = re.compile(r"'[^']*'|\"[^\"]*\"|[^,}\]#\r\n]*?(?=\s*(?:[,}\]#]|$))")


class _Edit(NamedTuple):
    """Put `text` in place of what stands between two columns of a line; all count from 0."""

    row: int
    start: int
    end: int
    text: str


def edited(text: str, changes: Mapping[str, Mapping[str, str]], *, name: str) -> str | None:
    """The text with `{part: {key: value}}` in it; None if it has to be changed by hand."""
    tree = read_yaml(text, source=name)
    lines = text.splitlines(keepends=True)
    edits = [edit for part in changes for edit in _edits(tree, lines, part, changes[part])]
    # From the end, so that what stands before an edit stays where it was.
    for edit in sorted(edits, reverse=True):
        line = lines[edit.row]
        lines[edit.row] = line[: edit.start] + edit.text + line[edit.end :]
    result = "".join(lines)
    try:
        found = read_yaml(result, source=name).plain()
    except WorkloadError:
        return None
    return result if found == _expected(tree, changes) else None


def _edits(tree: Node, lines: list[str], part: str, values: Mapping[str, str]) -> Iterator[_Edit]:
    node, _ = tree.find((part,))
    if node is None and _is_flow(tree, lines):
        yield _added_in_flow(tree, f"{part}: {{{_listed(values)}}}")
    elif node is None:
        yield _added_at_end(tree, lines, part, values)
    elif isinstance(node.value, dict):
        there = node.value
        for key in there.keys() & values.keys():
            yield _replaced(there[key].node, lines, values[key])
        new = {key: value for key, value in values.items() if key not in there}
        if new and _is_flow(node, lines):
            yield _added_in_flow(node, _listed(new))
        elif new:
            last = max(_row(entry.node) for entry in there.values())
            indent = " " * _column(node)
            yield _added_below(last, lines, [f"{indent}{key}: {new[key]}" for key in new])


def _replaced(node: Node, lines: list[str], value: str) -> _Edit:
    row, column = _row(node), _column(node)
    match = _SCALAR.match(lines[row], column)
    end = match.end() if match else column
    # A key without a value has no space behind it yet.
    return _Edit(row, column, end, value if end > column else f" {value}")


def _added_in_flow(node: Node, pairs: str) -> _Edit:
    column = _column(node) + 1
    return _Edit(_row(node), column, column, f"{pairs}, " if node.value else pairs)


def _added_at_end(tree: Node, lines: list[str], part: str, values: Mapping[str, str]) -> _Edit:
    ends = (row for row, line in enumerate(lines) if re.match(r"\.\.\.\s", line + "\n"))
    indent = " " * _column(tree)
    block = [f"{indent}{part}:", *(f"{indent}  {key}: {values[key]}" for key in values)]
    return _added_below(next(ends, len(lines)) - 1, lines, block)


def _added_below(row: int, lines: list[str], block: list[str]) -> _Edit:
    end = len(lines[row].rstrip("\r\n"))
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    return _Edit(row, end, end, "".join(f"{newline}{line}" for line in block))


def _expected(tree: Node, changes: Mapping[str, Mapping[str, str]]) -> object:
    plain = tree.plain()
    if isinstance(plain, dict):
        for part, values in changes.items():
            there = plain.get(part, {})
            plain[part] = {**there, **values} if isinstance(there, dict) else dict(values)
    return plain


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in values.items())


def _is_flow(node: Node, lines: list[str]) -> bool:
    return lines[_row(node)][_column(node) :].startswith("{")


def _row(node: Node) -> int:
    return (node.mark.line or 1) - 1


def _column(node: Node) -> int:
    return (node.mark.column or 1) - 1
