"""What a process knows of its own age, and what the journal of its run makes of it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast._base.uptime import uptime_seconds
from outlast.journal import process_age
from outlast.journal.process_age import PREPARING_SECONDS_MAX, take_process_age
from outlast.measured import open_journal

PREPARING_SECONDS = 0.5

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

PROGRAM = """\
import os, signal, sys, time
import numpy as np
import outlast

time.sleep(float(sys.argv[2]))
for name in ("run", "another-run"):
    with outlast.Run(f"{sys.argv[1]}/{name}", {"x": np.zeros(3)}, every_steps=1) as run:
        for step in run.steps(10):
            if name in sys.argv[3:] and step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, *killed: str) -> float:
    """Run the program, and return the seconds that the process was there."""
    started = time.monotonic()
    command = [sys.executable, "-c", PROGRAM, str(folder), str(PREPARING_SECONDS), *killed]
    done = subprocess.run(command, check=False)
    assert done.returncode == (-9 if killed else 0)
    return time.monotonic() - started


def test_what_a_process_does_before_its_run_is_paid_for(tmp_path: Path) -> None:
    spent = [run(tmp_path, "run"), run(tmp_path)]

    attempts = open_journal(str(tmp_path / "run")).summary.attempts

    assert len(attempts) == 2
    for attempt, seconds in zip(attempts, spent, strict=True):
        assert PREPARING_SECONDS <= attempt.seconds
        assert PREPARING_SECONDS <= attempt.starting_seconds
        # The journal cannot know the exact moment of a kill, only within the next sign of life.
        assert attempt.seconds - attempt.unseen_seconds <= seconds + 0.1
    # The same process opened another run after that, which did not need to prepare again.
    [other] = open_journal(str(tmp_path / "another-run")).summary.attempts
    [record] = open_journal(str(tmp_path / "another-run")).records
    assert other.started == min(event.at for event in record.events)


def test_a_process_that_has_been_there_for_long_did_other_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_age, "_taken_by", None)
    known = take_process_age()
    assert 0 <= known <= PREPARING_SECONDS_MAX
    assert take_process_age() == 0
    later = uptime_seconds() + PREPARING_SECONDS_MAX
    monkeypatch.setattr(process_age, "_taken_by", None)
    monkeypatch.setattr(process_age, "uptime_seconds", lambda: later + 1)
    assert take_process_age() == 0


def test_an_unknown_age_is_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_age, "_taken_by", None)
    monkeypatch.setattr(process_age, "_STAT", tmp_path / "missing")

    assert take_process_age() == 0
