"""Run a command: help, version, errors and exit codes are the same for all."""

import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from enum import Enum
from itertools import takewhile

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
)
from cyclopts import UnusedCliTokensError as SurplusArguments

from outlast._base.version import __version__
from outlast._redact import remember
from outlast.cli.commands import CLUSTER, COMMANDS, GROUPS, Command
from outlast.cli.messages import print_error
from outlast.cli.printing import make_streams_safe, say
from outlast.errors import MissingExtra, OutlastError
from outlast.queue.errors import QueueUnavailable
from outlast.results.errors import SinkUnavailable
from outlast.yamltext.errors import PlanningPackageMissing


def make_app(only: str | None = None) -> App:
    """The command line with all commands, or with one of them, which is quicker."""
    app = App(
        name="outlast",
        help="Make AI workloads finish on capacity that will be taken away.",
        version=f"outlast {__version__}",
        help_epilogue="Examples:\n  outlast drill -- python train.py\n  outlast plan workload.yaml",
        help_format="plaintext",
        result_action="return_value",
        default_parameter=Parameter(negative=(), show_default=_shown_default),
        group_commands=Group("Options", sort_key=len(GROUPS)),
    )
    groups = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS)}
    for command in COMMANDS:
        if only in (None, command.name):
            app.command(
                command.path,
                name=command.name,
                group=groups[command.group],
                help=command.description() if only else command.summary(),
                help_epilogue=command.epilogue,
            )
    return app


def _shown_default(value: object) -> str | None:
    """The default as help shows it: nothing for flags, which are off unless they are given."""
    if value is None or value is False or value == ():
        return None
    return str(value.value if isinstance(value, Enum) else value)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A user's mistake never shows a traceback."""
    # A driver may quote the password of a URL on its own.
    remember(*arguments)
    command = next((one for one in COMMANDS if [one.name] == list(arguments[:1])), None)
    name = command.name if command else None
    if sys.stdout is None:
        # Standard output was closed on purpose, but libraries that print still need a stream.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123 - it stays for good
    make_streams_safe()
    try:
        if command:
            command.refuse_renamed(arguments)
        code = make_app(name)(list(arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except CycloptsError as error:
        print_error(_as_usage_error(error, name))
        return 2
    except (QueueUnavailable, SinkUnavailable) as error:
        print_error(error)
        return 3
    except (PlanningPackageMissing, MissingExtra) as error:
        missing = _as_missing_extra(error, command)
        if command and {"--help", "-h"} & set(takewhile(lambda word: word != "--", arguments)):
            _print_partial_help(command, hint=str(missing.hint))
            return 0
        print_error(missing)
        return 2
    except OutlastError as error:
        print_error(error)
        return int(getattr(error, "exit_code", 2))
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):
            # The reader, such as `head`, has read enough. Not 0, which would state that a drill
            # or a lint has passed: the code of a program that SIGPIPE ends.
            return 128 + signal.SIGPIPE
        print_error(OutlastError(f"{error}.", hint="Check the path and the free disk space."))
        return 3


def _as_missing_extra(error: OutlastError, command: Command | None) -> OutlastError:
    """The first package that is missing may not be the only one that the command needs."""
    if isinstance(error, PlanningPackageMissing) and command and command.group == CLUSTER:
        return MissingExtra("cluster", needed_for=f"`outlast {command.name}`")
    return error


def _print_partial_help(command: Command, *, hint: str) -> None:
    """What a command does, if packages that its options need are not installed."""
    width = shutil.get_terminal_size().columns
    say(f"Usage: outlast {command.name} ...\n")
    for paragraph in command.description().split("\n\n"):
        say(textwrap.fill(paragraph, width), end="\n\n")
    say(command.epilogue, end="\n\n")
    say(f"The options are shown once its packages are installed. {hint}")


def _discard_output() -> None:
    """Keep Python from flushing to the broken stream at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_usage_error(error: CycloptsError, name: str | None) -> OutlastError:
    unused = [str(token) for token in error.unused_tokens or ()]
    if unused and isinstance(error, UnknownCommandError):
        return _unknown_command(unused[0])
    text = _in_plain_words(error)
    if unused and isinstance(error, SurplusArguments):
        text = f"Unexpected argument {unused[0]!r}."
    return OutlastError(text, hint=f"See `{f'outlast {name}' if name else 'outlast'} --help`.")


def _in_plain_words(error: CycloptsError) -> str:
    """The text of the two mistakes that cyclopts describes in the terms of a programmer."""
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        return f"{name} needs a value." if name.startswith("-") else f"Missing argument: {name}."
    if isinstance(error, CoercionError) and error.msg is None and error.token is not None:
        expected = {int: "a whole number", float: "a number"}.get(error.target_type or str)
        if expected and error.token.keyword:
            value = error.token.value
            return f"Invalid value for {error.token.keyword}: Expected {expected}, got {value!r}."
    return str(error)


def _unknown_command(written: str) -> OutlastError:
    """The text of cyclopts would import all commands, whose packages may not be installed."""
    similar = get_close_matches(written, [command.name for command in COMMANDS], n=1)
    meant = f" Did you mean '{similar[0]}'?" if similar else ""
    kind = "option" if written.startswith("-") else "command"
    return OutlastError(f"Unknown {kind} {written!r}.{meant}", hint="See `outlast --help`.")
