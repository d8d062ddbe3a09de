"""Split a shell script into commands and words with their positions.

Supports what scripts that create node pools use: quotes, line continuations, comments, here
documents, and variables that the script sets itself. Anything else (command substitution, arrays,
environment variables) stays in the word as written. Nothing is run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(r"(?:[ \t]|\\\r?\n)+")
_ENDS = re.compile(r"[\r\n;&|()]+")
_HERE = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)['\"]?")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^{}$]*))?\})")
_ASSIGNMENT = re.compile(r"(?:export |readonly |local )?([A-Za-z_]\w*)=")
_WORD_ENDS = frozenset(" \t\r\n;&|()")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellWord:
    """A word as the command receives it, and its position."""

    text: str
    start: int
    end: int


def commands(text: str) -> Iterator[list[ShellWord]]:
    """The simple commands of a script, in order."""
    variables: dict[str, str] = {}
    words: list[ShellWord] = []
    waiting: list[str] = []
    index = 0
    while index < len(text):
        space = _SPACE.match(text, index)
        if space:
            index = space.end()
            continue
        if text[index] == "#":
            index = _line_end(text, index)
            continue
        ends = _ENDS.match(text, index)
        if ends:
            _remember(words, variables)
            if words:
                yield words
            words = []
            index = ends.end()
            if waiting and "\n" in ends[0]:
                index = _past_documents(text, index, waiting)
                waiting = []
            continue
        here = _HERE.match(text, index)
        if here:
            waiting.append(here[2])
            index = here.end()
            continue
        word = _word(text, index, variables)
        words.append(word)
        index = word.end
    _remember(words, variables)
    if words:
        yield words


def _word(text: str, start: int, variables: dict[str, str]) -> ShellWord:
    parts: list[str] = []
    index = start
    while index < len(text) and text[index] not in _WORD_ENDS:
        character = text[index]
        if character == "'":
            end = text.find("'", index + 1)
            end = len(text) if end < 0 else end
            parts.append(text[index + 1 : end])
            index = end + 1
        elif character == '"':
            index, inner = _quoted(text, index + 1, variables)
            parts.append(inner)
        elif character == "\\":
            # A backslash before a line end joins the lines, even inside a word.
            skipped = 3 if text.startswith("\\\r\n", index) else 2
            kept = text[index + 1 : index + 2]
            parts.append("" if kept in ("\n", "\r") else kept)
            index += skipped
        elif character == "$":
            index, inner = _expanded(text, index, variables)
            parts.append(inner)
        else:
            parts.append(character)
            index += 1
    # Otherwise a redirection such as a single `<` would never end.
    end = max(min(index, len(text)), start + 1)
    return ShellWord(text="".join(parts), start=start, end=end)


def _quoted(text: str, index: int, variables: dict[str, str]) -> tuple[int, str]:
    """The content of double quotes, and the offset after them."""
    parts: list[str] = []
    while index < len(text) and text[index] != '"':
        if text[index] == "\\" and index + 1 < len(text):
            kept = text[index + 1]
            parts.append("" if kept == "\n" else kept if kept in '"\\$`' else "\\" + kept)
            index += 2
        elif text[index] == "$":
            index, inner = _expanded(text, index, variables)
            parts.append(inner)
        else:
            parts.append(text[index])
            index += 1
    return index + 1, "".join(parts)


def _expanded(text: str, index: int, variables: dict[str, str]) -> tuple[int, str]:
    match = _VARIABLE.match(text, index)
    if match:
        name = match[1] or match[2]
        default = match[3] if match[3] is not None else match[0]
        return match.end(), variables.get(name, default)
    if text.startswith("$(", index):
        end = _closing(text, index + 1)
        return end, text[index:end]
    return index + 1, "$"


def _closing(text: str, index: int) -> int:
    depth = 0
    for position in range(index, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    return len(text)


def _remember(words: list[ShellWord], variables: dict[str, str]) -> None:
    """Store the variables of a command that only assigns."""
    given = [w for w in words if w.text not in ("export", "readonly", "local", "declare")]
    if all(_ASSIGNMENT.match(word.text) for word in given):
        for word in given:
            name, _, value = word.text.partition("=")
            variables[name] = value


def _past_documents(text: str, index: int, names: list[str]) -> int:
    """The offset after the here documents that start at `index`."""
    for name in names:
        match = re.compile(rf"^\t*{re.escape(name)}\r?$", re.MULTILINE).search(text, index)
        if match is None:
            return len(text)
        index = match.end()
    return index


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end
