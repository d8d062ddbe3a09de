"""`outlast exec` around real commands, as a process of its own and as process 1."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from outlast.supervisor import CommandNotStarted, supervise
from tests.patience import eventually
from tests.programs import Program, members_of_session, outlast, python

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
FOREVER = "echo ready; while :; do sleep 0.05; done"
TRAP = "trap 'echo saving; sleep 0.3; echo saved; exit {code}' TERM; " + FOREVER

SAVING_PYTHON = f"""{sys.executable} -c '
import outlast, sys, time
with outlast.Guard() as guard:
    print("ready", flush=True)
    guard.wait()
    time.sleep(0.5)
    print("saved", flush=True)
sys.exit(guard.exit_code)
'"""


@pytest.fixture(autouse=True)
def _notes_of_killed_commands_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def sh(script: str, *options: str, env: dict[str, str] | None = None) -> Program:
    """The script below the command, with more time than any stall takes if no option says else."""
    env = {"OUTLAST_GRACE_SECONDS": "600", **(env or {})}
    return outlast("exec", *options, "--", "sh", "-c", script, env=env)


@pytest.mark.parametrize("code", [0, 1, 7, 75, 255])
def test_the_code_of_the_command_is_passed_through(code: int) -> None:
    with sh(f"exit {code}", env=IN_A_POD) as program:
        assert program.wait() == code


@pytest.mark.parametrize("code", [0, 7, 75])
def test_a_command_that_ends_by_itself_after_the_notice_keeps_its_code(code: int) -> None:
    with sh(TRAP.format(code=code), env=IN_A_POD) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == code
        assert "saved" in program.output


def test_exit_zero_after_a_notice_can_be_distrusted() -> None:
    with sh(TRAP.format(code=0), "--distrust-zero") as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 75


@pytest.mark.parametrize(
    ("env", "code"),
    [
        pytest.param({}, 143, id="by hand"),
        pytest.param(IN_A_POD, 75, id="in a Pod"),
        pytest.param({"OUTLAST_EXIT_CODE": "42"}, 42, id="explicit"),
    ],
)
def test_a_command_that_dies_of_the_notice_was_interrupted(env: dict[str, str], code: int) -> None:
    with sh("echo ready; exec sleep 3600", env=env) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == code


def test_a_crash_is_never_reported_as_an_interruption() -> None:
    with sh(
        "trap 'kill -SEGV $$' TERM; echo ready; while :; do sleep 0.05; done", env=IN_A_POD
    ) as p:
        p.wait_for("ready")
        p.signal(signal.SIGTERM)

        assert p.wait() == 128 + signal.SIGSEGV


def test_a_command_that_ignores_the_notice_is_killed_before_the_grace_period_ends() -> None:
    with sh(f"trap '' TERM; {FOREVER}", "--grace", "1.5s", env=IN_A_POD) as program:
        program.wait_for("ready")
        sent = time.monotonic()
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert time.monotonic() - sent >= 1.0


def test_a_program_behind_a_shell_gets_the_signal_and_the_time_to_save() -> None:
    """The shell dies of SIGTERM at once; were that the end, its child would be cut off."""
    with sh(f"{SAVING_PYTHON}; echo never") as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)
        program.wait()

        assert "saved" in program.output
        assert "never" not in program.output


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH])
def test_other_signals_are_passed_on_and_start_no_countdown(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    with sh(f"trap 'echo got {name}' {name}; {FOREVER}", "--grace", "0.6s") as program:
        program.wait_for("ready")
        program.signal(number)
        program.wait_for(f"got {name}")
        time.sleep(0.8)
        program.signal(number)
        program.wait_for(f"got {name}")


def test_the_grace_period_reaches_the_guards_inside() -> None:
    with sh("echo grace $OUTLAST_GRACE_SECONDS", "--grace", "2m") as program:
        program.wait_for("grace 119.5")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "No command was given."),
        (["--"], 2, "No command was given."),
        (["--grace", "soon", "--", "true"], 2, "'soon' is not a duration"),
        (["--grace", "0.2s", "--", "true"], 2, "0.2 s (option --grace) is too short"),
        (["--gracious", "--", "true"], 2, "--gracious"),
        (["--", "no-such-command"], 127, "Cannot start 'no-such-command'"),
        (["--", "/etc/passwd"], 126, "Cannot start '/etc/passwd'"),
        (["--", ""], 126, "Cannot start ''"),
    ],
)
def test_a_mistake_is_told_with_a_hint_and_no_traceback(
    arguments: list[str], code: int, words: str
) -> None:
    with outlast("exec", *arguments) as program:
        assert program.wait() == code
        first, second = program.output.splitlines()
        assert first.startswith("error: ")
        assert words in first
        assert second.startswith("hint:  ")
        assert "Traceback" not in program.output


def test_a_bad_variable_is_refused_before_the_command_starts() -> None:
    with sh("echo started", env={"OUTLAST_GRACE_SECONDS": "-3"}) as program:
        assert program.wait() == 2
        assert "OUTLAST_GRACE_SECONDS is '-3'" in program.output
        assert "started" not in program.output


@pytest.mark.parametrize("options", [[], ["--durable"]])
def test_it_imports_nothing_but_the_standard_library_and_starts_fast(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_RUN_URL", "run")
    code = f"""
import sys
sys.argv = ["outlast", "exec", *{options}, "sh", "-c", 'touch "$OUTLAST_NOTES/made-durable"']
from outlast.cli.entry import main
assert main() == 0
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    top_level = {name.partition(".")[0] for name in modules}
    foreign = top_level - set(sys.stdlib_module_names) - {"outlast", "__main__"}
    assert {name for name in foreign if not name.startswith(("_", "sitecustomize"))} == set()
    assert not {"dataclasses", "pathlib", "http", "asyncio", "subprocess"} & top_level


def process_1(*command: str, env: dict[str, str] | None = None) -> Program:
    """The command as process 1 of its own PID namespace."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    env = {"OUTLAST_GRACE_SECONDS": "600", **(env or {})}
    return Program([*unshare, sys.executable, "-m", "outlast", "exec", *command], env=env)


def signal_process_1(program: Program, number: int) -> None:
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    os.kill(int(children[0]), number)


@pytest.mark.needs("pid-namespace")
def test_as_process_1_it_passes_the_signal_on_and_keeps_the_code() -> None:
    with process_1("--", "sh", "-c", TRAP.format(code=75)) as program:
        program.wait_for("ready")
        signal_process_1(program, signal.SIGTERM)

        assert program.wait() == 75
        assert "saved" in program.output


@pytest.mark.needs("pid-namespace")
def test_without_it_a_shell_as_process_1_never_hears_the_signal(tmp_path: Path) -> None:
    """The reason for the wrapper, shown: the kernel drops what process 1 does not handle."""
    script = f"echo ready; until [ -e {tmp_path}/go-on ]; do sleep 0.05; done; echo survived"
    with Program(
        ["unshare", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", script]
    ) as program:
        program.wait_for("ready")
        signal_process_1(program, signal.SIGTERM)
        (tmp_path / "go-on").touch()

        program.wait_for("survived")


@pytest.mark.needs("pid-namespace")
def test_as_process_1_a_python_guard_behind_a_shell_saves_and_leaves() -> None:
    with process_1("--", "sh", "-c", f"{SAVING_PYTHON}; exit $?", env=IN_A_POD) as program:
        program.wait_for("ready")
        signal_process_1(program, signal.SIGTERM)

        assert program.wait() == 75
        assert "saved" in program.output


@pytest.mark.needs("pid-namespace")
def test_as_process_1_it_reaps_zombies() -> None:
    script = """
        for i in 1 2 3 4 5; do (sh -c 'sleep 0.1 & exec true'); done
        sleep 0.5
        while grep -q '^State:.*Z' /proc/[0-9]*/status; do sleep 0.1; done
        echo no zombies
    """
    with process_1("--", "sh", "-c", script) as program:
        program.wait_for("no zombies")


def test_a_stopped_command_is_woken_to_hear_the_notice() -> None:
    with sh(TRAP.format(code=75)) as program:
        program.wait_for("ready")
        (child,) = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        os.killpg(int(child), signal.SIGSTOP)
        program.signal(signal.SIGTERM)

        assert program.wait() == 75
        assert "saved" in program.output


def test_a_short_grace_period_suits_the_guards_inside() -> None:
    source = "import outlast; print('reserve', outlast.Guard()._settings.reserve_seconds)"
    with outlast("exec", "--grace", "1.5s", "--", sys.executable, "-c", source) as program:
        program.wait_for("reserve 0.25")


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    "typed",
    [
        pytest.param(["JOB\n", "\x1a", "fg\n", "hello\n"], id="Ctrl-Z, fg"),
        pytest.param(["JOB\n", "\x1a", "bg\n", "fg\n", "hello\n"], id="Ctrl-Z, bg, fg"),
        pytest.param(["JOB &\n", "fg\n", "hello\n"], id="in the background, fg"),
        pytest.param(["true | JOB\n", "hello\n"], id="behind a pipe"),
    ],
)
def test_job_control_works_as_for_any_command(typed: list[str]) -> None:
    script = "echo ready $((20 + 1)); read line < /dev/tty; echo got $line"
    job = f"{sys.executable} -m outlast exec -- sh -c '{script}'"
    with Terminal("bash", "--norc", "-i") as terminal:
        for text in typed:
            terminal.type(text.replace("JOB", job))
            if "JOB" in text:
                terminal.read_until("ready 21")
                if "&" not in text:
                    # What is typed ahead, before the job has the terminal, is lost on it.
                    eventually(terminal.is_lent_to_the_command, "the job has the terminal")
            elif text == "\x1a":
                terminal.read_until("Stopped")
            elif text == "fg\n":
                # The shell names the job that it continues, and no longer reads then.
                terminal.read_until("outlast exec")
            if "&" in text or text == "bg\n":
                # Once the shell knows that it stopped: `fg` continues only what it knows.
                eventually(terminal.lists_a_stopped_job, "the job stops, for it wants to read")
        terminal.read_until("got hello")
        terminal.type("echo shell $((40 + 2))\n")
        terminal.read_until("shell 42")


def test_a_background_job_that_ends_leaves_the_terminal_to_the_shell(tmp_path: Path) -> None:
    # Starts no process: a shell that is waiting for its vfork does not stop on Ctrl-Z.
    os.mkfifo(go_on := tmp_path / "go-on")
    script = f"echo ready $((20 + 1)); read line < {go_on}; echo over $((30 + 1))"
    with Terminal("bash", "--norc", "-i") as terminal:
        terminal.type(f"{sys.executable} -m outlast exec -- sh -c '{script}'\n")
        terminal.read_until("ready 21")
        eventually(terminal.is_lent_to_the_command, "the job has the terminal")
        terminal.type("\x1a")
        terminal.read_until("Stopped")
        terminal.type("bg\n")
        go_on.write_text("\n")
        terminal.read_until("over 31")
        eventually(terminal.is_alone, "the job has ended")
        terminal.type("echo shell $((40 + 2))\n")
        terminal.read_until("shell 42")


def test_in_a_terminal_the_command_can_read_and_gets_ctrl_c() -> None:
    script = f"trap 'echo got INT; exit 9' INT; read line; echo read $line; {FOREVER}"
    command = [sys.executable, "-m", "outlast", "exec", "--", "sh", "-c", script]
    with Terminal(*command) as terminal:
        terminal.type("hello\n")
        terminal.read_until("read hello")
        terminal.type("\x03")
        terminal.read_until("got INT")

        assert terminal.exit_code() == 9


class Terminal:
    """A command with a terminal of its own. Everything in it ends with the block."""

    def __init__(self, *command: str) -> None:
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            os.execvp(command[0], command)
        self._unread = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in {self._pid, *members_of_session(self._pid)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._file)

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def read_until(self, text: str) -> str:
        """Returns what was printed before the text."""
        while text not in self._unread:
            self._unread += os.read(self._file, 1024).decode()
        before, _, self._unread = self._unread.partition(text)
        return before

    def is_lent_to_the_command(self) -> bool:
        # The first process of a pipe may have ended, and its group still has the terminal.
        with contextlib.suppress(FileNotFoundError):
            return Path(f"/proc/{os.tcgetpgrp(self._file)}/comm").read_text() == "sh\n"
        return False

    def lists_a_stopped_job(self) -> bool:
        """Whether the shell at its prompt lists a job as stopped."""
        self.type("jobs; echo listed $((50 + 3))\n")
        return "Stopped" in self.read_until("listed 53")

    def is_alone(self) -> bool:
        return members_of_session(self._pid) == [self._pid]

    def exit_code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def test_a_program_can_supervise_a_command_itself() -> None:
    source = """
        import sys
        from outlast.supervisor import supervise

        command = ["sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"]
        sys.exit(supervise(command, grace_seconds=10))
    """
    with python(source) as program:
        program.wait_for("ready")
        program.signal(signal.SIGTERM)

        assert program.wait() == 7, program.output


@pytest.mark.parametrize(("command", "code"), [("/nosuch", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_is_an_error_for_programs(command: str, code: int) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    with pytest.raises(CommandNotStarted, match=f"Cannot start '{command}'") as caught:
        supervise([command])

    assert caught.value.exit_code == code
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(ValueError, match="The command is empty"):
        supervise([])
