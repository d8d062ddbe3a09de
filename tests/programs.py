"""Runs real programs in their own process group, to be signalled and watched by a test."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_SECONDS = 15.0

_LINE_WISE_PRINT = "import functools; print = functools.partial(print, flush=True)\n"


class Program:
    """A process whose output can be awaited line by line. Nothing of it outlives the block."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        patience_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._patience_seconds = patience_seconds
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "", **(env or {})},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._new_lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in [self.pid, *_members_of_session(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> str:
        """The next line that holds `text`."""
        give_up_at = time.monotonic() + self._patience_seconds
        while (left := give_up_at - time.monotonic()) > 0:
            try:
                line = self._new_lines.get(timeout=left)
            except queue.Empty:
                break
            if line is None:
                break
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"The program never printed {text!r}, but:\n{self.output}")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def wait(self) -> int:
        """The exit code, as a shell would see it, once the process has ended."""
        code = self._process.wait(self._patience_seconds)
        # A grandchild that lives on may hold the pipe open.
        self._reader.join(0.5)
        while not self._new_lines.empty():
            if (line := self._new_lines.get()) is not None:
                self.lines.append(line)
        return code if code >= 0 else 128 - code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._new_lines.put(line.rstrip("\n"))
        self._new_lines.put(None)


def _members_of_session(session: int) -> list[int]:
    """Every process that descends from the program, whichever group it moved to."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                members.append(int(path.parent.name))
    return members


def python(
    source: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    patience_seconds: float = DEADLINE_SECONDS,
) -> Program:
    """A program from Python source, whose `print` writes each line at once and whole."""
    source = _LINE_WISE_PRINT + textwrap.dedent(source)
    command = [sys.executable, "-c", source, *arguments]
    return Program(command, env=env, patience_seconds=patience_seconds)


def outlast(*arguments: str, env: Mapping[str, str] | None = None) -> Program:
    """The command `outlast`."""
    return Program([sys.executable, "-m", "outlast", *arguments], env=env)
