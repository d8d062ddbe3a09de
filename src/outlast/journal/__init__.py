"""What happened in each attempt: events, written as they come, and what follows from them."""

from outlast.journal.attempt import Ending, Grace
from outlast.journal.derive import AttemptSummary, Summary, summarise
from outlast.journal.events import (
    AttemptStarted,
    Dropped,
    Event,
    Failed,
    Fenced,
    FinalChoice,
    FinalDecision,
    Finished,
    Interrupted,
    Left,
    Metrics,
    NoticeArrived,
    Other,
    PassedOver,
    Progress,
    Resumed,
    Saved,
    SaveFailed,
)
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.journal.writer import JournalWriter

__all__ = [
    "AttemptRecord",
    "AttemptStarted",
    "AttemptSummary",
    "Dropped",
    "Ending",
    "Event",
    "Failed",
    "Fenced",
    "FinalChoice",
    "FinalDecision",
    "Finished",
    "Grace",
    "Interrupted",
    "JournalWriter",
    "Left",
    "Metrics",
    "NoticeArrived",
    "Other",
    "PassedOver",
    "Progress",
    "Resumed",
    "SaveFailed",
    "Saved",
    "Summary",
    "read_journal",
    "summarise",
]
