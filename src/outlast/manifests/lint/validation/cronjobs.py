"""CronJobs and their schedules."""

import re
from typing import Any

from outlast.manifests.lint.validation.jobs import JobOwner, check_job_template
from outlast.manifests.lint.validation.refusal import (
    Refusals,
    choice,
    counted,
    invalid,
    mapping,
    required,
    text,
)

_POLICIES = ("Allow", "Forbid", "Replace")
_NAME_MAX = 52
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 6, _DAYS),
)
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = re.compile(r"@every\s+(?:\d+(?:\.\d+)?(?:h|m|s|ms|us|ns))+")


def check_cron_job(data: dict[str, Any]) -> Refusals:
    spec = mapping(data, "spec")
    name = text(mapping(data, "metadata"), "name")
    if len(name) > _NAME_MAX:
        yield invalid(
            ("metadata", "name"),
            f"the name has {len(name)} characters, but its Jobs get 11 more, so at most "
            f"{_NAME_MAX} are allowed",
            "Use a shorter name.",
        )
    yield from _schedule(spec)
    yield from counted(
        spec,
        ("spec",),
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    )
    yield from choice(spec, "concurrencyPolicy", ("spec",), _POLICIES)
    template = mapping(spec, "jobTemplate")
    yield from check_job_template(template, ("spec", "jobTemplate"), JobOwner(kind="CronJob"))


def _schedule(spec: dict[str, Any]) -> Refusals:
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    at = ("spec", "schedule")
    if schedule is None or schedule == "":
        yield required(at, "the schedule is missing")
    elif isinstance(schedule, str):
        if "TZ" in schedule:
            yield invalid(at, "a schedule has no time zone", "Set spec.timeZone instead.")
        elif problem := schedule_problem(schedule):
            yield invalid(at, problem, "Use five fields: minute, hour, day, month, weekday.")
    if isinstance(zone, str) and not _is_zone(zone):
        yield invalid(
            ("spec", "timeZone"), f"{zone!r} is not a time zone", "Use a name such as Europe/Paris."
        )


def schedule_problem(schedule: str) -> str | None:
    """What is wrong with a schedule in cron's format."""
    if schedule.startswith("@"):
        known = schedule in _NICKNAMES or _EVERY.fullmatch(schedule)
        return None if known else f"{schedule!r} is not a schedule"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"{schedule!r} has {len(fields)} fields instead of {len(_FIELDS)}"
    for given, (what, low, high, words) in zip(fields, _FIELDS, strict=True):
        if not all(_is_range(part, low, high, words) for part in given.split(",")):
            return f"{given!r} is not a {what} ({low}-{high})"
    return None


def _is_range(part: str, low: int, high: int, words: tuple[str, ...]) -> bool:
    span, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and int(step) > 0):
        return False
    if span in ("*", "?"):
        return True
    first, dash, last = span.partition("-")
    start = _position(first, low, words)
    end = _position(last, low, words) if dash else start
    return start is not None and end is not None and low <= start <= end <= high


def _position(word: str, low: int, words: tuple[str, ...]) -> int | None:
    if word.isdecimal() and len(word) < 5:
        return int(word)
    return words.index(word.lower()) + low if word.lower() in words else None


def _is_zone(name: str) -> bool:
    if not name or name.lower() == "local":
        return False
    # Imported here because few objects have a time zone.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # Without a database of time zones on this machine, nothing can be said.
        return not available_timezones()
    return True
