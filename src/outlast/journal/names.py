"""Where a journal lies in its store: `journal/000007-000001.jsonl` is segment 1 of attempt 7. Pure.

Objects are never appended to, so an attempt's journal is a row of small segments.
"""

import re
from typing import NamedTuple

FOLDER = "journal/"

_NAME = re.compile(r"journal/(\d{6,})-(\d{6,})\.jsonl", re.ASCII)


class SegmentName(NamedTuple):
    attempt: int
    segment: int

    def __str__(self) -> str:
        return f"{prefix_of(self.attempt)}{self.segment:06}.jsonl"


def prefix_of(attempt: int) -> str:
    """How the names of all segments of an attempt start."""
    return f"{FOLDER}{attempt:06}-"


def parse_name(name: str) -> SegmentName | None:
    """None for an object that is no segment."""
    match = _NAME.fullmatch(name)
    return match and SegmentName(int(match[1]), int(match[2]))
