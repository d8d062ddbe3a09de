"""Commands as functions, whose options are parsed as on the command line."""

from collections.abc import Callable, Iterator
from typing import Any

from cyclopts import CycloptsError

from outlast.cli.app import make_app
from outlast.errors import OutlastError


def command(name: str) -> Callable[..., Any]:
    """The command. A keyword becomes an option: a list repeats it, a tuple is its values."""

    def call(*arguments: object, **options: object) -> Any:
        words = [name, *map(str, arguments), *_words(options)]
        try:
            return make_app(name)(words, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            raise OutlastError(str(error)) from error

    return call


def _words(options: dict[str, object]) -> Iterator[str]:
    for name, given in options.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if given is True:
            yield option
        elif isinstance(given, tuple):
            yield from [option, *map(str, given)]
        elif given is not None:
            yield from (
                f"{option}={one}" for one in (given if isinstance(given, list) else [given])
            )
