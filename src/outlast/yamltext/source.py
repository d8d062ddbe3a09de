"""A text and places in it.

Offsets count characters. Lines and columns count from 1, as in editors; a line ends with a line
feed, a carriage return or both.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\n|\r")
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceText:
    """The text of a file, or of standard input (then `path` is None).

    `byte_mark` is the byte order mark before the text, usually empty.
    """

    name: str
    text: str
    path: Path | None = None
    encoding: str = "utf-8"
    byte_mark: bytes = b""

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        start, end = self.line_bounds(line)
        return self.text[start:end]

    def line_bounds(self, line: int) -> tuple[int, int]:
        """The offsets of a line without its line ending."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start, start + len(self.text[start:end].rstrip("\r\n"))

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def to_bytes(self, text: str) -> bytes:
        """Another text, encoded like this one."""
        return self.byte_mark + text.encode(self.encoding)

    @cached_property
    def _starts(self) -> list[int]:
        if "\r" in self.text:
            return [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        lengths = (len(line) + 1 for line in self.text.split("\n")[:-1])
        return list(accumulate(lengths, initial=0))

    @cached_property
    def newline(self) -> str:
        """Its line ending, which inserted lines get too."""
        match = _LINE_END.search(self.text)
        return match[0] if match else "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSpan:
    """The characters from `start` up to, not including, `end` of a source."""

    source: SourceText = field(repr=False)
    start: int
    end: int


def decode(data: bytes, *, name: str, path: Path | None = None) -> tuple[SourceText, int | None]:
    """The text in `data`: UTF-8, or UTF-16 with a byte order mark.

    The second value is the offset of the first invalid bytes, None if all are valid.
    """
    mark, encoding = next((m for m in _MARKS if data.startswith(m[0])), (b"", "utf-8"))
    body = data[len(mark) :]
    wrong = None
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        wrong = len(body[: error.start].decode(encoding))
        text = body.decode(encoding, errors="replace")
    return SourceText(name=name, text=text, path=path, encoding=encoding, byte_mark=mark), wrong
