"""The journal of a run: the events of each attempt, and the figures derived from them."""

from outlast.journal.attempt import Ending, Grace
from outlast.journal.derive import AttemptSummary, JournalSummary, summarize
from outlast.journal.events import (
    AttemptExited,
    AttemptFailed,
    AttemptFenced,
    AttemptInterrupted,
    AttemptStarted,
    CheckpointGivenUp,
    Dropped,
    Event,
    FinalChoice,
    FinalDecision,
    Metrics,
    NoticeArrived,
    PassedOver,
    Progress,
    Resumed,
    RunFinished,
    Saved,
    SaveFailed,
    UnknownEvent,
)
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.journal.writer import JournalWriter

__all__ = [
    "AttemptExited",
    "AttemptFailed",
    "AttemptFenced",
    "AttemptInterrupted",
    "AttemptRecord",
    "AttemptStarted",
    "AttemptSummary",
    "CheckpointGivenUp",
    "Dropped",
    "Ending",
    "Event",
    "FinalChoice",
    "FinalDecision",
    "Grace",
    "JournalSummary",
    "JournalWriter",
    "Metrics",
    "NoticeArrived",
    "PassedOver",
    "Progress",
    "Resumed",
    "RunFinished",
    "SaveFailed",
    "Saved",
    "UnknownEvent",
    "read_journal",
    "summarize",
]
