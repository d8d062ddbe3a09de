"""Turn stop signals into an exception, so that a command cleans up, and does so only once."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def clearing_up_on_signals() -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP raise `SystemExit`; a second one is ignored."""
    # Signals that nohup or a shell set to be ignored stay ignored.
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    # A parent that ignores SIGCHLD passes that on to its children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def leave(number: int, _: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = [signal.signal(number, leave) for number in numbers]
    yield
    # Not after an exception: the process is exiting, and nothing may interrupt that.
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
