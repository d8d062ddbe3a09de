"""The entry point of the `outlast` command.

`exec` is the first process of a container and must start quickly, and shells run `completion` when
they start. These and `--version` are handled before anything outside the standard library, or much
of the standard library, is imported.
"""

from __future__ import annotations

import os
import sys

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def program() -> int:
    """Run the command line as a program of its own, which exits with the code that is returned."""
    code = main()
    if sys.argv[1:2] == ["exec"]:
        _exit_at_once(code)
    return code


def main() -> int:
    sys.excepthook = _print_crash
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["exec"]:
            from outlast.cli.run.exec import main as exec_main

            return exec_main(arguments[1:])
        if arguments == ["--version"] and _printed_version():
            return 0
        if arguments[:1] == ["completion"] and _printed_completion(arguments[1:]):
            return 0
        import threading

        from outlast.cli.app import run

        threading.excepthook = lambda crash: _print_crash(
            crash.exc_type, crash.exc_value or crash.exc_type(), crash.exc_traceback
        )
        return run(arguments)
    except KeyboardInterrupt:
        return 130


def _printed_version() -> bool:
    """Print the version. Returns false if that failed, which the application then reports."""
    from outlast._base.version import __version__

    return _printed(f"outlast {__version__}\n".encode())


def _printed_completion(arguments: list[str]) -> bool:
    """Print the completion script of a shell. Returns false if the application has to do it."""
    if len(arguments) != 1 or not arguments[0].isalpha():
        return False
    try:
        path = f"{os.path.dirname(__file__)}/operate/completions/outlast.{arguments[0]}"  # noqa: PTH120
        with open(path, "rb") as file:  # noqa: PTH123
            script = file.read()
    except OSError:
        return False
    return _printed(script)


def _printed(text: bytes) -> bool:
    try:
        if sys.stdout is not None:
            sys.stdout.buffer.write(text)
            sys.stdout.flush()
    except OSError:
        return False
    return True


def _exit_at_once(code: int) -> None:
    """Exit without dismantling the interpreter, which takes a fifth of the time of its start.

    `exec` has no threads, files or exit handlers. Handlers of others, such as a profiler that was
    loaded by the environment, are run: then this returns.
    """
    import atexit

    if atexit._ncallbacks():
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return
    os._exit(code)


def _print_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    from outlast.cli.messages import print_crash

    print_crash(kind, error, trace)
