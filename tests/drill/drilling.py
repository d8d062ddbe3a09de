"""What the tests of the drill share: its controls, and the command line beside it."""

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.drill.report import Report

ROOT = Path(__file__).parent.parent.parent
SHORT = timedelta(seconds=1.2)
"""A grace period that a fault is to miss: each time, the test waits for its end."""

AMPLE = timedelta(seconds=8)
"""One that a program without fault keeps even on a busy machine."""


def control(name: str, *arguments: str) -> list[str]:
    """The command that runs one of the controls in `tests/faults/controls`."""
    return [sys.executable, "-m", f"tests.faults.controls.{name}", *arguments]


def failing(report: Report) -> dict[str, str]:
    return {verdict.code: verdict.reason for verdict in report.verdicts if not verdict.ok}


@contextlib.contextmanager
def nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails the test if a process or a temporary file of a drill outlives the block."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield
    assert list(temporary.iterdir()) == []
    assert processes_with(f"TMPDIR={temporary}") == []


def processes_with(variable: str) -> list[str]:
    """The commands of all other processes that were started with a variable."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (path / "environ").read_bytes().split(b"\0")
            if variable.encode() in environ and int(path.name) != os.getpid():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
