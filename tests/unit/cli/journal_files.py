"""Journals for tests: written as a run writes them, with all that is in them known."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from outlast.journal.events import (
    AttemptExited,
    AttemptFailed,
    AttemptInterrupted,
    AttemptStarted,
    Event,
    FinalChoice,
    FinalDecision,
    NoticeArrived,
    Progress,
    Resumed,
    RunFinished,
    Saved,
)
from outlast.journal.lines import Segment, encode, encode_segment
from outlast.journal.reader import AttemptRecord

START = datetime(2026, 8, 21, 10, 0, tzinfo=UTC)


def write_journal(folder: Path, records: Iterable[AttemptRecord]) -> str:
    """The run's address. Every attempt has one segment."""
    (folder / "journal").mkdir(parents=True, exist_ok=True)
    for record in records:
        lines = [
            encode_segment(Segment(f"writer-{record.attempt}", 1)),
            *map(encode, record.events),
        ]
        (folder / f"journal/{record.attempt:06}-000001.jsonl").write_bytes(b"".join(lines))
    return str(folder)


@dataclass
class Simulated:
    """A run of equal steps that writes its journal, and knows itself where its time went.

    A save is durable before the next step is done, and a kill comes right after a line.
    """

    step_seconds: float = 60.0
    clock_seconds: float = 0.0
    step: int = 0
    saved_step: int | None = None
    records: list[AttemptRecord] = field(default_factory=list)
    truth: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("work", "redone work", "saving", "starting", "shutting down", "waiting"), 0.0
        )
    )
    _events: list[Event] = field(default_factory=list)

    def start(self, *, load_seconds: float = 0.0, warm_seconds: float = 0.0) -> None:
        attempt = len(self.records) + 1
        self._tell(AttemptStarted(at=self._at(), attempt=attempt, host="node", pid=1))
        if self.saved_step is not None:
            self.step = self.saved_step
            self._spend("starting", load_seconds)
            self._tell(
                Resumed(at=self._at(), step=self.step, seconds=load_seconds / 2, bytes_read=1)
            )
        else:
            self.step = 0
        self._spend("starting", warm_seconds)

    def work(self, steps: int, *, save_every: int | None = None, stall: float = 0.0) -> None:
        """Steps, every one of them told of."""
        for _ in range(steps):
            self._spend("work", self.step_seconds)
            self.step += 1
            due = save_every is not None and self.step % save_every == 0
            if due:
                seconds = stall + self.step_seconds / 2
                done = self._at(seconds)
                self._spend("saving", stall)
                self._tell(Progress(at=self._at(), step=self.step))
                self._tell(self._save(done, seconds, stall))
            else:
                self._tell(Progress(at=self._at(), step=self.step))

    def kill(self, *, wait_seconds: float = 0.0) -> None:
        lost = (self.step - (self.saved_step or 0)) * self.step_seconds
        self.truth["work"] -= lost
        self.truth["redone work"] += lost
        # What a save was still doing when the kill came is not known.
        self.clock_seconds = max(self.clock_seconds, self._last_told())
        self._end(wait_seconds)

    def fail(self, error: str) -> None:
        self._tell(AttemptFailed(at=self._at(), step=self.step, error=error))
        self._tell(AttemptExited(at=self._at(), exit_code=1, step=self.step))
        self._end(0.0)

    def evict(self, *, final_seconds: float, wait_seconds: float = 0.0) -> None:
        self._tell(
            NoticeArrived(at=self._at(), source="signal", reason="SIGTERM", seconds_left=25.0)
        )
        # A save that is being written is waited for.
        self._spend("shutting down", max(0.0, self._last_told() - self.clock_seconds))
        self._spend("shutting down", final_seconds / 4)
        self._tell(FinalDecision(at=self._at(), step=self.step, choice=FinalChoice.FULL))
        self._spend("shutting down", final_seconds / 2)
        seconds = final_seconds / 2
        self._tell(self._save(self._at(), seconds, seconds, final=True))
        self._spend("shutting down", final_seconds / 4)
        self._tell(AttemptInterrupted(at=self._at(), step=self.step, reason="SIGTERM"))
        self._tell(AttemptExited(at=self._at(), exit_code=75, step=self.step))
        self._end(wait_seconds)

    def finish(self) -> list[AttemptRecord]:
        self.clock_seconds = max(self.clock_seconds, self._last_told())
        self._tell(RunFinished(at=self._at(), step=self.step))
        self._end(0.0)
        return self.records

    @property
    def seconds(self) -> float:
        return self.clock_seconds

    def _save(self, at: datetime, seconds: float, stall: float, *, final: bool = False) -> Saved:
        self.saved_step = self.step
        return Saved(
            at=at,
            step=self.step,
            stall_seconds=stall,
            seconds=seconds,
            bytes_total=10**9,
            bytes_new=10**9,
            final=final,
        )

    def _end(self, wait_seconds: float) -> None:
        record = AttemptRecord(attempt=len(self.records) + 1, events=tuple(self._events))
        self.records.append(record)
        self._events = []
        self._spend("waiting", wait_seconds)

    def _tell(self, event: Event) -> None:
        self._events.append(event)

    def _spend(self, part: str, seconds: float) -> None:
        self.clock_seconds += seconds
        self.truth[part] += seconds

    def _at(self, later_seconds: float = 0.0) -> datetime:
        return START + timedelta(seconds=self.clock_seconds + later_seconds)

    def _last_told(self) -> float:
        return max((event.at - START).total_seconds() for event in self._events)


def random_run(chance: random.Random) -> Simulated:
    """Some lives of a run, each of at least two steps, and its end."""
    run = Simulated(step_seconds=chance.uniform(1, 100))
    for _ in range(chance.randrange(6)):
        run.start(load_seconds=chance.uniform(0, 500), warm_seconds=chance.uniform(0, 500))
        run.work(chance.randrange(2, 30), save_every=chance.randrange(2, 9), stall=3.0)
        if chance.random() < 0.5:
            run.kill(wait_seconds=chance.uniform(0, 900))
        else:
            run.evict(final_seconds=chance.uniform(0, 20), wait_seconds=chance.uniform(0, 900))
    run.start(load_seconds=chance.uniform(0, 500), warm_seconds=chance.uniform(0, 500))
    run.work(chance.randrange(2, 30), save_every=5, stall=2.0)
    run.finish()
    return run
