"""Ends the process before it is killed: the last callbacks, a flush, the exit code."""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from outlast.interruption.standby import Standby

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """When the process leaves by itself, with which code, and how long its last acts may take."""

    at: float
    code: int
    seconds_max: float


class Exit:
    """The way out, made ready in advance: one thread for the last acts, one for the log.

    Either may hang, on a lock or on a pipe that nobody reads, and must not keep the other.
    """

    def __init__(self) -> None:
        self._actor = Standby("outlast-last-acts")
        self._speaker = Standby("outlast-last-words")

    def leave(
        self, departure: Departure, why: str, last_acts: Sequence[Callable[[], object]]
    ) -> NoReturn:
        """Run what must still happen and end this process, whatever its other threads do."""
        try:
            end = time.monotonic() + departure.seconds_max
            acts = [self._actor.do(act) for act in last_acts]
            spoken = self._speaker.do(lambda: log.warning(why))
            for done in (*acts, spoken):
                done.wait(max(0.0, end - time.monotonic()))
            # Once more, for what the last acts have printed.
            self._speaker.do(_flush).wait(max(0.0, end - time.monotonic()))
        finally:
            # Only this ends a process whose main thread sits in a call that does not return.
            os._exit(departure.code)

    def close(self) -> None:
        self._actor.close()
        self._speaker.close()

    def join(self, seconds_max: float) -> None:
        self._actor.join(seconds_max)
        self._speaker.join(seconds_max)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A program may have closed its streams, or have none.
        if stream is not None and not stream.closed:
            stream.flush()
    logging.shutdown()
