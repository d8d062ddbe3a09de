"""The output of attempts: one bounded log file each. Reports show its last lines.

Secrets never reach a report or a kept log.
"""

import contextlib
import os
import re
from pathlib import Path

from outlast._base.terminal import escaped
from outlast._redact import redact

BYTES_MAX = 64 * 1024**2
"""A log that grows beyond this loses its first lines."""

TAIL_LINES = 15
_TAIL_BYTES = 16 * 1024
_LINE_CHARACTERS_MAX = 400
# Colors and cursor movements are removed; other control characters are shown as escapes.
_STYLING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# torchrun ends with a long report, after what the program itself has printed about its failure.
_LAUNCHER_REPORT = re.compile(r"^E\d{4} .* torch/distributed/elastic/", re.MULTILINE)


def has_output(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except OSError:
        return False


def tail(log: Path, lines: int = TAIL_LINES, *, launched: bool = False) -> str:
    """The last lines of a log, safe to show; of a launched program, without the launcher's."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        start = max(0, log.stat().st_size - _TAIL_BYTES)
        file.seek(start)
        text = file.read().decode(errors="replace")
        if start:
            # A partial line may start in the middle of a secret, which would not be recognized.
            text = text.partition("\n")[2]
        text = redact(_STYLING.sub("", text))
        if launched:
            text = _LAUNCHER_REPORT.split(text)[0].strip() or text
        # A progress bar overwrites its line; only its last state is kept.
        kept = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
        kept = [line for line in kept if line]
        shown = [escaped(line)[:_LINE_CHARACTERS_MAX] for line in kept[-lines:]]
        return redact("\n".join(shown))
    return ""


def redact_log(log: Path) -> None:
    """Mask the secrets in a kept log. If killed: it may be cut short."""
    with contextlib.suppress(OSError):
        text = log.read_bytes().decode(errors="surrogateescape")
        shown = redact(text)
        if shown != text:
            log.write_bytes(shown.encode(errors="surrogateescape"))


def count_lines(log: Path) -> int:
    lines = 0
    with contextlib.suppress(OSError), log.open("rb") as file:
        while data := file.read(1024**2):
            lines += data.count(b"\n")
    return lines


def keep_bounded(log: Path) -> int:
    """Cut off the start of a log that has grown too long. Returns the number of lines removed.

    If killed: the log may be empty. Its writers append, so they continue at its new end.
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
