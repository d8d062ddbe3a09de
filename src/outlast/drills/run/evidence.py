"""What is known about each attempt from outside: what it printed and what it did with files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from outlast.drills.run.file_activity import FileActivity
from outlast.drills.run.outputs import count_lines
from outlast.drills.run.printed import PrintedLines, read_printed
from outlast.drills.run.records import Attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEvidence:
    """`files` is None if its activity is unknown."""

    printed: PrintedLines
    files: FileActivity | None = None


JobEvidence: TypeAlias = Mapping[int, AttemptEvidence]
"""By the number of the attempt."""


def evidence_as_json(evidence: AttemptEvidence) -> dict[str, object]:
    """What a recording keeps: no text of the output, which may contain a secret."""
    printed, files = evidence.printed, evidence.files
    return {
        "rows": {pattern: list(map(list, rows)) for pattern, rows in printed.rows.items()},
        "last": printed.last,
        "complete": printed.complete,
        "written": None if files is None else dict(files.written),
        "left": [] if files is None else sorted(files.left),
    }


def evidence_from_json(kept: Mapping[str, Any]) -> AttemptEvidence:
    rows = {pattern: tuple(map(tuple, rows)) for pattern, rows in kept["rows"].items()}
    printed = PrintedLines(rows=rows, last=kept["last"], complete=kept["complete"])
    written = kept["written"]
    left = frozenset(kept["left"])
    files = None if written is None else FileActivity(written=dict(written), left=left)
    return AttemptEvidence(printed=printed, files=files)


def log_path(logs: Path, number: int) -> Path:
    return logs / f"attempt-{number:04}.log"


def node_log_path(logs: Path, number: int, node: int) -> Path:
    """The log of one of several nodes. That of the first is what the attempt printed."""
    log = log_path(logs, number)
    return log if node == 0 else log.with_stem(f"{log.stem}-node-{node}")


def read_job_evidence(
    logs: Path, attempts: Iterable[Attempt], activity: Mapping[int, FileActivity | None]
) -> JobEvidence:
    """The evidence of each attempt of a run."""
    return {
        one.number: AttemptEvidence(
            printed=_printed(log_path(logs, one.number), one), files=activity.get(one.number)
        )
        for one in attempts
    }


def _printed(log: Path, attempt: Attempt) -> PrintedLines:
    """What it printed. A log that grew too long has lost its first lines."""
    printed = read_printed(log)
    is_whole = count_lines(log) == attempt.output_lines
    return replace(printed, complete=printed.complete and is_whole)
