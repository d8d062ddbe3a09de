"""Google's own Pub/Sub emulator, started as the jar it is: a wrapper would leave java behind."""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.parts import pubsub_emulator_jar
from tests.patience import PATIENCE_SECONDS
from tests.servers.ports import free_port


class PubSubEmulator:
    """An emulator that keeps its port over a restart, and nothing else: it has no disk."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """The value of `PUBSUB_EMULATOR_HOST`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        jar = pubsub_emulator_jar()
        assert jar is not None
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-jar", str(jar), "--host=127.0.0.1", f"--port={self.port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
        )
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://{self.host}", timeout=5).close()
            except OSError:
                assert time.monotonic() < until, "the emulator did not start"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Kill it, with all it held."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def running_pubsub() -> Iterator[PubSubEmulator]:
    """A fresh emulator on a free port of 127.0.0.1."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-pubsub-"))
    emulator = PubSubEmulator(folder)
    try:
        emulator.start()
        yield emulator
    finally:
        emulator.stop()
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_pubsub() -> PubSubEmulator:
    """The emulator that all tests of this process share, each with a topic of its own."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_pubsub())


@contextlib.contextmanager
def client_of(emulator: PubSubEmulator) -> Iterator[None]:
    """Let clients that are opened in the block speak to this emulator."""
    with mock.patch.dict(os.environ, {"PUBSUB_EMULATOR_HOST": emulator.host}):
        yield
