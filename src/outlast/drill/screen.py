"""Draws the board of a drill on a terminal, again and again, in place. The one file that uses rich.

If killed: the last picture stays on the screen, and the cursor may be hidden.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from outlast._base.durations import format_duration
from outlast.drill.board import ASCII, UNICODE, Board
from outlast.drill.events import DrillEvent, LegFinished, LegStarted, Listener

_PICTURES_PER_SECOND = 3
_ROWS_MAX = 24
_STYLES = {
    "start": "blue",
    "work": "bold blue",
    "grace": "bold yellow",
    "lost": "bold red",
    "save": "bold green",
    "good": "bold green",
    "quiet": "dim",
}


@contextlib.contextmanager
def drawing(stream: TextIO) -> Iterator[Listener]:
    """A listener that shows a drill while it goes on. One line for each leg stays in the end."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    screen = _Screen(console)
    with Live(
        get_renderable=screen.picture,
        console=console,
        refresh_per_second=_PICTURES_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield screen.listen


class _Screen:
    """Events come from the thread of the drill, pictures are made in that of rich."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._glyphs = UNICODE if console.encoding.startswith("utf") else ASCII
        self._board = Board()
        self._began = time.monotonic()
        self._is_over = True
        self._lock = threading.Lock()

    def listen(self, event: DrillEvent) -> None:
        with self._lock:
            if isinstance(event, LegStarted):
                self._began = time.monotonic() - event.at_seconds
            self._is_over = isinstance(event, LegFinished)
            self._board.apply(event)
        if isinstance(event, LegFinished):
            self._console.print(_summary(event))

    def picture(self) -> Group:
        with self._lock:
            if self._is_over:
                return Group()
            lines = self._board.lines(
                now=time.monotonic() - self._began,
                width=self._console.width,
                rows=min(_ROWS_MAX, self._console.height - 1),
                glyphs=self._glyphs,
            )
        return Group(*(Text.assemble(*map(_styled, line), no_wrap=True) for line in lines))


def _styled(span: tuple[str, str]) -> tuple[str, str]:
    text, style = span
    return text, _STYLES.get(style, "")


def _summary(event: LegFinished) -> str:
    leg = event.record
    said = f"{leg.name}: {leg.end.value} after {format_duration(leg.seconds)}"
    if leg.evictions:
        said += f", {len(leg.evictions):,} evictions, {len(leg.attempts):,} attempts"
    return f"{said}, {len(leg.saves):,} saves"
