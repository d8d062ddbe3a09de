"""Run a command as the first process of a container: signals, zombies, grace period, exit code.

For images whose entry point is a shell, or whose program ignores signals as process 1, and for
launchers such as torchrun that hide the exit codes of their workers. Standard library only, and
quick to import. If killed: the command keeps running, if that is outside a container, and the
folder for notes stays.
"""

from __future__ import annotations

import os

from outlast.errors import OutlastError, SettingError
from outlast.interruption.exec_settings import (
    EXIT_CODE,
    GRACE,
    NOTES,
    NOTICE_SIGNALS,
    RESERVE,
    SIGNALS_VARIABLE,
)
from outlast.supervisor.folder import NotesFolder
from outlast.supervisor.posix_signals import signal
from outlast.supervisor.supervised import EXIT_SECONDS, Supervision

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

_ALL = signal.valid_signals()
# torchrun and accelerate prefer PET_SHUTDOWN_TIMEOUT and --shutdown-timeout, which users set.
_LAUNCHER_TIMEOUT = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_PR_SET_CHILD_SUBREAPER = 36


class CommandNotStarted(OutlastError):
    """A command could not be started. `exit_code` is 127 if it was not found, otherwise 126."""

    def __init__(self, command: str, error: OSError | ValueError) -> None:
        missing = isinstance(error, FileNotFoundError)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        super().__init__(
            f"Cannot start {command!r}: {reason}.",
            hint="Check the name and the PATH of the image."
            if missing
            else "Check that it is executable and, if it is a script, starts with '#!'.",
        )
        self.exit_code = 127 if missing else 126


def supervise(
    command: Sequence[str],
    *,
    grace_seconds: float | None = None,
    signals: Iterable[int | str] | str | None = None,
    exit_code: int | None = None,
    distrust_zero: bool = False,
    grace_given_as: str | None = None,
    variables: Mapping[str, str] | None = None,
    on_own_exit: Callable[[str | None], None] | None = None,
) -> int:
    """Run a command to its end and return the code to exit with. Linux only.

    The command gets its own process group, and signals are forwarded to the entire group. After a
    notice, the command and all its descendants have the grace period to exit; then they are killed.
    If a launcher such as torchrun hides the exit codes of guarded processes, the code that they
    agree on replaces its code. `distrust_zero` treats exit code 0 after a notice as interrupted.
    Settings default to the variables that a guard uses. `variables` are added to the command's, and
    `on_own_exit` is called with the folder for notes if the command ends without a notice.

    Call it in the main thread of a program without other threads or child processes, and exit right
    after: it reaps all child processes, and leaves signals blocked, so that none changes the exit
    code. Raises `CommandNotStarted`, or `SettingError` if a setting is invalid.
    """
    if not command:
        raise ValueError("The command is empty.")
    supervision = Supervision(
        command=tuple(command),
        grace_seconds=_read_grace(grace_seconds, grace_given_as),
        notices=_read_signals(signals),
        explicit_code=EXIT_CODE.read(exit_code).value,
        distrust_zero=distrust_zero,
        variables=dict(variables or {}),
    )
    if not hasattr(signal, "sigtimedwait"):
        raise OutlastError(
            f"outlast exec runs only on Linux, not on {os.uname().sysname}.",
            hint="It is for containers. Outside of one, run the command directly.",
        )
    return _run(supervision, on_own_exit)


def _read_signals(given: Iterable[int | str] | str | None) -> frozenset[int]:
    if given is None and not os.environ.get(SIGNALS_VARIABLE, "").strip():
        return frozenset(getattr(signal, name) for name in NOTICE_SIGNALS)
    # Imported when it is needed, because `outlast exec` must start at once.
    from outlast.interruption.settings import SIGNALS

    return frozenset(SIGNALS.read(given).value)


def _read_grace(given: float | None, given_as: str | None) -> float:
    grace = GRACE.read(given, given_as=given_as)
    if grace.value <= EXIT_SECONDS:
        raise SettingError(
            f"The grace period of {grace.value:g} s ({grace.source}) is too short: "
            f"{EXIT_SECONDS:g} s of it are reserved for exiting.",
            hint=GRACE.hint,
            source=grace.source,
        )
    return grace.value


def _run(supervision: Supervision, on_own_exit: Callable[[str | None], None] | None = None) -> int:
    # A parent that ignores SIGCHLD would make this process ignore it too.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    _adopt_orphans()
    with NotesFolder() as notes:
        try:
            command = _spawn(supervision, inherited, notes.path)
        except (OSError, ValueError) as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, inherited)
            raise CommandNotStarted(supervision.command[0], error) from error
        # Only now: the command need not wait until this is loaded.
        from outlast.supervisor.running import RunningCommand

        running = RunningCommand(supervision, command, notes.path)
        code = running.wait()
        if on_own_exit is not None and not running.was_noticed:
            on_own_exit(notes.path)
        return code


def _adopt_orphans() -> None:
    """Become the parent of all orphans below this process, as process 1 of a container is."""
    if os.getpid() == 1:
        return
    arguments = (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        # What `ctypes` is made of, which would take longer to import than the rest of this package.
        from _ctypes import call_function, dlopen, dlsym

        this_program: Any = None
        call_function(dlsym(dlopen(this_program, 0), "prctl"), arguments)
    except (ImportError, AttributeError, OSError):
        _adopt_orphans_by_ctypes(arguments)


def _adopt_orphans_by_ctypes(arguments: tuple[int, ...]) -> None:
    # Without it, orphans go to process 1, and only the process group is supervised.
    try:
        import ctypes

        ctypes.CDLL(None).prctl(*arguments)
    except (ImportError, AttributeError, OSError):
        pass


def _spawn(supervision: Supervision, mask: Collection[int], notes_path: str | None) -> int:
    # Python ignores these two signals at startup, and the command would inherit that.
    return os.posix_spawnp(
        supervision.command[0],
        supervision.command,
        _environ(supervision, notes_path),
        setpgroup=0,
        setsigmask=mask,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def _environ(supervision: Supervision, notes_path: str | None) -> dict[str, str]:
    """The variables of the command. Its processes are killed at the end of the budget."""
    budget_seconds = supervision.grace_seconds - EXIT_SECONDS
    environ = {**os.environ, **supervision.variables, GRACE.variable: repr(budget_seconds)}
    reserve_seconds = RESERVE.read().value
    if budget_seconds < reserve_seconds:
        reserve_seconds = budget_seconds / 4
        environ[RESERVE.variable] = repr(reserve_seconds)
    # A guard that has to end its process does so in the first half of the reserve. The launcher
    # kills its workers after that, and before it is killed itself. It takes whole seconds only.
    launcher_seconds = -int((reserve_seconds / 2 - budget_seconds) // 1)
    environ[_LAUNCHER_TIMEOUT] = environ.get(_LAUNCHER_TIMEOUT) or str(launcher_seconds)
    # One from outside belongs to another command.
    environ.pop(NOTES.variable, None)
    if notes_path is not None:
        environ[NOTES.variable] = notes_path
    return environ
