"""`outlast completion`: what a shell needs to complete `outlast` on TAB."""

from enum import StrEnum


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Shell, /, *, install: bool = False) -> None:
    """Print or install the completion of a shell.

    Parameters
    ----------
    shell: Shell
        bash, zsh or fish.
    install: bool
        Write it where the shell looks, and add a line to the shell's start-up file if it needs one.
    """
    from outlast.cli.app import app

    if install:
        print(
            f"Written to {app.install_completion(shell=shell.value)}. Open a new shell to use it."
        )
    else:
        print(app.generate_completion(shell=shell.value))
