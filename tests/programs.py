"""Runs real programs in their own process group, to be signalled and watched by a test."""

import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import PATIENCE_SECONDS

_LINE_WISE_PRINT = "import functools; print = functools.partial(print, flush=True)\n"


class Program:
    """A process whose output can be awaited line by line. Nothing of it outlives the block."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        folder: Path | None = None,
    ) -> None:
        self._patience_seconds = patience_seconds
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "", **(env or {})},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._new_lines: queue.Queue[str | None] = queue.Queue()
        self._until_ended, self._ended = socket.socketpair()
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
        for pid in [self.pid, *members_of_session(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._ended.close()
        self._reader.join()
        self._until_ended.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> str:
        """The next line that holds `text`."""
        while (line := self._next_line()) is not None:
            if text in line:
                return line
        raise AssertionError(f"The program never printed {text!r}, but:\n{self.output}")

    def prints(self, text: str) -> bool:
        """Whether a line that holds `text` comes before the output ends."""
        while (line := self._next_line()) is not None:
            if text in line:
                return True
        return False

    def _next_line(self) -> str | None:
        """The next line; None at the end."""
        try:
            line = self._new_lines.get(timeout=self._patience_seconds)
        except queue.Empty:
            raise AssertionError(f"It prints nothing more after:\n{self.output}") from None
        if line is not None:
            self.lines.append(line)
        return line

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def wait(self) -> int:
        """The exit code, as a shell would see it, once the process has ended."""
        code = self._process.wait(self._patience_seconds)
        self._ended.close()
        self._reader.join(self._patience_seconds)
        while not self._new_lines.empty():
            if (line := self._new_lines.get()) is not None:
                self.lines.append(line)
        return code if code >= 0 else 128 - code

    def _read(self) -> None:
        """Pass lines on until the end. A grandchild that lives on may hold the pipe open, so once
        the process has ended, an empty pipe is the end too.
        """
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        unfinished = b""
        while pipe in select.select([pipe, self._until_ended.fileno()], [], [])[0]:
            if not (data := os.read(pipe, 65536)):
                break
            *lines, unfinished = (unfinished + data).split(b"\n")
            for line in lines:
                self._new_lines.put(line.decode())
        if unfinished:
            self._new_lines.put(unfinished.decode())
        self._new_lines.put(None)


def members_of_session(session: int) -> list[int]:
    """Every process that descends from the program, whichever group it moved to."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                members.append(int(path.parent.name))
    return members


def processes_marked(mark: str) -> list[int]:
    """Every process that inherited this mark in its variables, whichever session it moved to."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"TEST_MARK={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def python(
    source: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Program:
    """A program from Python source, whose `print` writes each line at once and whole.

    Its guards have ten minutes, unless the program or `env` sets a grace period: a deadline that a
    stalled machine could miss belongs only in the tests of deadlines.
    """
    source = _LINE_WISE_PRINT + textwrap.dedent(source)
    command = [sys.executable, "-c", source, *arguments]
    env = {"OUTLAST_GRACE_SECONDS": "600", **(env or {})}
    return Program(command, env=env, patience_seconds=patience_seconds)


def outlast(*arguments: str, env: Mapping[str, str] | None = None) -> Program:
    """The command `outlast`."""
    return Program([sys.executable, "-m", "outlast", *arguments], env=env)
