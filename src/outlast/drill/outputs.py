"""What an attempt printed: a file each, bounded, of which the tail is shown.

Passwords in URLs never reach a report.
"""

import contextlib
import os
import re
from pathlib import Path

BYTES_MAX = 64 * 1024**2
"""A log that grows beyond this loses its beginning."""

TAIL_LINES = 15
_TAIL_BYTES = 16 * 1024
_LINE_CHARACTERS_MAX = 400
_CREDENTIALS = re.compile(r"(://[^\s/:@]*):[^\s/@]+@")
# What unshare says when its child was killed, which is ours to know.
_OURS = "unshare: sigprocmask"
# What a terminal would act on has no place in a report.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def redacted(text: str) -> str:
    return _CREDENTIALS.sub(r"\1:***@", text)


def has_output(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except OSError:
        return False


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, fit to be shown."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
        # A progress bar overwrites its line again and again; its last state is what counts.
        kept = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
        kept = [line for line in kept if line and not line.startswith(_OURS)]
        shown = [_CONTROL.sub("", line)[:_LINE_CHARACTERS_MAX] for line in kept[-lines:]]
        return redacted("\n".join(shown))
    return ""


def says_killed(log: Path) -> bool:
    """Whether the namespace says that process 1 was killed from outside the drill."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").rpartition(_OURS)[2].count("\n") == 1
    return False


def count_lines(log: Path) -> int:
    lines = 0
    with contextlib.suppress(OSError), log.open("rb") as file:
        while data := file.read(1024**2):
            lines += data.count(b"\n")
    return lines


def keep_bounded(log: Path) -> int:
    """Cut off the beginning of a log that has grown too long. Gives the number of lines cut off.

    If killed: the log may be empty. Its writers append, so they go on at its new end.
    """
    with contextlib.suppress(OSError):
        if log.stat().st_size <= BYTES_MAX:
            return 0
        lines = count_lines(log)
        with log.open("rb") as file:
            file.seek(-_TAIL_BYTES, os.SEEK_END)
            last = file.read()
        os.truncate(log, 0)
        with log.open("ab") as file:
            file.write(last)
        return lines - last.count(b"\n")
    return 0
