"""`outlast exec` around the real `accelerate launch`, which exits with 1 no matter how its programs
exit.
"""

import contextlib
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import Program, outlast, processes_marked

TRAINING = """
import os, sys
import torch
from accelerate import Accelerator
from outlast.integrations.accelerate import durable

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(1, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
with durable(accelerator, sys.argv[1], every_steps=10**9) as run:
    for count, step in enumerate(run.steps(10**9)):
        accelerator.backward(model(torch.ones(1)).sum())
        if count == 3:
            print(f"after {step - count}\\n", end="", flush=True)
        if count == 3 and sys.argv[2] == "fail" and accelerator.is_main_process:
            sys.exit(7)
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark of all processes of the test. What is left of them at the end is killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TEST_MARK", mark := uuid.uuid4().hex)
    yield mark
    for pid in left_processes(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def left_processes(mark: str) -> list[int]:
    return [pid for pid in processes_marked(mark) if pid != os.getpid()]


def launched(folder: Path, end: str, *, processes: int) -> Program:
    script = folder / "training.py"
    script.write_text(TRAINING)
    command = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"]
    # The way to torchrun, which the programs then use without a GPU.
    command += ["--multi_gpu" if processes > 1 else "--cpu", "--num_machines", "1"]
    command += ["--num_processes", str(processes), "--main_process_port", "0"]
    command += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    return outlast(
        *("exec", "--grace", "600s", "--", *command, str(script), str(folder / "run"), end),
        env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("processes", [1, 2])
def test_a_notice_becomes_75_and_a_failure_remains_one(
    mark: str, tmp_path: Path, processes: int
) -> None:
    with launched(tmp_path, "endless", processes=processes) as program:
        for _ in range(processes):
            assert program.wait_for("after") == "after 0"
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output
        assert left_processes(mark) == []

    with launched(tmp_path, "fail", processes=processes) as program:
        assert program.wait_for("after") != "after 0"
        assert program.wait() == 1, program.output
        assert left_processes(mark) == []
