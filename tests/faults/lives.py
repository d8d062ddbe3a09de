"""Lives of a run in real processes that are cheap to start: forked from a server that has torch.

Each life is a process of its own, with its own signals, threads and exit code.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_SECONDS


class Life:
    """A process that can be signalled. `log` is a file with all that it prints."""

    def __init__(self, process: ForkServerProcess, log: Path) -> None:
        self._process = process
        self.log = log

    @property
    def output(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def ended_within(self, seconds: float) -> bool:
        self._process.join(seconds)
        return self._process.exitcode is not None

    def wait(self) -> int:
        """The exit code, as a shell would see it."""
        assert self.ended_within(PATIENCE_SECONDS), f"It did not end, but printed:\n{self.output}"
        code = self._process.exitcode
        assert code is not None
        return code if code >= 0 else 128 - code


@contextlib.contextmanager
def life(program: Callable[..., object], *arguments: Any, log: Path) -> Iterator[Life]:
    """A process that runs `program(*arguments)`, which must be importable. It ends by the block."""
    process = _server().Process(target=_live, args=(program, arguments, log))
    process.start()
    try:
        yield Life(process, log)
    finally:
        if process.exitcode is None:
            process.kill()
            process.join()
        process.close()


@functools.cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.preloaded"])
    return context


def _live(program: Callable[..., object], arguments: tuple[Any, ...], log: Path) -> None:
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text file
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
    program(*arguments)
