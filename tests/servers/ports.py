"""Ports for servers that must be told theirs."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

# Below the range from which systems take the ports of connections: one of those may otherwise get
# the port of a server that is being started, or restarted.
_PORTS = range(15_000, 32_000)
_FOLDER = Path(tempfile.gettempdir()) / f"outlast-test-ports-{os.getuid()}"
_reserved: list[IO[str]] = []


def free_port() -> int:
    """A port of 127.0.0.1 that no other process of the tests gets while this one lives."""
    _FOLDER.mkdir(exist_ok=True)
    while True:
        port = random.SystemRandom().choice(_PORTS)
        file = (_FOLDER / str(port)).open("w")
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            socket.create_server(("127.0.0.1", port)).close()
            _reserved.append(file)
            return port
        file.close()
