"""`outlast exec` around the real torchrun, which exits with 1 no matter how its workers exit."""

import contextlib
import os
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from outlast.checkpoint.restoring.inspection import arrays_of
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.programs import Program, outlast, processes_marked

WORKER = """
import ctypes, os, pathlib, signal, sys, time
import outlast

rank, restart = os.environ["LOCAL_RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]

def wait_for_both():
    pathlib.Path(sys.path[0], f"open-{rank}").touch()
    while len(list(pathlib.Path(sys.path[0]).glob("open-*"))) < 2:
        time.sleep(0.01)

if "stick" in sys.argv and rank == "1":
    # As if it had no guard, or was still importing.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(f"ready {os.getpid()}\\n", end="", flush=True)
    time.sleep(3600)

with outlast.Guard() as guard:
    print(f"ready {os.getpid()}\\n", end="", flush=True)
    for act in sys.argv[1:]:
        if act == "stick":
            # Holds the interpreter lock: neither a handler nor the guard's thread can run.
            ctypes.PyDLL(None).sleep(3600)
        elif act == "fail-on-rank-0":
            wait_for_both()
            if rank == "0":
                raise ValueError("a bug")
        elif act == "fail-at-first":
            if restart == "0":
                raise ValueError("a bug")
            wait_for_both()
            # A notice that does not come through `outlast exec`.
            os.kill(os.getpid(), signal.SIGTERM)
    guard.wait()
    print("saved\\n", end="", flush=True)
sys.exit(guard.exit_code)
"""


TRAINING = """
import os, sys
import torch, torch.distributed as dist
import outlast

dist.init_process_group("gloo")
state = {"x": outlast.replicated(torch.zeros(4))}
with outlast.Run(sys.argv[1], state, every_steps=10**9) as run:
    for step in run.steps(10**9):
        dist.all_reduce(torch.ones(1))
        state["x"] += 1
        if step == 10:
            print(f"ready {os.getpid()}\\n", end="", flush=True)
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


def torchrun(
    folder: Path,
    *acts: str,
    source: str = WORKER,
    options: tuple[str, ...] = (),
    ranks: int = 2,
    grace: str = "600s",
) -> Program:
    script = folder / "worker.py"
    script.write_text(source)
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    return outlast(
        *("exec", "--grace", grace, "--", *launcher, *options, str(script), *acts),
        env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "OMP_NUM_THREADS": "1"},
    )


def wait_until_ready(program: Program, ranks: int = 2) -> list[int]:
    """The processes of the ranks, once their guards are open."""
    return [int(program.wait_for("ready").split()[-1]) for _ in range(ranks)]


def test_workers_that_save_and_leave_after_a_notice_were_interrupted(
    mark: str, tmp_path: Path
) -> None:
    with torchrun(tmp_path) as program:
        wait_until_ready(program)
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output
        assert program.lines.count("saved") == 2
        assert left_processes(mark) == []
        assert not list(tmp_path.glob("outlast-exec-*"))


def test_stuck_workers_are_killed_and_none_is_left(mark: str, tmp_path: Path) -> None:
    with torchrun(tmp_path, "stick", grace="5s") as program:
        wait_until_ready(program)
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output
        assert left_processes(mark) == []


def test_a_rank_that_fails_is_a_failure_although_the_other_leaves_as_interrupted(
    mark: str, tmp_path: Path
) -> None:
    """torchrun sends SIGTERM to the other rank, whose guard takes that for a notice."""
    with torchrun(tmp_path, "fail-on-rank-0") as program:
        assert program.wait() == 1, program.output
        assert program.lines.count("saved") == 1
        assert left_processes(mark) == []


def test_after_a_restart_only_the_newest_workers_count(mark: str, tmp_path: Path) -> None:
    with torchrun(tmp_path, "fail-at-first", options=("--max-restarts=1",)) as program:
        assert program.wait() == 75, program.output
        assert left_processes(mark) == []


def test_workers_do_not_outlive_a_torchrun_that_is_killed(mark: str, tmp_path: Path) -> None:
    with torchrun(tmp_path) as program:
        wait_until_ready(program)
        (agent,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        os.kill(int(agent), signal.SIGKILL)

        assert program.wait() == 128 + signal.SIGKILL, program.output
        assert program.lines.count("saved") == 2
        assert left_processes(mark) == []


def test_a_notice_to_one_of_two_nodes_interrupts_both_at_one_step(
    mark: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    options = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}")
    run = tmp_path / "run"
    with (
        torchrun(tmp_path, str(run), source=TRAINING, options=options, ranks=1) as one,
        torchrun(tmp_path, str(run), source=TRAINING, options=options, ranks=1) as other,
    ):
        wait_until_ready(one, ranks=1)
        wait_until_ready(other, ranks=1)
        one.signal(signal.SIGTERM)

        assert one.wait() == 75, one.output
        assert other.wait() == 75, other.output
        assert left_processes(mark) == []
    store = open_store(run)
    (name,) = manifest_names(store)
    found = read_manifest(store, name)
    assert found.world_size == 2
    _, _, data = arrays_of(store, found)["x"]
    assert data.view(np.float32).tolist() == [float(found.step)] * 4
