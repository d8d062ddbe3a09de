"""A cause, and how it is read from texts of the cluster. Pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import ConditionFact, EventFact, PodFact
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.errors import shown

READ_CHARACTERS_MAX = 4096
"""Texts are searched up to here. The API server allows 1 kB for events and 32 kB for conditions."""

Match = Callable[[Snapshot], Diagnosis | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Why a run waits. `seen_in` is where to look; `match` returns None if it does not apply."""

    id: str
    title: str
    seen_in: str
    match: Match


@dataclass(frozen=True, kw_only=True, slots=True)
class EndingCause:
    """How the attempt of a Pod ended."""

    id: str
    title: str
    seen_in: str
    match: Callable[[Snapshot, PodFact], Diagnosis | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text that is recognized. `{0}`, `{1}` in the summary and next step are its groups."""

    cause: str
    pattern: str
    summary: str
    next_step: str

    def read(self, evidence: Evidence, *more: Evidence) -> Diagnosis | None:
        found = re.search(self.pattern, evidence.text[:READ_CHARACTERS_MAX], re.I | re.S)
        if found is None:
            return None
        groups = [name(group or "") for group in found.groups()]
        return Diagnosis(
            cause=self.cause,
            summary=self.summary.format(*groups),
            next_step=self.next_step.format(*groups),
            evidence=(evidence, *more),
        )


def first_read(texts: Iterable[Text], evidence: Evidence, *more: Evidence) -> Diagnosis | None:
    return next((found for text in texts if (found := text.read(evidence, *more))), None)


def name(text: str) -> str:
    """A name from the cluster inside a sentence: on one line, and short."""
    return shown(text, characters_max=120)


def event_evidence(event: EventFact) -> Evidence:
    return Evidence(where=f"event {name(event.reason)}", text=event.message, seen=event.last_seen)


def condition_evidence(of: str, condition: ConditionFact) -> Evidence:
    status = {True: "True", False: "False", None: "Unknown"}[condition.is_true]
    where = f"{of}, condition {name(condition.type)}={status}"
    text = ": ".join(part for part in (condition.reason, condition.message) if part)
    return Evidence(where=where, text=text, seen=condition.since)


def clock(time: datetime, now: datetime) -> str:
    """A time of day in UTC, with the date unless it is today."""
    time = time.astimezone(UTC)
    day = "" if time.date() == now.astimezone(UTC).date() else f"{time.date()} "
    return f"{day}{time.hour:02}:{time.minute:02}:{time.second:02} UTC"


def later(time: datetime, seconds: float) -> datetime:
    """A time plus some seconds, or the last time there is: an object may carry any year."""
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
