"""Nodes: signals go to process 1 alone, and everything on a node vanishes with it."""

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.drill.isolation import GROUP, Isolation, best_isolation
from outlast.drill.node import Node, NodeEnd, await_ends
from outlast.drill.records import Handling
from tests.drill.drilling import processes_with

ESCAPE = "(setsid sh -c 'sleep 60 & sleep 60' &); sleep 60 & echo ready; wait"
TRAP = "trap 'echo got; exit 75' TERM; echo ready; while :; do sleep 0.02; done"

ISOLATIONS = [
    pytest.param("namespace", marks=pytest.mark.needs("pid-namespace")),
    pytest.param("group"),
]


@contextmanager
def node(
    command: Sequence[str], tmp_path: Path, *, isolation: str = "group"
) -> Iterator[tuple[Node, Path]]:
    chosen: Isolation = best_isolation() if isolation == "namespace" else GROUP
    assert chosen.namespace == (isolation == "namespace")
    log = tmp_path / "log"
    one = Node(
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
        await_ends([one], 5.0)


def ended(one: Node) -> NodeEnd:
    await_ends([one], 10.0)
    end = one.ended()
    assert end is not None, "The node did not end."
    return end


def wait_for(text: str, log: Path) -> None:
    give_up_at = time.monotonic() + 10
    while text not in log.read_text():
        assert time.monotonic() < give_up_at, f"{text!r} is not in: {log.read_text()}"
        time.sleep(0.01)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("code", [0, 1, 7, 75])
def test_the_exit_code_is_that_of_the_command(isolation: str, code: int, tmp_path: Path) -> None:
    with node(["sh", "-c", f"exit {code}"], tmp_path, isolation=isolation) as (one, _):
        assert ended(one).exit_code == code


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_process_1_hears_the_notice_and_may_leave(isolation: str, tmp_path: Path) -> None:
    with node(["sh", "-c", TRAP], tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is Handling.CAUGHT
        assert ended(one).exit_code == 75
        assert "got" in log.read_text()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_process_1_does_not_handle_does_not_stop_it(isolation: str, tmp_path: Path) -> None:
    """As in a container, whichever way the node is kept apart."""
    command = ["sh", "-c", "echo ready; sleep 0.5; echo still here; exit 3"]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is Handling.DEFAULT
        assert one.process_name() == "sh"
        assert ended(one).exit_code == 3
        assert "still here" in log.read_text()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_signal_that_is_ignored_is_told_as_such(isolation: str, tmp_path: Path) -> None:
    command = ["sh", "-c", "trap '' TERM; echo ready; sleep 0.3"]
    with node(command, tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)

        assert one.terminate() is Handling.IGNORED


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_kill_shows_as_137(isolation: str, tmp_path: Path) -> None:
    with node(["sh", "-c", "echo ready; sleep 60"], tmp_path, isolation=isolation) as (one, log):
        wait_for("ready", log)
        one.kill()

        assert ended(one).exit_code == 128 + signal.SIGKILL


@pytest.mark.needs("pid-namespace")
def test_everything_in_a_namespace_vanishes_even_what_ran_away(tmp_path: Path) -> None:
    with node(["sh", "-c", ESCAPE], tmp_path, isolation="namespace") as (one, log):
        wait_for("ready", log)
        while len(processes_with(f"MARK={tmp_path}")) < 5:
            time.sleep(0.01)

        one.kill()
        ended(one)

        assert processes_with(f"MARK={tmp_path}") == []


def test_a_process_group_goes_with_its_leader(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 60 & sleep 60 & echo ready; exit 0"]
    with node(command, tmp_path) as (one, log):
        wait_for("ready", log)

        end = ended(one)

        assert (end.exit_code, end.left_behind) == (0, 2)
        time.sleep(0.1)
        assert processes_with(f"MARK={tmp_path}") == []


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
    one = Node(
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
