import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast._base import uptime
from outlast._base.uptime import boot_id, uptime_seconds


def test_every_process_of_the_machine_reads_the_same_clock() -> None:
    code = "from outlast._base.uptime import *; print(uptime_seconds(), boot_id())"
    before = uptime_seconds()

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    seconds, boot = done.stdout.split()
    assert before < float(seconds) < uptime_seconds()
    assert boot == boot_id()


def test_moving_the_wall_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uptime_seconds()

    monkeypatch.setattr(time, "time", lambda: 0.0)

    assert before <= uptime_seconds() < before + 10


def test_where_there_is_no_proc_the_system_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uptime, "_BOOT_ID", tmp_path / "missing")
    monkeypatch.setattr(uptime, "_BOOT_ID_COMMAND", ("echo", "a-boot"))

    assert boot_id.__wrapped__() == "a-boot"
