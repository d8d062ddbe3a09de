"""Print errors: what happened, then what to do next. Standard library only."""

import os
import sys
from types import TracebackType

from outlast._base.terminal import escaped
from outlast.errors import OutlastError


def print_error(error: OutlastError) -> None:
    if sys.stderr is None:
        return
    print(f"{_red('error:')} {_safe(str(error))}", file=sys.stderr)
    if error.hint is not None:
        print(f"hint:  {_safe(error.hint)}", file=sys.stderr)


def print_warning(text: str) -> None:
    if sys.stderr is not None:
        print(f"warning: {_safe(text)}", file=sys.stderr)


def print_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback without secrets, control characters escaped. For `sys.excepthook`."""
    import traceback

    if sys.stderr is not None:
        sys.stderr.write(_safe("".join(traceback.format_exception(kind, error, trace))))


def _safe(text: str) -> str:
    """The text without secrets, and with control characters escaped."""
    # Imported when it is needed, because `outlast exec` must start at once. Errors are redacted
    # already, but perhaps before the secrets on the command line were known.
    from outlast._redact import redact

    return escaped(redact(text))


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if sys.stderr.isatty() and not plain:
        return f"\033[1;31m{text}\033[0m"
    return text
