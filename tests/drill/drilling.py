"""What the tests of the drill share: its controls, and the command line beside it."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Unpack

import pytest

from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.rehearsal import drill
from outlast.drills.run.options import DrillKeywords
from tests.patience import eventually

ROOT = Path(__file__).parent.parent.parent
SHORT = timedelta(seconds=1.2)
"""A grace period that a fault is to miss: each time, the test waits for its end."""

AMPLE = timedelta(seconds=60)
"""One that a program keeps on any machine, however long it stalls: nobody waits for its end."""

REPEATS_MAX = 10


def control(name: str, *arguments: str) -> list[str]:
    """The command that runs one of the controls in `tests/faults/controls`."""
    return [sys.executable, "-m", f"tests.faults.controls.{name}", *arguments]


def conclusive_drill(command: Sequence[str], **options: Unpack[DrillKeywords]) -> DrillReport:
    """A drill whose evictions all landed, where they show something.

    They are placed by the length of the baseline. If the machine stalled in that, the job may be
    done before the last of them. The report says so, and this runs another drill at other moments.
    """
    for _ in range(REPEATS_MAX):
        report = drill(command, **options)
        if "conclusive" not in failing(report):
            break
        options["seed"] = report.seed + 1
    return report


def drill_with_deaths(name: str, deaths: Path, **options: Unpack[DrillKeywords]) -> DrillReport:
    """A drill of workers with a fault, of which one died at the place where it shows.

    Evictions may hit workers that wait for an item, above all if the machine stalled in the
    baseline. Workers that die at the place leave a file in `deaths`, until the next run begins: if
    the drill found a fault, it ran the job once more to compare.
    """
    deaths.mkdir()
    for _ in range(REPEATS_MAX):
        report = conclusive_drill(control(name, str(deaths)), **options)
        if failing(report) or any(deaths.iterdir()):
            break
    return report


def failing(report: DrillReport) -> dict[str, str]:
    """The checks that failed or warned, with their reasons."""
    bad = (CheckResult.FAIL, CheckResult.WARN)
    return {one.name: one.reason for one in report.checks if one.result in bad}


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
    eventually(lambda: processes_with(f"TMPDIR={temporary}") == [], "its processes end")


def processes_with(variable: str) -> list[str]:
    """The commands of all other processes that were started with a variable."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (path / "environ").read_bytes().split(b"\0")
            if variable.encode() in environ and int(path.name) != os.getpid():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
