"""The losses of machines in a trace, as a drill replays them. `capacity` reads the file."""

from bisect import bisect_right
from collections import Counter
from pathlib import Path

from outlast.capacity.traces import Trace, TraceError, read_trace
from outlast.drill.errors import DrillError
from outlast.drill.schedule import EVICTIONS_MAX, Loss


def read_losses(path: Path, *, workers: int = 1) -> list[Loss]:
    """The losses in a trace, from its first machine on. Raises `DrillError` if there are none."""
    try:
        losses = losses_of(read_trace(path), workers=workers)
    except TraceError as error:
        raise DrillError(str(error), hint=error.hint) from error
    if not losses:
        raise DrillError(
            f"No machine is ever lost in the trace {str(path)!r}.",
            hint="Take another trace, or use --evictions.",
        )
    return losses


def losses_of(trace: Trace, *, workers: int) -> list[Loss]:
    """What is lost at one time costs every worker a node at most.

    If no machine is left, the outage lasts until the next one comes. It has no length if none does.
    """
    starts = sorted(life.start_seconds for life in trace.lives)
    ends = sorted(life.end_seconds for life in trace.lives)
    lost = Counter(life.end_seconds for life in trace.lives if life.lost)
    losses: list[Loss] = []
    for at_seconds, count in sorted(lost.items()):
        came = bisect_right(starts, at_seconds)
        is_empty = came == bisect_right(ends, at_seconds)
        back_seconds = starts[came] if is_empty and came < len(starts) else at_seconds
        loss = Loss(at_seconds=at_seconds - starts[0], outage_seconds=back_seconds - at_seconds)
        losses += [loss] * min(count, workers)
    return losses[:EVICTIONS_MAX]
