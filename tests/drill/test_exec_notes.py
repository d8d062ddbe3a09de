"""`outlast exec` around launchers that hide exit codes, and around processes that outlive them.

The launchers are shells here; tests/drill/test_exec_torchrun.py has the real one.
"""

import contextlib
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.programs import Program, outlast, processes_marked

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
IGNORING = "trap '' TERM; echo ready; while :; do sleep 0.05; done"

GUARDED = """
import os, signal, sys, time
import outlast

with outlast.Guard() as guard:
    print("ready", flush=True)
    {inside}
{after}
"""
# Always exits with 1, as torchrun does, but lets its program run on after SIGTERM.
LAUNCHER = """
trap : TERM
"$0" -c "$1"
exit 1
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark of all processes of the test. What is left of them at the end is killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TEST_MARK", mark := uuid.uuid4().hex)
    yield mark
    for pid in processes_marked(mark):
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def sh(script: str, *arguments: str, grace: str = "600s", env: dict[str, str]) -> Program:
    return outlast("exec", "--grace", grace, "--", "sh", "-c", script, *arguments, env=env)


def launched(
    inside: str, after: str = "", *, grace: str = "600s", env: dict[str, str] = IN_A_POD
) -> Program:
    """A guarded program below a launcher that hides its exit code."""
    source = GUARDED.format(inside=inside, after=after)
    return sh(LAUNCHER, sys.executable, source, grace=grace, env=env)


@pytest.mark.parametrize(
    ("inside", "after", "code"),
    [
        pytest.param("guard.wait()", "sys.exit(guard.exit_code)", 75, id="exits with the code"),
        pytest.param(
            "guard.wait(); raise outlast.Interrupted(guard.exit_code)", "", 75, id="Interrupted"
        ),
        pytest.param("guard.wait(); sys.exit()", "", 75, id="corrected SystemExit"),
        pytest.param("guard.wait(); os.kill(os.getpid(), signal.SIGKILL)", "", 75, id="killed"),
        pytest.param("guard.wait()", "", 1, id="finishes"),
        pytest.param("guard.wait()", "raise ValueError('a bug')", 1, id="fails after the guard"),
        pytest.param("guard.wait(); raise ValueError('a bug')", "", 1, id="fails inside"),
        pytest.param("guard.wait()", "sys.exit(3)", 1, id="exits with a code of its own"),
        pytest.param(
            "guard.wait()",
            "try: raise outlast.Interrupted(guard.exit_code)\nexcept SystemExit: pass",
            1,
            id="swallows Interrupted and finishes",
        ),
        pytest.param(
            "guard.wait()",
            "try: raise outlast.Interrupted(guard.exit_code)\nfinally: raise ValueError('a bug')",
            1,
            id="fails while Interrupted is raised",
        ),
    ],
)
def test_after_a_notice_the_real_exit_code_of_the_program_counts(
    inside: str, after: str, code: int, mark: str, tmp_path: Path
) -> None:
    with launched(inside, after) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == code, program.output
        assert list(tmp_path.iterdir()) == []


def test_a_program_that_its_guard_had_to_end_was_interrupted(mark: str) -> None:
    with launched("while True: time.sleep(1)", grace="4s", env={}) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output


def test_outside_a_pod_a_clean_stop_does_not_turn_the_launchers_failure_into_success(
    mark: str,
) -> None:
    with launched("guard.wait()", "sys.exit(guard.exit_code)", env={}) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 1, program.output


@pytest.mark.parametrize(
    ("ranks", "code"),
    [pytest.param("1", 75, id="all ranks"), pytest.param("2", 1, id="one of two")],
)
def test_without_a_notice_all_local_ranks_must_have_been_interrupted(
    ranks: str, code: int, mark: str
) -> None:
    env = {**IN_A_POD, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": ranks}
    with launched("guard.interrupt('told by a peer')", "sys.exit(guard.exit_code)", env=env) as one:
        assert one.wait() == code, one.output


def test_a_process_that_crashed_before_the_notice_is_a_failure(mark: str) -> None:
    crashing = GUARDED.format(inside="os.kill(os.getpid(), signal.SIGSEGV)", after="")
    guarded = GUARDED.format(inside="guard.wait()", after="sys.exit(guard.exit_code)")
    script = 'trap : TERM; "$0" -c "$1"; echo crashed; "$0" -c "$2"; exit 1'
    with sh(script, sys.executable, crashing, guarded, env=IN_A_POD) as program:
        program.wait_for("crashed")
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 1, program.output


def test_a_forked_child_does_not_speak_for_its_parent(mark: str) -> None:
    inside = "guard.wait(); child = os.fork(); child or sys.exit(3); os.wait()"
    with launched(inside, "sys.exit(guard.exit_code)") as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75, program.output


def test_a_folder_for_notes_from_outside_is_not_used(mark: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with launched("pass", env={"OUTLAST_NOTES": str(other)}) as program:
        assert program.wait() == 1

    assert list(other.iterdir()) == []


def test_a_command_that_cannot_be_started_leaves_no_folder(mark: str, tmp_path: Path) -> None:
    with outlast("exec", "--", "no-such-command") as program:
        assert program.wait() == 127

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("grace", "env", "seconds"),
    [
        pytest.param("15s", {}, "14", id="after the guards, before the kill"),
        pytest.param("2m", {}, "119", id="long"),
        pytest.param("1.5s", {}, "1", id="short"),
        pytest.param("15s", {"OUTLAST_RESERVE_SECONDS": "6"}, "12", id="large reserve"),
        pytest.param("15s", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}, "7", id="set by the user"),
    ],
)
def test_the_shutdown_timeout_of_torchrun_fits_the_grace_period(
    grace: str, env: dict[str, str], seconds: str, mark: str
) -> None:
    with sh("echo timeout $TORCH_ELASTIC_SHUTDOWN_TIMEOUT.", grace=grace, env=env) as program:
        program.wait_for(f"timeout {seconds}.")


def is_alone(mark: str) -> bool:
    return processes_marked(mark) in ([], [os.getpid()])


def test_processes_in_sessions_of_their_own_are_killed_with_the_group(mark: str) -> None:
    script = f'setsid sh -c "{IGNORING}" & setsid setsid sh -c "{IGNORING}" & {IGNORING}'
    with sh(script, grace="1.5s", env=IN_A_POD) as program:
        for _ in range(3):
            program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert is_alone(mark)


SAVING_ELSEWHERE = """
setsid sh -c "trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done" &
while :; do sleep 0.05; done
"""


def test_after_a_notice_orphans_are_asked_to_exit_and_waited_for(mark: str) -> None:
    with sh(SAVING_ELSEWHERE, env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "saved" in program.output
        assert is_alone(mark)


def test_a_killed_command_leaves_no_process_behind(mark: str) -> None:
    with sh(SAVING_ELSEWHERE, env=IN_A_POD) as program:
        program.wait_for("ready")
        (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)

        assert program.wait() == 128 + signal.SIGKILL
        assert "saved" in program.output
        assert is_alone(mark)


def test_a_command_that_exits_may_leave_a_daemon_running(mark: str) -> None:
    with sh(f'setsid sh -c "{IGNORING}" & sleep 0.1; exit 0', env=IN_A_POD) as program:
        assert program.wait() == 0
        eventually(lambda: not is_alone(mark), "the daemon runs")
