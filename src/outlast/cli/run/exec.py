"""`outlast exec`: parse the command line and run the supervisor. Standard library only.

An ordinary command line is parsed here. argparse, whose import would double the time to start, is
only asked for help and about mistakes; `_parser` is what both follow.
"""

from __future__ import annotations

import os

from outlast.errors import OutlastError, SettingError
from outlast.supervisor import supervise

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

EXAMPLES = """\
  outlast exec -- python train.py
  outlast exec --grace 25s -- sh -c 'python prepare.py && python train.py'
  outlast exec -- torchrun --nproc-per-node=8 train.py   # exits with 75 if interrupted, not with 1
  outlast exec --distrust-zero -- ./trainer   # it exits 0 on SIGTERM, finished or not
  outlast exec --durable -- python run_clm.py --output_dir out   # saves and resumes, unmodified
"""


def main(arguments: Sequence[str]) -> int:
    try:
        options = _options(arguments)
        return supervise(
            options.command,
            grace_seconds=options.grace,
            distrust_zero=options.distrust_zero,
            grace_given_as="option --grace",
            **(_durable(os.environ) if options.durable else {}),
        )
    except OutlastError as error:
        # Imported when it is needed, because `outlast exec` must start at once.
        from outlast._redact import remember
        from outlast.cli.messages import print_error

        remember(*arguments)
        print_error(error)
        return int(getattr(error, "exit_code", 2))


def exec_command(
    *command: str,
    grace: str | None = None,
    distrust_zero: bool = False,
    durable: bool = False,
) -> None:
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
    durable: bool
        Make the training of the command save and resume, without a change to its program, if it
        uses transformers.Trainer, Lightning's Trainer or fit of a Keras model. Checkpoints go to
        OUTLAST_RUN_URL or CHECKPOINT_DIR.
    """
    raise AssertionError("The entry point runs `exec` before the application is built.")


class ExecOptions:
    """The options of `outlast exec` and its command."""

    def __init__(self) -> None:
        self.grace: float | None = None
        self.distrust_zero = False
        self.durable = False
        self.command: list[str] = []


def _options(arguments: Sequence[str]) -> ExecOptions:
    options = _ordinary_options(arguments)
    if options is None:
        options = _parser().parse_args(arguments, namespace=ExecOptions())
        if options.command[:1] == ["--"]:
            del options.command[0]
    if not options.command:
        raise SettingError(
            "No command was given.",
            hint="Add it after two dashes: outlast exec -- python train.py",
            source="command line",
        )
    return options


def _ordinary_options(arguments: Sequence[str]) -> ExecOptions | None:
    """The options, or None if argparse has to decide what they mean or what is wrong."""
    options = ExecOptions()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--distrust-zero":
            options.distrust_zero = True
        elif argument == "--durable":
            options.durable = True
        elif argument == "--grace" and rest:
            options.grace = _seconds_or_none(rest.pop(0))
            if options.grace is None:
                return None
        elif argument == "--":
            options.command = rest
            return options
        elif argument.startswith("-"):
            return None
        else:
            options.command = [argument, *rest]
            return options
    return options


def _parser() -> argparse.ArgumentParser:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            """Report it like the other commands."""
            sentence = message[:1].upper() + message[1:]
            raise SettingError(sentence, hint="See `outlast exec --help`.", source="option")

    parser = Parser(
        prog="outlast exec",
        usage="outlast exec [--grace DURATION] [--distrust-zero] [--durable] "
        "-- COMMAND [ARGUMENT ...]",
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
    parser.add_argument(
        "--durable",
        action="store_true",
        help="make the command's transformers.Trainer, Lightning Trainer or Keras fit() save to\n"
        "OUTLAST_RUN_URL and resume, without a change to its program",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _durable(environ: Mapping[str, str]) -> dict[str, Any]:
    """What `supervise` takes to make the trainers of the command durable."""
    # Imported when it is needed, because `outlast exec` must start at once.
    from outlast.integrations import unmodified

    names = unmodified.URL_VARIABLES
    if not any(environ.get(name) for name in names):
        raise SettingError(
            "--durable needs a folder or URL for the checkpoints.",
            hint=f"Set {' or '.join(names)}.",
            source=f"variable {names[0]}",
        )

    def report(notes_path: str | None) -> None:
        if not unmodified.was_anything_durable(notes_path):
            from outlast.cli.messages import print_warning

            print_warning(
                "--durable had no effect: the command trained with none of "
                f"{', '.join(one.name for one in unmodified.FRAMEWORKS)}."
            )

    return {"variables": unmodified.variables(environ), "on_own_exit": report}


def _grace(text: str) -> float:
    import argparse

    from outlast._base.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds_or_none(text: str) -> float | None:
    from outlast._base.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        return None
