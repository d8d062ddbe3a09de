"""Checks of attempts that fail on their own, and of files that a kill left half written. Pure."""

import re

from outlast.drills.judge.verdict import (
    Check,
    CheckResult,
    Observations,
    failed,
    not_applicable,
    passed,
)
from outlast.drills.run.records import Attempt, AttemptEnd, Eviction, NodeExit

_WRITE_SAFELY = "Write to a temporary file, fsync it, then rename it."
_QUOTED_CHARACTERS_MAX = 200
# What programs print when they read a file that was cut off.
_TORN_WORDS = re.compile(
    r"JSONDecodeError|EOFError|UnpicklingError|BadZipFile|PytorchStreamReader|corrupt|truncated"
    r"|malformed|unexpected end|cut off|incomplete|checksum|not a zip|invalid header|torn",
    re.IGNORECASE,
)
_RANK = re.compile(r"^\[rank\d+\]:\s*")
_HINT = re.compile(r"(hint|note|help|tip|warning)\b|for more information|see ", re.IGNORECASE)
_ERROR = re.compile(r"([\w.]+\.)?\w*(Error|Exception|Interrupt)\b|(error|fatal|panic)\b", re.I)
# What an error says about its cause, and the advice that fits it.
_CAUSES = (
    (
        re.compile(r"No module named|cannot import name|ImportError"),
        "A module is missing. It runs in a folder of its own: use --workdir . to copy yours, or"
        " install the module.",
    ),
    (
        re.compile(r"address already in use|port \d+ is in use", re.IGNORECASE),
        "Do not wait for a fixed port that an evicted process may still hold.",
    ),
    (
        re.compile(r"out of memory|MemoryError|Killed", re.IGNORECASE),
        "It ran out of memory.",
    ),
    (
        re.compile(r"No such file|FileNotFoundError|not found", re.IGNORECASE),
        "It needs a file that an earlier attempt removed or had not written yet.",
    ),
)
_USED_FOLDER = "Make it start in a folder that an earlier attempt has used."


def files_intact(observed: Observations) -> Check:
    for one in observed.comparisons:
        if one.torn is not None:
            return failed("files-intact", f"{one.name} is incomplete: {one.torn}. {_WRITE_SAFELY}")
    for attempt in crashed(observed):
        before = _kill_before(observed, attempt)
        if before is not None and _failed_on_torn_file(attempt, before):
            names = ", ".join(before.torn or before.writing) or "its saved state"
            return failed(
                "files-intact",
                f"Attempt {attempt.number} failed on a file that was left half written when attempt"
                f" {before.attempt} was killed ({names}): {quoted_error(attempt)}. {_WRITE_SAFELY}",
            )
    return passed("files-intact", "No attempt failed on a half-written file.")


def no_crash(observed: Observations) -> Check:
    failures = crashed(observed)
    if not failures:
        return passed("no-crash", "No attempt failed on its own.")
    if files_intact(observed).result is CheckResult.FAIL:
        return not_applicable("no-crash", "Attempts failed on half-written files.")
    first = failures[0]
    return failed(
        "no-crash",
        f"{len(failures)} of {len(observed.job_run.attempts)} attempts failed on their own. The"
        f" first was attempt {first.number} with exit code {first.exit_code}:"
        f" {quoted_error(first)}. {_advice(first) or _USED_FOLDER}",
    )


def crashed(observed: Observations) -> list[Attempt]:
    return [one for one in observed.job_run.attempts if one.ended is AttemptEnd.FAILED]


def quoted_error(ended: Attempt | NodeExit) -> str:
    """The line of the output that states the error, not the hint after it."""
    line = _error_line(ended.output_tail)
    return repr(line[:_QUOTED_CHARACTERS_MAX]) if line else "it printed nothing"


def _error_line(tail: str) -> str:
    lines = [_RANK.sub("", line).strip() for line in tail.splitlines()]
    said = [line for line in lines if line and not _HINT.match(line)]
    errors = [line for line in said if _ERROR.match(line)]
    return (errors or said or [line for line in lines if line] or [""])[-1]


def _failed_on_torn_file(attempt: Attempt, before: Eviction) -> bool:
    if _TORN_WORDS.search(_error_line(attempt.output_tail)):
        return True
    if _advice(attempt) is not None:
        return False
    return bool(before.torn) or bool(_TORN_WORDS.search(attempt.output_tail))


def _advice(attempt: Attempt) -> str | None:
    error = _error_line(attempt.output_tail)
    return next((advice for cause, advice in _CAUSES if cause.search(error)), None)


def _kill_before(observed: Observations, attempt: Attempt) -> Eviction | None:
    """The last eviction by a kill before an attempt began."""
    kills = [
        one
        for one in observed.job_run.evictions
        if one.killed and one.at_seconds + one.left_seconds <= attempt.started_seconds + 0.001
    ]
    return max(kills, key=lambda one: one.at_seconds, default=None)
