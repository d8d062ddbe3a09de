"""What comes after the last line of a program: the interpreter takes its objects apart.

That takes seconds with a large data set in memory, and Python's own handlers are gone by then.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.programs import Program

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}

SLOW_TO_END = """
import os, sys

class Slow:
    '''Says that it is being torn down, and then waits until the test lets it go.'''

    def __init__(self, fifo, *, write=os.write, read=os.read):
        self.fd = os.open(fifo, os.O_RDWR)
        self.write, self.read = write, read

    def __del__(self):
        self.write(1, b"tearing down\\n")
        self.read(self.fd, 1)

slow = Slow(sys.argv[1])
"""

GUARDED = """
import outlast
with outlast.Guard(grace_seconds=60) as guard:
    print("ready", flush=True)
    guard.wait()
sys.exit(guard.exit_code)
"""

RUN = """
import numpy as np
import outlast
state = {"x": np.zeros(3)}
with outlast.Run(sys.argv[2], state, every_steps=1000, grace_seconds=60) as run:
    print("ready", flush=True)
    for step in run.steps(1_000_000_000):
        state["x"] += 1
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def let_go(fifo: Path) -> None:
    fd = os.open(fifo, os.O_RDWR)
    os.write(fd, b"x")
    os.close(fd)


def program(source: str, *arguments: object, **env: str) -> Program:
    command = [sys.executable, "-c", SLOW_TO_END + source, *map(str, arguments)]
    return Program(command, env={**IN_A_POD, **env})


@pytest.mark.parametrize("source", [GUARDED, RUN], ids=["guard", "run"])
def test_a_second_sigterm_while_the_interpreter_ends_does_not_change_the_code(
    source: str, fifo: Path, tmp_path: Path
) -> None:
    with program(source, fifo, tmp_path / "run") as one:
        one.wait_for("ready")
        one.signal(signal.SIGTERM)
        one.wait_for("tearing down")
        for _ in range(3):
            one.signal(signal.SIGTERM)
        let_go(fifo)

        assert one.wait() == 75


def test_a_preemption_followed_by_sigterm_while_the_interpreter_ends_is_one_departure(
    fifo: Path,
) -> None:
    source = """
import datetime, outlast
soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=300)
with outlast.Guard(grace_seconds=600, expires_at=soon) as guard:
    guard.wait()
sys.exit(guard.exit_code)
"""
    with program(source, fifo) as one:
        one.wait_for("tearing down")
        one.signal(signal.SIGTERM)
        let_go(fifo)

        assert one.wait() == 75


@pytest.mark.parametrize(
    ("farewell", "code"),
    [
        pytest.param("raise ValueError('after the notice')", 1, id="an error"),
        pytest.param("sys.exit(9)", 9, id="another code"),
        pytest.param("pass", 0, id="none"),
    ],
)
def test_a_program_that_went_on_after_its_notice_keeps_its_own_code(
    fifo: Path, farewell: str, code: int
) -> None:
    source = f"""
import outlast
try:
    with outlast.Guard(grace_seconds=60) as guard:
        print("ready", flush=True)
        guard.wait()
        raise outlast.Interrupted(guard.exit_code)
except SystemExit:
    print("swallowed", flush=True)
{farewell}
"""
    with program(source, fifo) as one:
        one.wait_for("ready")
        one.signal(signal.SIGTERM)
        one.wait_for("tearing down")
        one.signal(signal.SIGTERM)
        let_go(fifo)

        assert one.wait() == code


def test_without_a_notice_sigterm_ends_the_interpreter_as_it_always_does(fifo: Path) -> None:
    source = """
import outlast
with outlast.Guard():
    pass
"""
    with program(source, fifo) as one:
        one.wait_for("tearing down")
        one.signal(signal.SIGTERM)

        assert one.wait() == 128 + signal.SIGTERM


def test_ctrl_c_while_the_interpreter_ends_leaves_at_once_with_130(fifo: Path) -> None:
    with program(GUARDED, fifo) as one:
        one.wait_for("ready")
        one.signal(signal.SIGINT)
        one.wait_for("tearing down")
        one.signal(signal.SIGINT)

        assert one.wait() == 130


@pytest.mark.skipif(sys.platform != "linux", reason="the timer of the C library is Linux's")
@pytest.mark.parametrize(
    ("signals", "code"),
    [([signal.SIGTERM], 75), ([signal.SIGTERM, signal.SIGTERM], 75)],
    ids=["once", "twice"],
)
def test_an_interpreter_that_ends_too_slowly_still_leaves_before_the_kill(
    fifo: Path, signals: list[signal.Signals], code: int
) -> None:
    ended, _ = ended_too_slowly(GUARDED, fifo, signals)

    assert ended == code, "Nobody let it go: only the deadline can have ended it."


def test_what_was_printed_is_not_lost_when_the_interpreter_ends_too_slowly(fifo: Path) -> None:
    source = GUARDED.replace("sys.exit", "print('last words')\nsys.exit")

    code, output = ended_too_slowly(source, fifo, [signal.SIGTERM])

    assert code == 75
    assert "last words" in output


def ended_too_slowly(source: str, fifo: Path, signals: Sequence[signal.Signals]) -> tuple[int, str]:
    """The code and the output of a program that is torn down when its deadline comes.

    On a machine that stalls, the deadline may come before that; then once more, with more time.
    """
    for grace_seconds in (3 * 2**attempt for attempt in itertools.count()):
        limits = f"grace_seconds={grace_seconds}, reserve_seconds=1"
        with program(source.replace("grace_seconds=60", limits), fifo) as one:
            one.wait_for("ready")
            one.signal(signals[0])
            if one.prints("tearing down"):
                for number in signals[1:]:
                    one.signal(number)
                return one.wait(), one.output
    raise AssertionError("It always has another attempt.")


@pytest.mark.parametrize("times", [1, 3])
def test_a_wrapped_command_keeps_its_code_too(fifo: Path, times: int) -> None:
    command = [sys.executable, "-m", "outlast", "exec", "--grace", "60s", "--"]
    command += [sys.executable, "-c", SLOW_TO_END + GUARDED, str(fifo)]
    with Program(command, env=IN_A_POD) as one:
        one.wait_for("ready")
        one.signal(signal.SIGTERM)
        one.wait_for("tearing down")
        for _ in range(times):
            one.signal(signal.SIGTERM)
        wait_until(lambda: not pending(one.pid))
        let_go(fifo)

        assert one.wait() == 75


def pending(pid: int) -> bool:
    """Whether a process still has signals to take in."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    masks = [line.split()[1] for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(int(mask, 16) for mask in masks)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        os.sched_yield()
