"""`outlast completion`: shell completion for `outlast`."""

from enum import StrEnum

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
    from outlast.cli.app import make_app

    app = make_app()
    if install:
        say(
            f"Installed to {app.install_completion(shell=shell.value)}. Open a new shell to use it."
        )
    else:
        write_document(app.generate_completion(shell=shell.value) + "\n")
