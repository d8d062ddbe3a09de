"""Start many Python programs quickly: one process imports the frameworks, each program is a fork.

A fork is a process of its own, in a session of its own, that gets real signals and ends with a real
exit code. Only the imports are shared; random generators are seeded again, as in a new process.
"""

import atexit
import contextlib
import gc
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TextIO

ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class ForkedProgram:
    """A program that a server has started. Its output goes to a file."""

    pid: int
    output: Path
    answers: TextIO
    code: int | None = field(default=None, init=False)

    def signal(self, number: int) -> None:
        """Send a signal to the program, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill_session(self) -> None:
        """Kill the program and all processes of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code; minus the number of a signal that ended it."""
        if self.code is None:
            with self.answers:
                answer = self.answers.readline()
            assert answer, f"The process that waits for program {self.pid} was killed."
            self.code = int(json.loads(answer)["code"])
        return self.code

    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")


class ForkServer:
    """A process that has imported some modules, and forks programs."""

    def __init__(self, modules: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.frameworks.forking", str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )
        theirs.close()
        self._socket = ours

    def start(
        self,
        program: Path,
        arguments: Sequence[str] = (),
        *,
        folder: Path,
        output: Path,
        environ: Mapping[str, str] | None = None,
    ) -> ForkedProgram:
        """Start a program, as `python PROGRAM ARGUMENTS` would. `environ` is added."""
        ours, theirs = socket.socketpair()
        request = {
            "program": str(program),
            "arguments": list(arguments),
            "folder": str(folder),
            "output": str(output),
            "environ": dict(environ or {}),
        }
        socket.send_fds(self._socket, [json.dumps(request).encode() + b"\n"], [theirs.fileno()])
        theirs.close()
        # One reader for both answers: it may have read the second one with the first.
        with ours:
            answers = ours.makefile()
        pid = int(json.loads(answers.readline())["pid"])
        return ForkedProgram(pid=pid, output=output, answers=answers)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@contextlib.contextmanager
def fork_server(*modules: str) -> Iterator[ForkServer]:
    """A server for the time of a block."""
    server = ForkServer(modules)
    try:
        yield server
    finally:
        server.close()


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; returns the request in the fork, and None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 1 << 20, 1)
        if not data:
            return None
        request: dict[str, Any] = json.loads(data)
        answers = socket.socket(fileno=fds[0])
        if os.fork() == 0:
            # This one waits for the program, so that several can run at once.
            requests.close()
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                answers.close()
                os.close(write)
                os.setsid()
                os.read(read, 1)
                os.close(read)
                return request
            os.close(read)
            answers.sendall(json.dumps({"pid": pid}).encode() + b"\n")
            os.close(write)
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                answers.sendall(json.dumps({"code": code}).encode() + b"\n")
            os._exit(0)
        answers.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _seed_again() -> None:
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()


def _run(program: str) -> NoReturn:
    """Run a program and exit as the interpreter would, but for taking down all modules.

    That takes a second of the processor with a large framework, each time.
    """
    code: object = 0
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as at every exit
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        __import__(name)
    # What is shared with the forks is not looked at again, which would copy it.
    gc.collect()
    gc.freeze()
    request = _serve(requests)
    if request is None:
        return
    with open(request["output"], "ab") as output:  # noqa: PTH123 - as light as possible
        for number in (1, 2):
            os.dup2(output.fileno(), number)
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.argv = [request["program"], *request["arguments"]]
    sys.path[0] = str(Path(request["program"]).parent)
    _seed_again()
    _run(request["program"])


if __name__ == "__main__":
    main()
