"""Ends the process before it is killed: the last callbacks, a flush, the exit code."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """When the process leaves by itself, with which code, and how long its last acts may take."""

    at: float
    code: int
    seconds_max: float


def leave(departure: Departure, why: str, last_acts: Sequence[Callable[[], object]]) -> NoReturn:
    """Run what must still happen and end this process, whatever its other threads do.

    Each act runs even if an earlier one fails; one that hangs is left behind. Even the log may
    hang, on a pipe that nobody reads, so it has its turn in the same bounded thread.
    """
    try:
        thread = threading.Thread(
            target=_finish, args=(why, last_acts), name="outlast-last-acts", daemon=True
        )
        thread.start()
        thread.join(departure.seconds_max)
    finally:
        # Only this ends a process whose main thread sits in a call that does not return.
        os._exit(departure.code)


def _finish(why: str, last_acts: Sequence[Callable[[], object]]) -> None:
    for act in last_acts:
        try:
            act()
        except BaseException:
            log.exception("A last-resort callback failed.")
    log.warning(why)
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
