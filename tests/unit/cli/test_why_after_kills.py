"""After kills and notices, `why` and `learn` report what a run cost, and how long it waited."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from outlast.capacity.planning.learn import learn
from outlast.capacity.planning.why import cost_breakdown, total_amount
from outlast.journal.attempt import plausible
from outlast.journal.derive import summarize
from outlast.journal.events import (
    AttemptExited,
    AttemptInterrupted,
    AttemptStarted,
    NoticeArrived,
    Progress,
    Resumed,
    RunFinished,
    Saved,
)
from outlast.journal.follow import JournalFollower
from outlast.journal.reader import read_journal
from outlast.journal.run_journal import RunJournal
from outlast.journal.signs import sign_pause
from outlast.journal.writer import JournalWriter
from outlast.measured import measurements_in, time_breakdown
from outlast.storage.memory import MemoryStore
from tests.unit.cli.journal_files import START

PRICE = Decimal(36)
MIXTURES = 200


@dataclass
class ClockedRun:
    """A run on a clock of its own, written by the runtime's journal writer."""

    chance: random.Random
    step_seconds: float
    seconds: float = 0.0
    paid_seconds: float = 0.0
    waited_seconds: float = 0.0
    step: int = 0
    saved: int = 0
    attempts: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore()

    def attempt(self, life_seconds: float, ending: str) -> None:
        """One attempt that lives this long, from its first event to its end."""
        self.attempts += 1
        journal = JournalWriter(
            self.store,
            self.attempts,
            background=False,
            signs_of_life=True,
            now=lambda: self.seconds,
            clock=self.at,
        )
        begun, end = self.seconds, self.seconds + life_seconds
        journal.record(AttemptStarted(at=self.at(), attempt=self.attempts, host="a", pid=1))
        journal.flush_if_due()
        load = min(self.chance.uniform(0, 20), life_seconds / 2)
        self._live(journal, begun, begun + load, steps=False)
        if self.saved:
            journal.record(Resumed(at=self.at(), step=self.saved, seconds=load, bytes_read=1))
        self.step = self.saved
        self._live(journal, begun, end, steps=True)
        if ending == "notice":
            self._leave(journal)
        elif ending == "finish":
            journal.record(RunFinished(at=self.at(), step=self.step))
            journal.close()
        # A kill writes nothing, and what was not written is lost.
        self.paid_seconds += self.seconds - begun

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.waited_seconds += seconds

    def at(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def _live(self, journal: JournalWriter, begun: float, end: float, *, steps: bool) -> None:
        """Let the time pass from sign to sign, as the background thread does."""
        first_step, first_seconds = self.step, self.seconds
        while self.seconds < end:
            pause = sign_pause(self.seconds - begun)
            self.seconds = min(self.seconds + pause, end)
            if self.seconds == end:
                break
            if steps:
                self.step = first_step + int((self.seconds - first_seconds) / self.step_seconds)
                journal.record(Progress(at=self.at(), step=self.step))
                if self.chance.random() < 0.02:
                    self._save(journal)
            journal.flush_if_due()

    def _save(self, journal: JournalWriter, *, final: bool = False) -> None:
        self.saved = self.step
        journal.record(
            Saved(
                at=self.at(),
                step=self.step,
                stall_seconds=0.0,
                seconds=0.0,
                bytes_total=1,
                bytes_new=1,
                final=final,
            )
        )

    def _leave(self, journal: JournalWriter) -> None:
        journal.record(NoticeArrived(at=self.at(), source="s", reason="SIGTERM", seconds_left=25.0))
        self.seconds += self.chance.uniform(1, 15)
        self._save(journal, final=True)
        journal.record(AttemptInterrupted(at=self.at(), step=self.step, reason="SIGTERM"))
        journal.record(AttemptExited(at=self.at(), exit_code=75, step=self.step))
        journal.close()


def random_mixture(seed: int) -> ClockedRun:
    """Kills and notices after lives of a minute to an hour, and waits of minutes to an hour.

    The runs differ in their typical life, typical wait and share of kills.
    """
    chance = random.Random(seed)
    run = ClockedRun(chance, step_seconds=10 ** chance.uniform(-1, 1.5))
    typical_life, typical_wait = 60 * 60 ** chance.random(), 120 * 15 ** chance.random()
    kills = chance.random()
    for _ in range(chance.randint(3, 12)):
        ending = "kill" if chance.random() < kills else "notice"
        run.attempt(typical_life * chance.uniform(0.3, 2), ending)
        run.wait(typical_wait * chance.uniform(0.5, 2))
    run.attempt(typical_life, "finish")
    return run


def journal_of(run: ClockedRun) -> RunJournal:
    records = tuple(plausible(record) for record in read_journal(run.store))
    return RunJournal(url="run", records=records, summary=summarize(records))


@pytest.mark.parametrize("seed", range(MIXTURES))
def test_cost_and_waiting_are_close_to_the_truth(seed: int) -> None:
    run = random_mixture(seed)
    journal = journal_of(run)

    spent = time_breakdown(journal)
    parts = cost_breakdown(spent, price=PRICE)
    cost = total_amount(parts)
    learned = measurements_in([journal])

    truth = PRICE * Decimal(repr(run.paid_seconds)) / 3600
    assert cost is not None
    assert float(cost) == pytest.approx(float(truth), rel=0.02)
    assert spent.waiting_seconds == pytest.approx(run.waited_seconds, rel=0.05)
    # What is unknown is bounded, and the bound holds.
    uncertain = journal.summary.uncertain_seconds
    assert abs(spent.running_seconds - run.paid_seconds) <= uncertain + 1e-3
    # All figures agree with each other.
    assert spent.running_seconds == pytest.approx(journal.summary.running_seconds)
    assert spent.waiting_seconds == pytest.approx(sum(learned.waits_seconds))
    assert sum(part.seconds for part in parts) == pytest.approx(spent.total_seconds)
    assert learned.running_seconds == pytest.approx(spent.running_seconds)
    assert learn(learned).between_interruptions is not None


def test_a_follower_sees_the_same_figures() -> None:
    run = random_mixture(5)
    follower = JournalFollower(run.store)
    follower.look()

    assert summarize(follower.records) == summarize(read_journal(run.store))


def test_short_attempts_that_were_all_killed() -> None:
    """Ten seconds each: without signs of life, half of each would look like waiting."""
    run = ClockedRun(random.Random(1), step_seconds=0.5)
    for _ in range(20):
        run.attempt(run.chance.uniform(6, 15), "kill")
        run.wait(10)
    run.attempt(10, "finish")

    spent = time_breakdown(journal_of(run))

    assert spent.running_seconds == pytest.approx(run.paid_seconds, rel=0.03)
    assert spent.waiting_seconds == pytest.approx(run.waited_seconds, rel=0.03)


def test_signs_of_life_are_few() -> None:
    run = ClockedRun(random.Random(1), step_seconds=1)
    run.attempt(86_400, "kill")
    assert len(run.store.list("journal/")) < 4500
