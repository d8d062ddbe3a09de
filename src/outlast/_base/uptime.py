"""A clock that all processes of a machine share and that cannot be set.

It counts from the boot, so it is only meaningful together with `boot_id`.
"""

import subprocess
import time
from functools import cache
from pathlib import Path

# Linux counts suspended time only in this clock; elsewhere the monotonic clock includes it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_COMMAND = ("sysctl", "-n", "kern.bootsessionuuid")


def uptime_seconds() -> float:
    """Seconds since the boot, the same for all processes of the machine."""
    return time.clock_gettime(_CLOCK)


@cache
def boot_id() -> str:
    """The id of this boot; it changes whenever the machine restarts."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        done = subprocess.run(_BOOT_ID_COMMAND, capture_output=True, text=True, check=True)
        return done.stdout.strip()
