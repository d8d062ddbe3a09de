"""Cut a shell script into its commands and words, each with its place.

Enough of the shell for scripts that create node pools: quotes, line continuations, comments, here
documents, and variables that the script itself has set. What it cannot follow (a command's output,
an array, a variable from outside) stays in the word as it is written. Nothing is run.
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
class Word:
    """A word as the command would get it, and where it stands."""

    text: str
    start: int
    end: int


def commands(text: str) -> Iterator[list[Word]]:
    """The simple commands of a script, in order."""
    variables: dict[str, str] = {}
    words: list[Word] = []
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


def _word(text: str, start: int, variables: dict[str, str]) -> Word:
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
            # A backslash before a line end joins the lines, inside a word too.
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
    # A redirection such as `<` alone would never end.
    end = max(min(index, len(text)), start + 1)
    return Word(text="".join(parts), start=start, end=end)


def _quoted(text: str, index: int, variables: dict[str, str]) -> tuple[int, str]:
    """The inside of double quotes, and where it goes on behind them."""
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


def _remember(words: list[Word], variables: dict[str, str]) -> None:
    """Keeps what a command of assignments alone sets."""
    given = [w for w in words if w.text not in ("export", "readonly", "local", "declare")]
    if all(_ASSIGNMENT.match(word.text) for word in given):
        for word in given:
            name, _, value = word.text.partition("=")
            variables[name] = value


def _past_documents(text: str, index: int, names: list[str]) -> int:
    """Behind the here documents that start at `index`."""
    for name in names:
        match = re.compile(rf"^\t*{re.escape(name)}\r?$", re.MULTILINE).search(text, index)
        if match is None:
            return len(text)
        index = match.end()
    return index


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end
