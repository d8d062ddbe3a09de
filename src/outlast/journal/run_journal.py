"""The journal of a run as a value: its attempts, and the figures derived from them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from outlast.journal.attempt import plausible
from outlast.journal.derive import JournalSummary, summarize
from outlast.journal.reader import AttemptRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJournal:
    """The journal of a run: its attempts without implausible values, and a summary."""

    url: str
    records: tuple[AttemptRecord, ...]
    summary: JournalSummary

    @property
    def gaps(self) -> list[str]:
        """What is missing from the journal, one phrase each."""
        gaps = []
        if self.summary.lines_garbled:
            gaps.append(f"unreadable lines: {self.summary.lines_garbled:,}")
        if self.summary.events_dropped:
            gaps.append(f"dropped events: {self.summary.events_dropped:,}")
        return gaps


def journal_of(url: str, records: Sequence[AttemptRecord]) -> RunJournal:
    """The journal with these attempts. The newest one may still be running."""
    plain = tuple(plausible(record) for record in records)
    return RunJournal(url=url, records=plain, summary=summarize(plain))
