"""How an error is shown: what happened, then what to do next. Standard library only."""

import os
import sys

from outlast.errors import OutlastError


def print_error(error: OutlastError) -> None:
    if sys.stderr is None:
        return
    print(f"{_red('error:')} {error}", file=sys.stderr)
    if error.hint is not None:
        print(f"hint:  {error.hint}", file=sys.stderr)


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if sys.stderr.isatty() and not plain:
        return f"\033[1;31m{text}\033[0m"
    return text
