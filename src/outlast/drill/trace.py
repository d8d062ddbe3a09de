"""Public traces of Spot capacity, as losses of nodes. Reading is here, scaling is in `schedule`.

Three shapes are known, each with a header line or without:
- JSON `{"metadata": {"gap_seconds": N}, "data": [0|1|count, ...]}`: how many nodes there were;
- CSV `milliseconds,add|remove,node`;
- CSV `date,time,count` or `time,count`, where a time is ISO 8601 or a number of seconds.

Times in real files go backwards: lines are sorted. Every drop of the count is a loss, and while
the count is 0 there is no replacement. Some simulators write 0 for available; here 1 is.
"""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from outlast.drill.errors import DrillError
from outlast.drill.schedule import EVICTIONS_MAX, Loss

BYTES_MAX = 64 * 1024**2
_HINT = "Known are spot-traces' JSON, 'ms,add|remove,node' and 'date,time,count'."


class _Count(NamedTuple):
    """So many nodes from this time on."""

    at_seconds: float
    nodes: float


def read_losses(path: Path, *, workers: int = 1) -> list[Loss]:
    """The losses in a trace, from its first node on. Raises `DrillError` if it cannot be read."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise DrillError(
                f"The trace {str(path)!r} is larger than {BYTES_MAX >> 20} MiB.",
                hint="Cut out the part that you want to drill.",
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DrillError(
            f"The trace {str(path)!r} cannot be read: {error.strerror}.", hint="Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise DrillError(f"The trace {str(path)!r} is not text.", hint=_HINT) from error
    try:
        counts = parse_counts(text)
    except ValueError as error:
        raise DrillError(f"The trace {str(path)!r} cannot be read: {error}", hint=_HINT) from error
    found = losses_of(counts, workers=workers)
    if not found:
        raise DrillError(
            f"The trace {str(path)!r} holds no loss of a node.",
            hint="Take another trace, or use --evictions.",
        )
    return found


def parse_counts(text: str) -> list[_Count]:
    """How many nodes there were over time, sorted by time. Raises `ValueError`."""
    if text.lstrip()[:1] in ("{", "["):
        counts = _from_json(text)
    else:
        counts = _from_lines(text)
    if len(counts) < 2:
        raise ValueError("It has fewer than two entries.")
    # Stable, so that what was written first at one time comes first.
    return sorted(counts, key=lambda count: count.at_seconds)


def losses_of(counts: Sequence[_Count], *, workers: int) -> list[Loss]:
    """One loss for each drop, or as many as there are workers if it is so deep."""
    began = next((count.at_seconds for count in counts if count.nodes > 0), None)
    losses: list[Loss] = []
    for index, (before, after) in enumerate(pairwise(counts)):
        drop = int(before.nodes - after.nodes)
        if began is None or drop < 1 or after.at_seconds <= began:
            continue
        outage_seconds = 0.0
        if after.nodes < 1:
            later = counts[index + 1 :]
            back = next((one.at_seconds for one in later if one.nodes >= 1), after.at_seconds)
            outage_seconds = back - after.at_seconds
        at_seconds = after.at_seconds - began
        losses += [Loss(at_seconds=at_seconds, outage_seconds=outage_seconds)] * min(drop, workers)
        if len(losses) >= EVICTIONS_MAX:
            break
    return losses[:EVICTIONS_MAX]


def _from_json(text: str) -> list[_Count]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"It is no JSON ({error}).") from None
    metadata = found.get("metadata") if isinstance(found, dict) else None
    data = found.get("data") if isinstance(found, dict) else None
    gap = metadata.get("gap_seconds") if isinstance(metadata, dict) else None
    if not isinstance(gap, int | float) or isinstance(gap, bool) or not 0 < gap < 1e9:
        raise ValueError("There is no 'gap_seconds' above 0 in its 'metadata'.")
    if not isinstance(data, list):
        raise ValueError("Its 'data' is no list.")
    for value in data:
        if not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ValueError(f"Its 'data' holds {value!r}, which is no number of nodes.")
    return [_Count(index * float(gap), float(value)) for index, value in enumerate(data)]


def _from_lines(text: str) -> list[_Count]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    numbered = list(enumerate(rows, start=1))
    if len(rows) > 1 and _is_header(rows[0]):
        del numbered[0]
    if any(len(row) > 1 and row[1] in ("add", "remove") for _, row in numbered):
        return _from_changes(numbered)
    return [_count(number, row) for number, row in numbered]


def _is_header(row: Sequence[str]) -> bool:
    return not any(character.isdigit() for cell in row for character in cell)


def _from_changes(rows: Sequence[tuple[int, Sequence[str]]]) -> list[_Count]:
    changes = []
    for number, row in rows:
        if len(row) < 2 or row[1] not in ("add", "remove"):
            raise ValueError(f"Line {number} says neither 'add' nor 'remove'.")
        changes.append((_number(number, row[0]) / 1000, 1 if row[1] == "add" else -1))
    counts, nodes = [_Count(0.0, 0.0)], 0
    for at_seconds, change in sorted(changes, key=lambda one: one[0]):
        nodes = max(0, nodes + change)
        counts.append(_Count(at_seconds, nodes))
    return counts


def _count(number: int, row: Sequence[str]) -> _Count:
    if len(row) not in (2, 3):
        raise ValueError(f"Line {number} has {len(row)} cells, not 2 or 3.")
    nodes = _number(number, row[-1])
    if nodes < 0:
        raise ValueError(f"Line {number} counts {row[-1]!r} nodes.")
    return _Count(_seconds(number, " ".join(row[:-1])), nodes)


def _seconds(number: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"Line {number} has {text!r} where a time is expected.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"Line {number} has {text!r} where a number is expected.") from None
    if not abs(value) < 1e15:
        raise ValueError(f"Line {number} has {text!r} where a number is expected.")
    return value
