"""`outlast completion`: shell completion for `outlast`."""

from enum import StrEnum
from pathlib import Path

from cyclopts import App

from outlast.cli.printing import say, write_document


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Shell, /, *, install: bool = False) -> None:
    """Print or install shell completion.

    Parameters
    ----------
    shell: Shell
        bash, zsh or fish.
    install: bool
        Install it where the shell looks for it, and edit its startup file if needed.
    """
    # The entry point prints the scripts by itself, unless there is something to report.
    script = (Path(__file__).parent / f"completions/outlast.{shell.value}").read_text()
    if not install:
        write_document(script)
        return
    # An application without commands finds the place. All commands would need all extras.
    place = App(name="outlast").install_completion(shell=shell.value)
    place.write_text(script)
    say(f"Installed to {place}. Open a new shell to use it.")
