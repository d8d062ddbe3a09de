"""All output of commands goes through here: without secrets, and with control characters escaped.

Much of it comes from outside: keys and errors from a queue, names from a store, output of another
program. rich is imported on first use, because not every command needs it.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from outlast._base.terminal import escaped
from outlast._redact import redact

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """How to print a result."""

    TEXT = "text"
    JSON = "json"


def say(*values: object, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Print values as `print` does, without secrets, and control characters escaped."""
    print(escaped(redact(" ".join(map(str, values)))), end=end, file=file, flush=flush)


def say_json(value: object, *, indent: int | None = None, flush: bool = False) -> None:
    """Print JSON as ASCII. JSON escapes all other characters itself."""
    print(json.dumps(value, indent=indent), flush=flush)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> None:
    """Print a table as plain lines, as wide as needed: no value is truncated or wrapped.

    The first `words` columns are left-aligned, the others right.
    """
    head = [escaped(cell, keep="") for cell in head]
    rows = [[escaped(cell, keep="") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if index < words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())


def write_document(text: str) -> None:
    """Write a patch, manifest or table for other programs. Escaped only on a terminal."""
    sys.stdout.write(escaped(text) if sys.stdout.isatty() else text)


def console(*, stderr: bool = False) -> "Console":
    """A rich console that prints text literally, without markup or control characters."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            # Every string that rich shows or measures, in a table or alone, passes through here.
            return super().render_str(escaped(text), **options)

        def on_broken_pipe(self) -> None:
            # rich would exit with 1, which means findings or a failed drill.
            raise BrokenPipeError

    return PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """A progress bar on stderr, if that is a terminal. Yields a function that advances it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def make_streams_safe() -> None:
    """Escape what the encoding of stdout cannot represent, as Python does for stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
