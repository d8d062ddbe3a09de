"""How long this process has been running, for the journal of its first attempt.

Imports and preparations before an attempt is claimed are paid for like the rest of it. A later
attempt of the same process does not count them again, and a process that has been running for long,
such as a notebook, has done other things before. On systems without /proc, nothing is known.
"""

import os
from pathlib import Path

from outlast._base.uptime import uptime_seconds

PREPARING_SECONDS_MAX = 600.0

_STAT = Path("/proc/self/stat")
_STARTED_FIELD = 19
"""Its place after the name of the program, which may contain spaces and parentheses."""

_taken_by: int | None = None


def take_process_age() -> float:
    """The seconds from the start of this process until now; 0 if unknown, or if taken before."""
    global _taken_by
    if _taken_by == os.getpid():
        return 0.0
    _taken_by = os.getpid()
    try:
        started = int(_STAT.read_text().rpartition(")")[2].split()[_STARTED_FIELD])
        age_seconds = uptime_seconds() - started / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
    return age_seconds if 0 <= age_seconds <= PREPARING_SECONDS_MAX else 0.0
