"""Where the time of a run went adds up, and is what it was; whatever a journal holds."""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from outlast.capacity.planning.learn import learn
from outlast.capacity.planning.why import best_change, cost_breakdown, total_amount
from outlast.cli.plan.journals import open_journal_with_warning
from outlast.errors import OutlastError
from outlast.journal.attempt import plausible
from outlast.journal.derive import summarize
from outlast.journal.events import (
    AttemptExited,
    AttemptFailed,
    AttemptStarted,
    Dropped,
    Event,
    NoticeArrived,
    Progress,
    Resumed,
    RunFinished,
    Saved,
)
from outlast.journal.reader import AttemptRecord
from outlast.journal.run_journal import RunJournal
from outlast.measured import measurements_in, node_count, time_breakdown
from tests.unit.cli.journal_files import START, Simulated, random_run, write_journal

SEED = 11
PRICE = Decimal("999999999.999999999")


def journal_of(records: list[AttemptRecord]) -> RunJournal:
    records = [plausible(record) for record in records]
    return RunJournal(url="run", records=tuple(records), summary=summarize(records))


def seconds_of(records: list[AttemptRecord]) -> dict[str, float]:
    return {part.name: part.seconds for part in cost_breakdown(time_breakdown(journal_of(records)))}


def test_time_goes_where_it_went() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        run = random_run(chance)

        parts = seconds_of(run.records)

        assert sum(parts.values()) == pytest.approx(run.seconds), SEED
        for name, seconds in run.truth.items():
            assert parts[name] == pytest.approx(seconds, abs=0.001), (SEED, name)


def test_warming_up_is_a_part_of_a_start_and_not_of_the_work() -> None:
    run = Simulated(step_seconds=60)
    run.start(warm_seconds=300)
    run.work(10, save_every=5)
    run.kill(wait_seconds=30)
    run.start(load_seconds=60, warm_seconds=300)
    run.work(10)

    journal = journal_of(run.finish())

    assert journal.summary.step_seconds == pytest.approx(60)
    assert time_breakdown(journal).starting_seconds == pytest.approx(660)
    assert measurements_in([journal]).restarts_seconds == pytest.approx([360])
    # Others ask how long the loading of a checkpoint alone takes.
    assert journal.summary.resume_seconds == 30


def test_an_attempt_that_never_did_a_step_only_started() -> None:
    run = Simulated()
    run.start()
    run.work(3, save_every=3)
    run.kill(wait_seconds=10)
    run.start(load_seconds=100)
    run.kill(wait_seconds=10)
    run.start(load_seconds=40)
    run.work(3)

    journal = journal_of(run.finish())

    assert seconds_of(run.records)["starting"] == pytest.approx(140)
    assert measurements_in([journal]).restarts_seconds == pytest.approx([40])


def test_the_final_save_is_a_part_of_leaving_alone() -> None:
    run = Simulated(step_seconds=1)
    run.start()
    run.work(10)
    run.evict(final_seconds=8)

    parts = seconds_of(run.records)

    assert (parts["saving"], parts["shutting down"]) == (0, 8)
    assert sum(parts.values()) == pytest.approx(18)


def test_whatever_a_journal_holds_the_parts_add_up() -> None:
    chance = random.Random(SEED)
    for _ in range(300):
        records = [
            AttemptRecord(
                attempt=number,
                events=tuple(odd_event(chance) for _ in range(chance.randrange(8))),
                garbled=chance.randrange(2),
            )
            for number in range(1, chance.randrange(2, 6))
        ]
        journal = journal_of(records)

        spent = time_breakdown(journal)
        parts = cost_breakdown(spent, price=PRICE, nodes=10_000)
        change = best_change(spent)
        learned = learn(measurements_in([journal], nodes=10_000))

        assert all(part.seconds >= 0 for part in parts), SEED
        total = sum(part.seconds for part in parts)
        assert total == pytest.approx(journal.summary.total_seconds), SEED
        amount = total_amount(parts)
        assert amount is not None and amount >= 0, SEED
        assert change is None or change.seconds <= spent.total_seconds, SEED
        assert learned.size is None or learned.size.endswith("MiB"), SEED
        json.dumps(learned.measured, allow_nan=False)


def odd_event(chance: random.Random) -> Event:
    """Out of order, and with numbers that cannot be."""
    near = START + timedelta(seconds=chance.uniform(-1000, 1000))
    first, last = (date.replace(tzinfo=UTC) for date in (datetime.min, datetime.max))  # noqa: DTZ901
    at = chance.choice([near] * 6 + [first, last])
    step = chance.choice([0, 1, 5, 90, 2**60, -1, 10**400])
    number = chance.choice([0.0, 1.0, 100.0, 1e7, -1e308, 1e308, math.inf, math.nan])
    return chance.choice(
        [
            AttemptStarted(at=at, attempt=1, host="a", pid=1, resumed_from=step),
            Resumed(at=at, step=step, seconds=number, bytes_read=step),
            Progress(at=at, step=step),
            Saved(
                at=at,
                step=step,
                stall_seconds=number,
                seconds=number,
                bytes_total=step,
                bytes_new=step,
                final=chance.random() < 0.5,
            ),
            NoticeArrived(at=at, source="signal", reason="SIGTERM", seconds_left=number),
            AttemptFailed(at=at, step=step, error="x"),
            RunFinished(at=at, step=step),
            AttemptExited(at=at, exit_code=step, step=step),
            Dropped(at=at, count=step),
        ]
    )


def test_a_journal_with_gaps_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Simulated()
    run.start()
    run.work(3)
    run.evict(final_seconds=8)
    url = write_journal(tmp_path / "run", run.records)
    open_journal_with_warning(url)
    complete = capsys.readouterr().err
    segment = tmp_path / "run/journal/000001-000001.jsonl"
    odd = Saved(at=START, step=1, stall_seconds=-1e308, seconds=1, bytes_total=1, bytes_new=1)
    dropped = AttemptRecord(attempt=2, events=(Dropped(at=START, count=4), odd))
    write_journal(tmp_path / "run", [dropped])
    segment.write_bytes(b"\x00nothing\n" * 2 + segment.read_bytes())

    journal = open_journal_with_warning(url)

    assert complete == ""
    assert capsys.readouterr().err == (
        f"warning: The journal of {url} has gaps (unreadable lines: 3; dropped "
        "events: 4). The output is based on the rest.\n"
    )
    assert journal.summary.lines_garbled == 3


@pytest.mark.parametrize("nodes", [0, -2, 10_001])
def test_a_run_has_at_least_one_node(nodes: int) -> None:
    with pytest.raises(OutlastError, match=f"--nodes: expected 1 to 10,000, got {nodes}"):
        node_count(nodes, None)


def test_a_run_has_one_node_unless_somebody_says_so() -> None:
    assert node_count(None, None) == 1
    assert node_count(4, None) == 4
