"""The journal of a run: the events of each attempt, and the figures derived from them."""

from outlast.journal.attempt import Ending, Grace
from outlast.journal.derive import AttemptSummary, Summary, summarise
from outlast.journal.events import (
    AttemptStarted,
    CheckpointGivenUp,
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
    "CheckpointGivenUp",
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
