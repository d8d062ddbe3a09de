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
    StepsPlanned,
    UnknownEvent,
)
from outlast.journal.follow import JournalFollower, run_urls
from outlast.journal.place import AttemptPlace
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.journal.writer import JournalWriter

__all__ = [
    "AttemptExited",
    "AttemptFailed",
    "AttemptFenced",
    "AttemptInterrupted",
    "AttemptPlace",
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
    "JournalFollower",
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
    "StepsPlanned",
    "UnknownEvent",
    "read_journal",
    "run_urls",
    "summarize",
]
