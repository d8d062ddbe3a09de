"""Decide from evidence whether the last attempt continued earlier work or started over. Pure.

The numbered lines that it printed come first, then the files that it read and wrote. Time alone is
never evidence: a start with a warm cache, or a busy machine, looks just like resumed or repeated
work.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from outlast.drills.run.evidence import AttemptEvidence
from outlast.drills.run.file_activity import FileActivity, group_of
from outlast.drills.run.printed import PrintedLines, Row, counting_columns

_LINES_MIN = 3
_KNOWN_SHARE = 0.9
_ALL_SHARE = 0.95
_SKIPPED_SHARE = 0.05
_SKIPPED_LINES = 2.0
_COVERED_SHARE = 0.7
_PROGRESS_SHARE = 0.35
_HOLES_PER_EVICTION = 2
_WRITES_MIN = 4
_FEWER_SHARE = 0.8


class Continuation(StrEnum):
    CONTINUED = "continued"
    STARTED_OVER = "started over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinuationEvidence:
    """What the evidence shows, as a sentence.

    `only_writes` means that it rests on which files were written and how often. A timer, a save of
    the best score alone or a file that is written only once change that too. `came_too_late` means
    that the last eviction left nothing to print, so another schedule could show more.
    """

    outcome: Continuation
    sentence: str
    only_writes: bool = False
    came_too_late: bool = False


def by_lines(
    baseline: PrintedLines, earlier: Sequence[PrintedLines], last: PrintedLines
) -> ContinuationEvidence:
    """What the numbered lines show. Lines printed again outweigh lines that were skipped."""
    if not all(one.complete for one in (baseline, *earlier, last)):
        return _unknown("the output is too long to compare")
    patterns = {
        pattern: columns
        for pattern, rows in baseline.rows.items()
        if len(rows) >= _LINES_MIN and (columns := counting_columns(rows)) is not None
    }
    main = next(reversed(patterns), None)
    found = [
        finding
        for pattern, columns in patterns.items()
        if (places := _places(pattern, columns, baseline, earlier, last)) is not None
        and (finding := _by_places(places, is_main=pattern == main)) is not None
    ]
    for outcome in (Continuation.STARTED_OVER, Continuation.CONTINUED, Continuation.UNKNOWN):
        for finding in found:
            if finding.outcome is outcome:
                return finding
    return _unknown("no numbered line of the output shows where it continued")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Places:
    """Where the lines of a pattern are among those of the baseline: before, and in the last."""

    total: int
    before: Sequence[set[int]]
    now: set[int]
    example: str

    @property
    def done(self) -> set[int]:
        return set().union(*self.before)

    def described(self, what: str) -> str:
        return f"{what} of {self.total} lines like {self.example!r}"


def _places(
    pattern: str,
    columns: tuple[int, ...],
    baseline: PrintedLines,
    earlier: Sequence[PrintedLines],
    last: PrintedLines,
) -> _Places | None:
    """None if the lines are not the same in every run, such as those that a timer selects."""

    def keys(lines: PrintedLines) -> list[Row]:
        return [tuple(row[index] for index in columns) for row in lines.rows.get(pattern, ())]

    known = {key: place for place, key in enumerate(dict.fromkeys(keys(baseline)))}
    found = []
    for one in (*earlier, last):
        printed = [known[key] for key in keys(one) if key in known]
        if len(printed) < _KNOWN_SHARE * len(keys(one)):
            return None
        found.append(set(printed))
    return _Places(
        total=len(known),
        before=found[:-1],
        now=found[-1],
        example=_example(pattern, (last, *reversed(earlier))),
    )


def _example(pattern: str, attempts: Sequence[PrintedLines]) -> str:
    examples = (one.examples[pattern] for one in attempts if pattern in one.examples)
    return next(examples, "a numbered line")


def _by_places(places: _Places, *, is_main: bool) -> ContinuationEvidence | None:
    """`is_main` marks the lines that the job ended with, as opposed to those of its startup."""
    total, done, now = places.total, places.done, places.now
    if not done or total < _LINES_MIN:
        return None
    if total - 1 in done and not is_main:
        # Earlier attempts printed them to the end, so they belong to the startup, or are done.
        return None
    if (finding := _by_gap(places)) is not None:
        return finding
    if len(done) == total and not now:
        # Work without lines may follow them, and whether it was resumed is unknown.
        sentence = (
            f"earlier attempts had printed {places.described(str(total))}, and it printed none"
        )
        return ContinuationEvidence(
            outcome=Continuation.UNKNOWN, sentence=sentence, came_too_late=True
        )
    if len(now) >= _ALL_SHARE * total:
        if sum(map(len, places.before)) < _PROGRESS_SHARE * total:
            return _unknown(f"earlier attempts had printed only {places.described(str(len(done)))}")
        sentence = f"{places.described(str(len(now)))} were printed again"
        return ContinuationEvidence(outcome=Continuation.STARTED_OVER, sentence=sentence)
    return None


def _by_gap(places: _Places) -> ContinuationEvidence | None:
    """Whether it printed the end of the lines, and earlier attempts those before it."""
    missing = [place for place in range(places.total) if place not in places.now]
    if not missing:
        return None
    first = missing[-1] + 1
    at_start = [place for place in places.now if place < first]
    skipped = len(places.done & set(missing))
    enough = max(1.0, min(_SKIPPED_LINES, _SKIPPED_SHARE * places.total))
    # If it printed none of them, the eviction came after them, in a part that they do not show. If
    # earlier attempts did not print most of what is missing, a timer may have selected the lines.
    is_at_end = first < places.total
    is_covered = skipped >= _COVERED_SHARE * len(missing)
    if not is_at_end or len(at_start) > 1 or skipped < enough or not is_covered:
        return None
    printed = places.described(str(places.total - first))
    sentence = f"it printed {printed}, and earlier attempts had printed {skipped} others"
    return ContinuationEvidence(outcome=Continuation.CONTINUED, sentence=sentence)


def never_printed(baseline: PrintedLines, attempts: Sequence[PrintedLines]) -> str | None:
    """The numbered lines of the baseline that no attempt printed, if they are too many.

    A kill can cost a line. More of them, of lines at regular distances, are work that was skipped.
    """
    for pattern, rows in baseline.rows.items():
        columns = counting_columns(rows)
        if (
            columns is None
            or len(columns) > 1
            or not _is_regular([row[columns[0]] for row in rows])
        ):
            continue
        places = _places(pattern, columns, baseline, attempts[:-1], attempts[-1])
        if places is None or not places.done or not places.now:
            continue
        holes = places.total - len(places.done | places.now)
        if holes > _HOLES_PER_EVICTION * len(places.before):
            return f"no attempt printed {places.described(str(holes))}"
    return None


def _is_regular(numbers: Sequence[int]) -> bool:
    distances = {other - one for one, other in itertools.pairwise(numbers)}
    return len(distances) == 1 and distances != {0}


def by_files(
    baseline: AttemptEvidence, earlier: Sequence[AttemptEvidence], last: FileActivity
) -> ContinuationEvidence:
    """What the files show that earlier attempts had left and that the last one read and wrote."""
    left = sorted(last.found)
    if not last.read & last.found and last.found <= last.touched:
        names = ", ".join(map(repr, left[:2]))
        sentence = f"it read nothing that earlier attempts had written ({names})"
        return ContinuationEvidence(outcome=Continuation.STARTED_OVER, sentence=sentence)
    if baseline.files is not None:
        for finding in _by_groups(baseline.files, [one.files for one in earlier], last):
            return finding
    return _unknown("its files do not show where it continued")


def _by_groups(
    baseline: FileActivity, earlier: Sequence[FileActivity | None], last: FileActivity
) -> Iterator[ContinuationEvidence]:
    expected, written = _writes(baseline), _writes(last)
    for group, count in expected.most_common():
        names = {path for path in baseline.written if group_of(path) == group}
        kept = (names & last.found) - last.touched
        is_unfinished = not names <= last.found
        if len(names) >= _LINES_MIN and is_unfinished and kept and written[group]:
            sentence = (
                f"it wrote {written[group]} of {len(names)} files like {min(names)!r}, and kept"
            )
            sentence += f" {len(kept)} of earlier attempts"
            yield ContinuationEvidence(
                outcome=Continuation.CONTINUED, sentence=sentence, only_writes=True
            )
        reads = {path for path in last.read & last.found if group_of(path) == group}
        wrote_before = any(one is not None and _writes(one)[group] for one in earlier)
        # Files that it does not write at all may be a cache that was prepared once.
        fewer = 1 <= written[group] <= min(_FEWER_SHARE * count, count - 2)
        if count >= _WRITES_MIN and wrote_before and reads and fewer:
            sentence = (
                f"it read {min(reads)!r} and wrote it {written[group]} times; the baseline wrote"
            )
            sentence += f" it {count} times"
            yield ContinuationEvidence(
                outcome=Continuation.CONTINUED, sentence=sentence, only_writes=True
            )


def _writes(activity: FileActivity) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path, count in activity.written.items():
        counts[group_of(path)] += count
    return counts


def _unknown(sentence: str) -> ContinuationEvidence:
    return ContinuationEvidence(outcome=Continuation.UNKNOWN, sentence=sentence)
