"""Shows a drill while it goes on: a picture on a terminal, elsewhere a line for what counts.

What cannot be shown, because whoever watched has gone, never disturbs the drill.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from outlast._base.durations import format_duration
from outlast.drill import events
from outlast.drill.board import outcome_of
from outlast.drill.events import DrillEvent, Listener
from outlast.drill.schedule import EVICTIONS_MAX


@contextlib.contextmanager
def watching(stream: TextIO | None = None) -> Iterator[Listener]:
    """A listener for a drill that shows it on `stream`, by default on stderr."""
    stream = sys.stderr if stream is None else stream
    if stream is None:
        # Whoever closed stderr wants to hear nothing.
        yield events.ignore
        return
    if not _draws(stream):
        yield lambda event: _print(event, stream)
        return
    # Only here, because it takes a while to import and most drills run where nobody watches.
    from outlast.drill.screen import drawing

    with drawing(stream) as listener:
        yield listener


def line_of(event: DrillEvent) -> str | None:
    """What is worth a line in a log; None for the rest."""
    match event:
        case events.LegStarted(evictions_planned=0):
            said = "running undisturbed ..."
        case events.LegStarted():
            # With a rate alone, it goes on until the job is done.
            is_open = event.evictions_planned == EVICTIONS_MAX
            number = "" if is_open else f"{event.evictions_planned:,} "
            said = f"running with {number}evictions ..."
        case events.EvictionSent():
            what = "SIGTERM" if event.notice else "no notice"
            said = f"eviction {event.number} of attempt {event.attempt}: {what}"
        case events.AttemptEnded(eviction=None):
            said = f"attempt {event.attempt.number} {outcome_of(event.attempt, None)}"
        case events.AttemptEnded() if event.eviction is not None and event.eviction.notice:
            said = f"attempt {event.attempt.number} {outcome_of(event.attempt, event.eviction)}"
        case events.LegFinished():
            leg = event.record
            said = f"{leg.end.value}, {len(leg.saves):,} saves"
        case _:
            return None
    return f"[{event.leg} {format_duration(event.at_seconds):>7}] {said}"


def _draws(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _print(event: DrillEvent, stream: TextIO) -> None:
    line = line_of(event)
    if line is not None:
        # A closed pipe is an OSError, a closed file a ValueError.
        with contextlib.suppress(OSError, ValueError):
            stream.write(f"{line}\n")
            stream.flush()
