"""`outlast exec`: parse the command line and run the supervisor. Standard library only."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from outlast._base.durations import parse_duration
from outlast.cli.messages import print_error
from outlast.errors import OutlastError, SettingError
from outlast.supervisor import supervise

EXAMPLES = """\
  outlast exec -- python train.py
  outlast exec --grace 25s -- sh -c 'python prepare.py && python train.py'
  outlast exec -- torchrun --nproc-per-node=8 train.py   # exits with 75 if interrupted, not with 1
  outlast exec --distrust-zero -- ./trainer   # it exits 0 on SIGTERM, finished or not
"""


def main(arguments: Sequence[str]) -> int:
    try:
        options = _options(arguments)
        return supervise(
            options.command,
            grace_seconds=options.grace,
            distrust_zero=options.distrust_zero,
            grace_given_as="option --grace",
        )
    except OutlastError as error:
        # Imported when it is needed, because `outlast exec` must start at once.
        from outlast._redact import remember

        remember(*arguments)
        print_error(error)
        return int(getattr(error, "exit_code", 2))


def exec_command(*command: str, grace: str | None = None, distrust_zero: bool = False) -> None:
    """Run a command as the first process of a container: signals, zombies, grace, exit code.

    The command gets its own process group, and signals are forwarded to the entire group. After a
    notice, the command and all its descendants have the grace period to exit; then they are killed.

    Parameters
    ----------
    command: str
        The command and its arguments, after `--`.
    grace: str
        Time from a notice to SIGKILL, such as 25s. Default: OUTLAST_GRACE_SECONDS, or 15s.
    distrust_zero: bool
        Treat exit code 0 after a notice as interrupted. For programs that exit 0 whenever they are
        stopped, which would complete a Kubernetes Job with unfinished work.
    """
    raise AssertionError("The entry point runs `exec` before the application is built.")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="outlast exec",
        usage="outlast exec [--grace DURATION] [--distrust-zero] -- COMMAND [ARGUMENT ...]",
        description="Run a command as the first process of a container: forward signals to its\n"
        "process group, reap zombies, enforce the grace period, and exit with its code.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--grace",
        type=_grace,
        metavar="DURATION",
        help="time from a notice to SIGKILL, such as 25s (default: OUTLAST_GRACE_SECONDS, or 15s)",
    )
    parser.add_argument(
        "--distrust-zero",
        action="store_true",
        help="treat exit code 0 after a notice as interrupted; for programs that exit 0 on SIGTERM",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        raise SettingError(
            "No command was given.",
            hint="Add it after two dashes: outlast exec -- python train.py",
            source="command line",
        )
    return options


class _Parser(argparse.ArgumentParser):
    """Reports errors like the other commands."""

    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:]
        raise SettingError(sentence, hint="See `outlast exec --help`.", source="option")


def _grace(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
