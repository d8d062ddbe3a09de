"""How long tests wait for something that must happen.

The bounds detect hangs. They say nothing about speed: no machine that works comes near them.
"""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0


def eventually(is_true: Callable[[], object], what: str) -> None:
    """Wait until `is_true()`; `what` names the event in the error if it never comes."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < give_up_at, f"This never happened: {what}"
        time.sleep(0.01)
