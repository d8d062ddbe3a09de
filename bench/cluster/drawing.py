"""How long a change of the cluster takes until `outlast watch` has drawn it on a terminal.

The command runs as users run it, on a pseudo-terminal. Each change is an event that names a zone
that no other one has; the time ends when the terminal has received that name.
"""

import fcntl
import json
import math
import os
import pty
import random
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Sequence

ROWS, COLUMNS = 50, 200
WAIT_SECONDS_MAX = 60.0


class Terminal:
    """A command on a terminal, and when each text first appeared on it."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**environ, "TERM": "xterm-256color"},
        )
        os.close(slave)
        self._shown = threading.Condition()
        self._chunks: list[tuple[float, bytes]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def when(self, text: str) -> float:
        """The monotonic time when a text had been received. Waits for it."""
        give_up_at = time.monotonic() + WAIT_SECONDS_MAX
        with self._shown:
            while True:
                received = b""
                for at, chunk in self._chunks:
                    received += chunk
                    if text.encode() in received:
                        self._chunks.clear()
                        return at
                if not self._shown.wait(max(0.0, give_up_at - time.monotonic())):
                    raise TimeoutError(f"{text!r} was not drawn: {received[-2000:]!r}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:
                return
            with self._shown:
                self._chunks.append((time.monotonic(), chunk))
                self._shown.notify_all()


def drawing_seconds(
    server: str, commands: dict[str, Sequence[str]], environ: dict[str, str], changes: int
) -> dict[str, list[float]]:
    """For each command, the seconds from each change until it was drawn."""
    chance = random.Random(7)
    terminals = {name: Terminal(command, environ) for name, command in commands.items()}
    found: dict[str, list[float]] = {name: [] for name in commands}
    try:
        for number in range(-1, changes):
            word = f"mark{number % 10_000:04}"
            at = _mark(server, word)
            for name, terminal in terminals.items():
                seconds = terminal.when(word) - at
                # The first one is sent while the commands start, and shows that they are ready.
                if number >= 0:
                    found[name].append(seconds)
            # At another moment of the loop each time.
            time.sleep(chance.uniform(0.1, 1.2))
    finally:
        for terminal in terminals.values():
            terminal.close()
    return found


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _mark(server: str, word: str) -> float:
    with urllib.request.urlopen(f"{server}/mark?word={word}", data=b"") as answer:
        return float(json.loads(answer.read())["at"])


def watch_commands(config: str, folder: str) -> dict[str, Sequence[str]]:
    """The commands: one run, without asking a bucket for its journal, and all runs."""
    watch = [sys.executable, "-m", "outlast", "watch", "--kubeconfig", config]
    return {
        "one run": [*watch, "run-0", "--namespace", "team-0", "--journal", folder],
        "all runs": [*watch, "--all"],
    }
