"""How a node is kept apart from the rest of the machine, by what this machine allows.

Best is a PID namespace: the command is process 1 in it, as in a container, and everything on the
node vanishes with it. Else a process group has to do: what leaves the group lives on.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_PROBE_SECONDS_MAX = 5.0
_NAMESPACE = ("--pid", "--fork", "--kill-child=KILL")
# In the order of preference: with its own /proc, and without becoming root in the namespace.
_VARIANTS: tuple[tuple[str, ...], ...] = (
    (*_NAMESPACE, "--mount-proc"),
    ("--user", "--map-current-user", *_NAMESPACE, "--mount-proc"),
    _NAMESPACE,
    ("--user", "--map-current-user", *_NAMESPACE),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """What goes in front of a command, and whether it is process 1 of its own namespace then."""

    prefix: tuple[str, ...]
    namespace: bool

    @property
    def name(self) -> str:
        return "PID namespace" if self.namespace else "process group"


GROUP = Isolation(prefix=(), namespace=False)


@functools.cache
def best_isolation() -> Isolation:
    """The strongest isolation that works here."""
    unshare = shutil.which("unshare") if sys.platform == "linux" else None
    if unshare is None:
        return _tied(GROUP)
    for flags in _VARIANTS:
        if "--user" not in flags and os.geteuid() != 0:
            continue
        if _works([unshare, *flags, "--", "true"]):
            return _tied(Isolation(prefix=(unshare, *flags, "--"), namespace=True))
    return _tied(GROUP)


def _tied(isolation: Isolation) -> Isolation:
    """The same, and the node dies with the drill even if that is killed, where this can be had."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    tie = (setpriv or "", "--pdeathsig", "KILL", "--")
    if setpriv is None or not _works([*tie, "true"]):
        return isolation
    return Isolation(prefix=(*tie, *isolation.prefix), namespace=isolation.namespace)


def _works(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
