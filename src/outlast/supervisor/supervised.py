"""How to supervise a command."""

from signal import Signals
from typing import NamedTuple

# What is left of the grace period after the command is killed: enough to reap it and exit.
EXIT_SECONDS = 0.5


class Supervision(NamedTuple):
    """How to run a command, checked."""

    command: tuple[str, ...]
    grace_seconds: float
    notices: frozenset[Signals]
    explicit_code: int | None
    distrust_zero: bool
