"""Shows a drill while it runs: a live picture on a terminal, log lines elsewhere.

A stream that has been closed never disturbs the drill. If killed: the last picture stays on the
terminal, and the cursor may be hidden.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from outlast._base.durations import format_duration
from outlast.drills.live.board import ASCII, UNICODE, LiveBoard, outcome_of
from outlast.drills.run import events
from outlast.drills.run.events import DrillEvent, Listener
from outlast.drills.run.schedule import EVICTIONS_MAX

# rich is imported only to draw, because that is slow and most drills run without a terminal.
if TYPE_CHECKING:
    from rich.console import Console, Group

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
def watching(stream: TextIO | None = None) -> Iterator[Listener]:
    """A listener that shows a drill on `stream`, by default on stderr."""
    stream = sys.stderr if stream is None else stream
    if stream is None:
        # stderr was closed, so there is nothing to show.
        yield events.ignore
        return
    if not _draws(stream):
        yield lambda event: _print(event, stream)
        return
    with _drawing(stream) as listener:
        yield listener


def line_of(event: DrillEvent) -> str | None:
    """The log line for an event; None if it is not worth one."""
    match event:
        case events.JobRunStarted(evictions_planned=0):
            said = "running without evictions ..."
        case events.JobRunStarted():
            # With a rate alone, evictions continue until the job is done.
            is_open = event.evictions_planned == EVICTIONS_MAX
            number = "" if is_open else f"{event.evictions_planned:,} "
            said = f"running with {number}evictions ..."
        case events.EvictionSent():
            what = "SIGTERM" if event.notice else "no notice"
            node = "" if event.node is None else f", node {event.node}"
            said = f"eviction {event.number} of attempt {event.attempt}{node}: {what}"
        case events.AttemptEnded(eviction=None):
            said = f"attempt {event.attempt.number} {outcome_of(event.attempt, None)}"
        case events.AttemptEnded() if event.eviction is not None and event.eviction.notice:
            said = f"attempt {event.attempt.number} {outcome_of(event.attempt, event.eviction)}"
        case events.JobRunFinished():
            job_run = event.record
            said = f"{job_run.end.value}, {_counted(len(job_run.saves), 'save')}"
        case _:
            return None
    return f"[{event.job_run} {format_duration(event.at_seconds):>7}] {said}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _draws(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _print(event: DrillEvent, stream: TextIO) -> None:
    line = line_of(event)
    if line is not None:
        # A closed pipe is an OSError, a closed file a ValueError.
        with contextlib.suppress(OSError, ValueError):
            stream.write(f"{line}\n")
            stream.flush()


@contextlib.contextmanager
def _drawing(stream: TextIO) -> Iterator[Listener]:
    """A listener that draws a drill while it runs, and leaves one line for each run."""
    from rich.console import Console
    from rich.live import Live

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
    """Gets events on the thread of the drill, and draws on the thread of rich."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._glyphs = UNICODE if console.encoding.startswith("utf") else ASCII
        self._board = LiveBoard()
        self._began = time.monotonic()
        self._is_over = True
        self._lock = threading.Lock()

    def listen(self, event: DrillEvent) -> None:
        with self._lock:
            if isinstance(event, events.JobRunStarted):
                self._began = time.monotonic() - event.at_seconds
            self._is_over = isinstance(event, events.JobRunFinished)
            self._board.apply(event)
        if isinstance(event, events.JobRunFinished):
            self._console.print(_summary(event))

    def picture(self) -> "Group":
        from rich.console import Group
        from rich.text import Text

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


def _summary(event: events.JobRunFinished) -> str:
    job_run = event.record
    said = f"{job_run.name}: {job_run.end.value} after {format_duration(job_run.seconds)}"
    if job_run.evictions:
        said += f", {_counted(len(job_run.evictions), 'eviction')}"
        said += f", {_counted(len(job_run.attempts), 'attempt')}"
    return f"{said}, {_counted(len(job_run.saves), 'save')}"
