"""The numbered lines that an attempt printed, as evidence of where it continued.

A line such as `step 12 loss 0.31` has a pattern, `step # loss .`, and integers. Fractions, times,
dates and addresses differ between runs, so they are masked. Progress bars, which overwrite their
line, are left out: they show what a timer selected, not what was done.
"""

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outlast._redact import redact

_READ_BYTES_MAX = 32 * 1024**2
_LINE_CHARACTERS_MAX = 400
_EXAMPLE_CHARACTERS_MAX = 60
_EXAMPLES_MAX = 200
_STYLING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VOLATILE = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ]\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?)?"
    r"|\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b"
    r"|\b1\d{9}(?:\d{3}){0,3}\b"
    r"|\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\b(?:nan|inf)\b"
)
_INTEGER = re.compile(r"\d+")

Row = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedLines:
    """The integers of each numbered line, by the digest of its pattern, in the printed order.

    The patterns are in the order of their last lines, so the last one is what the job ended with.
    `last` is the digest of the last line, with its integers. `examples` quotes one line for each
    pattern; a recording has none. `complete` is false if the log was too long to be read.
    """

    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    last: str | None = None
    examples: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True


def read_printed(log: Path) -> PrintedLines:
    """What an attempt printed, from its log."""
    try:
        with log.open("rb") as file:
            data = file.read(_READ_BYTES_MAX + 1)
    except OSError:
        return PrintedLines(complete=False)
    text = data[:_READ_BYTES_MAX].decode(errors="replace")
    return printed_lines(text, complete=len(data) <= _READ_BYTES_MAX)


def printed_lines(text: str, *, complete: bool = True) -> PrintedLines:
    rows: dict[str, list[Row]] = {}
    examples: dict[str, str] = {}
    last = None
    for line in _lines(text):
        masked = _VOLATILE.sub(".", line[:_LINE_CHARACTERS_MAX])
        last = _digest(masked)
        numbers = tuple(int(found) for found in _INTEGER.findall(masked))
        if numbers:
            pattern = _digest(_INTEGER.sub("#", masked))
            # The pattern that was printed last comes last.
            rows[pattern] = rows.pop(pattern, [])
            rows[pattern].append(numbers)
            examples[pattern] = line
    return PrintedLines(
        rows={pattern: tuple(found) for pattern, found in rows.items()},
        last=last,
        examples={
            # Redacted before it is cut, because half a secret would not be recognized.
            pattern: redact(line).strip()[:_EXAMPLE_CHARACTERS_MAX]
            for pattern, line in itertools.islice(examples.items(), _EXAMPLES_MAX)
        },
        complete=complete,
    )


def _lines(text: str) -> Iterator[str]:
    """The complete lines; of a line that was overwritten, its last state."""
    for line in _STYLING.sub("", text).split("\n")[:-1]:
        shown = line.rstrip("\r").rpartition("\r")[2].rpartition("\b")[2]
        if shown.strip():
            yield shown


def _digest(text: str) -> str:
    # Not the text itself, which may contain a secret and is kept in a recording.
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def reached_end(baseline: PrintedLines, lines: PrintedLines) -> bool | None:
    """Whether an attempt printed what the baseline printed at its end; None if unknown."""
    if baseline.last is not None and lines.last == baseline.last:
        return True
    for pattern, rows in baseline.rows.items():
        columns = counting_columns(rows)
        if columns is not None:
            printed = {tuple(row[i] for i in columns) for row in lines.rows.get(pattern, ())}
            if tuple(rows[-1][i] for i in columns) not in printed:
                return False
    return None


def counting_columns(rows: Sequence[Row]) -> tuple[int, ...] | None:
    """Which integers of a numbered line count up: `3` in `[pid 71] step 3 of 60`; None if none.

    Several integers can count together, such as an epoch and a batch.
    """
    varying = [index for index in range(len(rows[0])) if len({row[index] for row in rows}) > 1]
    for index in varying:
        if _ascends(rows, (index,)):
            return (index,)
    for count in range(2, len(varying) + 1):
        if _ascends(rows, tuple(varying[:count])):
            return tuple(varying[:count])
    for index in varying:
        if _ascends(rows, (index,), strictly=False):
            return (index,)
    return None


def _ascends(rows: Sequence[Row], columns: tuple[int, ...], *, strictly: bool = True) -> bool:
    keys = [tuple(row[index] for index in columns) for row in rows]
    pairs = itertools.pairwise(keys)
    return all(one < other or (not strictly and one == other) for one, other in pairs)
