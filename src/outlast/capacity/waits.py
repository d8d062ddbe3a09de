"""How long a run waits for the next machine, as a trace shows it. Pure."""

from outlast.capacity.replay import Pool
from outlast.capacity.traces import Trace


def mean_wait_in(trace: Trace) -> float:
    """The mean seconds from the loss of a machine to the next that can be had.

    A pool often has another one at once. What is still waited for when the trace ends counts as
    time, but not as an end of waiting.
    """
    pool = Pool(trace)
    waited_seconds, ended = 0.0, 0
    for life in trace.lives:
        if life.lost:
            found = pool.next_chance(life.end_seconds)
            ended += found is not None
            until = trace.seconds if found is None else found
            waited_seconds += until - life.end_seconds
    return waited_seconds / max(1, ended)
