"""Nodes: signals go to process 1 alone, and everything on a node vanishes with it."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.drills.run.node import (
    GROUP,
    Isolation,
    NodeEnd,
    SimulatedNode,
    await_ends,
    best_isolation,
)
from outlast.drills.run.records import SigtermHandling
from tests.drill.drilling import processes_with
from tests.patience import PATIENCE_SECONDS, eventually

ESCAPE = "(setsid sh -c 'sleep 3600 & sleep 3600' &); sleep 3600 & echo ready; wait"
UNTIL_TOLD = "until [ -e go-on ]; do sleep 0.02; done"
TRAP = "trap 'echo got; exit 75' TERM; echo ready; while :; do sleep 0.02; done"

ISOLATIONS = [
    pytest.param("namespace", marks=pytest.mark.needs("pid-namespace")),
    pytest.param("group"),
]


@contextmanager
def node(
    command: Sequence[str], tmp_path: Path, *, isolation: str = "group"
) -> Iterator[tuple[SimulatedNode, Path]]:
    chosen: Isolation = best_isolation() if isolation == "namespace" else GROUP
    assert chosen.namespace == (isolation == "namespace")
    log = tmp_path / "log"
    one = SimulatedNode(
        command,
        isolation=chosen,
        folder=tmp_path,
        environ={"MARK": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        log=log,
    )
    try:
        yield one, log
    finally:
        one.kill()
        await_ends([one], PATIENCE_SECONDS)


def ended(one: SimulatedNode) -> NodeEnd:
    await_ends([one], PATIENCE_SECONDS)
    end = one.ended()
    assert end is not None, "The node did not end."
    return end


def wait_for(text: str, log: Path) -> None:
    eventually(lambda: text in log.read_text(), f"{text!r} in {log}")


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("code", [0, 1, 7, 75])
def test_the_exit_code_is_that_of_the_command(isolation: str, code: int, tmp_path: Path) -> None:
    with node(["sh", "-c", f"exit {code}"], tmp_path, isolation=isolation) as (one, _):
        assert ended(one).exit_code == code


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_process_1_hears_the_notice_and_may_leave(isolation: str, tmp_path: Path) -> None:
    with node(["sh", "-c", TRAP], tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is SigtermHandling.CAUGHT
        assert ended(one).exit_code == 75
        assert "got" in log.read_text()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_process_1_does_not_handle_does_not_stop_it(isolation: str, tmp_path: Path) -> None:
    """As in a container, whichever way the node is kept apart."""
    command = ["sh", "-c", f"echo ready; {UNTIL_TOLD}; echo still here; exit 3"]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is SigtermHandling.DEFAULT
        assert one.process_name() == "sh"
        (tmp_path / "go-on").touch()
        assert ended(one).exit_code == 3
        assert "still here" in log.read_text()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_signal_that_is_ignored_is_told_as_such(isolation: str, tmp_path: Path) -> None:
    command = ["sh", "-c", f"trap '' TERM; echo ready; {UNTIL_TOLD}"]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is SigtermHandling.IGNORED


WAITS_IN_A_THREAD = """
import signal, threading
def wait():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])
threading.Thread(target=wait).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_thread_that_waits_for_the_signal_is_not_taken_for_no_handler(
    isolation: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WAITS_IN_A_THREAD]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is SigtermHandling.UNKNOWN


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_kill_shows_as_137(isolation: str, tmp_path: Path) -> None:
    with node(["sh", "-c", "echo ready; sleep 3600"], tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)
        one.kill()

        assert ended(one).exit_code == 128 + signal.SIGKILL
    assert log.read_text() == "ready\n"


COMPUTES_IN_A_CHILD = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_the_cpu_time_of_children_counts(isolation: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPUTES_IN_A_CHILD]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.cpu_seconds() > 0.25


@pytest.mark.needs("pid-namespace")
def test_everything_in_a_namespace_vanishes_even_what_ran_away(tmp_path: Path) -> None:
    with node(["sh", "-c", ESCAPE], tmp_path, isolation="namespace") as (one, log):
        wait_for("ready", log)
        eventually(lambda: len(processes_with(f"MARK={tmp_path}")) >= 5, "all have started")

        one.kill()
        ended(one)

        assert processes_with(f"MARK={tmp_path}") == []


def test_a_process_group_goes_with_its_leader(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 3600 & sleep 3600 & echo ready; exit 0"]
    with node(command, tmp_path) as (one, log):
        wait_for("ready", log)

        end = ended(one)

        assert (end.exit_code, end.left_behind) == (0, 2)
        eventually(lambda: processes_with(f"MARK={tmp_path}") == [], "all have ended")


@pytest.mark.needs("pid-namespace")
def test_in_a_namespace_the_command_is_process_1_and_sees_only_its_own(tmp_path: Path) -> None:
    script = "import os; print(os.getpid(), len([n for n in os.listdir('/proc') if n.isdigit()]))"
    with node([sys.executable, "-c", script], tmp_path, isolation="namespace") as (one, log):
        ended(one)

    assert log.read_text() == "1 1\n"


def test_a_command_that_cannot_be_started_fails_like_in_a_shell(tmp_path: Path) -> None:
    chosen = best_isolation()
    if not chosen.prefix:
        return
    one = SimulatedNode(
        ["no-such-command"],
        isolation=chosen,
        folder=tmp_path,
        environ={"PATH": "/usr/bin:/bin"},
        log=tmp_path / "log",
    )

    assert ended(one).exit_code == 127


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_command_that_the_kernel_kills_shows_it_by_its_code(
    isolation: str, tmp_path: Path
) -> None:
    with node(["sh", "-c", "ulimit -t 1; while :; do :; done"], tmp_path, isolation=isolation) as (
        one,
        _,
    ):
        assert ended(one).exit_code == 137
