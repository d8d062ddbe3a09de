"""What the pictures of the page are drawn from: scales, lanes, losses, sums, cost."""

from datetime import date
from decimal import Decimal

import pytest

from outlast.drills.judge.evidence import ProgressPoint
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import failed
from outlast.drills.page import EXAMPLE_PRICES, MachinePrices
from outlast.drills.page.cost import cost_of
from outlast.drills.page.eviction_kinds import end_of, kind_of
from outlast.drills.page.metric_curves import chosen_name, compare
from outlast.drills.page.progress import step_lines
from outlast.drills.page.time_at_work import work_periods
from outlast.drills.page.timeline import columns_up, rows_of
from outlast.drills.page.work_lost import WorkLost, work_lost
from outlast.drills.run.records import AttemptEnd, Eviction, EvictionMoment, Save, SigtermHandling
from tests.unit.drill.page_reports import (
    attempt,
    eviction,
    figures,
    job_run,
    plain_report,
    report,
    training_report,
)


def test_attempts_of_one_worker_have_a_row_each() -> None:
    attempts = [attempt(number, started_seconds=number * 2.0) for number in range(1, 5)]

    assert [row.label for row in rows_of(attempts)] == ["1", "2", "3", "4"]


def test_attempts_that_overlap_never_share_a_lane() -> None:
    attempts = [
        attempt(1, worker=0, started_seconds=0.0, ended_seconds=5.0),
        attempt(2, worker=0, started_seconds=4.0, ended_seconds=9.0),
        attempt(3, worker=0, started_seconds=6.0, ended_seconds=8.0),
        attempt(4, worker=1, started_seconds=0.0, ended_seconds=9.0),
    ]

    rows = {row.label: [one.number for one in row.attempts] for row in rows_of(attempts)}

    assert rows == {"worker 0": [1, 3], "overlap": [2], "worker 1": [4]}


def test_a_crowd_is_drawn_in_as_many_columns_as_a_screen_has() -> None:
    attempts = [
        attempt(number, started_seconds=number * 0.01, ended_seconds=number * 0.01 + 0.009)
        for number in range(9000)
    ]

    runs = columns_up([*attempts, attempt(9001, started_seconds=95.0, ended_seconds=100.0)], 100.0)

    assert runs == [(0, 900), (950, 1000)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (eviction(), "with notice"),
        (
            eviction(notice=False, moment=EvictionMoment.SAVE, hit=True),
            "without notice, during a save",
        ),
        (eviction(moment=EvictionMoment.SAVE, hit=False), "with notice, aimed at a save"),
        (eviction(overlap=True), "with notice, overlapping replacement"),
        (eviction(moment=EvictionMoment.START_UP, hit=True), "with notice, during startup"),
    ],
    ids=["announced", "in-a-save", "missed", "duplicate", "start-up"],
)
def test_every_kind_of_eviction_has_its_words(given: Eviction, said: str) -> None:
    assert kind_of(given) == said


def test_the_end_of_an_eviction_says_who_was_first() -> None:
    assert end_of(eviction(left_seconds=0.25)) == "exited after 0.25 s"
    assert end_of(eviction(killed=True, left_seconds=3.0)) == "killed after 3.00 s"
    assert end_of(eviction(notice=False, killed=False, exit_code=0)) == "exited first, code 0"


def _evicted(saves: list[float], **given: object) -> DrillReport:
    one = attempt(1, ended_seconds=5.1, ended=AttemptEnd.EVICTED, eviction=1)
    last = attempt(2, started_seconds=5.2, ended_seconds=9.0)
    struck = eviction(1, at_seconds=5.0, left_seconds=0.1, work_seconds=4.4, **given)
    kept = tuple(Save(at_seconds=at, path="model.pt") for at in saves)
    return report(job_run([one, last], [struck], saves=kept))


def test_without_a_journal_the_work_since_the_last_write_is_the_most_that_is_lost() -> None:
    [lost] = work_lost(_evicted([1.0, 3.5], notice=False, killed=True))

    assert lost.seconds_max == pytest.approx(1.5)
    assert str(lost) == "up to 1.5 s"


@pytest.mark.parametrize(
    ("lasted_seconds", "killed", "said"),
    [
        (4.05, False, "nothing"),
        (3.8, False, "up to 0.2 s"),
        # Its successor went on to write, so that its own last write came at most a pause before.
        (6.0, False, "up to 0.2 s"),
        (3.8, True, "up to 0.2 s"),
        # The kill may have cut off one long save.
        (4.1, True, "up to 4.0 s"),
    ],
)
def test_what_writes_without_a_pause_has_lost_what_came_after_its_last_write(
    lasted_seconds: float, killed: bool, said: str
) -> None:
    save = Save(at_seconds=1.0, path="model.pt", lasted_seconds=lasted_seconds)
    one = attempt(1, ended_seconds=5.1, ended=AttemptEnd.EVICTED, eviction=1)
    struck = eviction(1, at_seconds=5.0, left_seconds=0.1, work_seconds=4.4, killed=killed)

    [lost] = work_lost(report(job_run([one], [struck], saves=(save,))))

    assert str(lost) == said


def test_a_write_that_a_kill_may_have_cut_off_does_not_count() -> None:
    [lost] = work_lost(_evicted([1.0, 4.95], notice=False, killed=True))

    assert lost.seconds_max == pytest.approx(4.0)


def test_a_write_after_the_notice_saves_all_of_it() -> None:
    [lost] = work_lost(_evicted([1.0, 5.05]))

    assert str(lost) == "nothing"


def test_an_attempt_that_was_done_before_it_was_killed_has_lost_nothing() -> None:
    [lost] = work_lost(_evicted([1.0], exit_code=0))

    assert str(lost) == "nothing"


def test_without_any_write_all_the_work_of_the_attempt_may_be_lost() -> None:
    [lost] = work_lost(_evicted([], notice=False, killed=True))

    assert lost.seconds_max == pytest.approx(4.4)


def test_a_write_beside_another_attempt_proves_nothing() -> None:
    one = attempt(1, ended_seconds=5.0, ended=AttemptEnd.EVICTED, eviction=1)
    beside = attempt(2, started_seconds=4.0, ended_seconds=9.0)
    saves = (Save(at_seconds=4.5, path="model.pt"),)

    [lost] = work_lost(report(job_run([one, beside], [eviction(1, at_seconds=4.9)], saves=saves)))

    assert str(lost) == "unknown"


def test_what_starts_over_loses_all_of_its_work_whatever_it_wrote() -> None:
    assert [str(one) for one in work_lost(plain_report(2))] == ["all of 1.4 s", "all of 2.4 s"]


@pytest.mark.parametrize(
    ("steps", "is_minimum", "said"),
    [
        (0, False, "0 steps"),
        (1, False, "1 step"),
        (1200, True, "at least 1,200 steps"),
        (0, True, "up to 0.7 s"),
    ],
)
def test_a_journal_says_at_least_how_much_a_kill_cost(
    steps: int, is_minimum: bool, said: str
) -> None:
    lost = WorkLost(eviction=eviction(), steps=steps, is_minimum=is_minimum, seconds_max=0.7)

    assert str(lost) == said


def test_the_lost_piece_of_a_life_begins_where_the_next_one_resumed() -> None:
    drilled = training_report(6)
    assert drilled.evicted is not None
    [run] = drilled.runs

    lines = step_lines(run, drilled.evicted)

    lost = [piece[-1][1] - piece[0][1] for piece in lines.lost]
    assert lost == [one.steps_lost for one in run.attempts if one.steps_lost]
    assert lines.unknown == ()


def test_what_a_kill_kept_from_the_journal_is_drawn_as_not_known() -> None:
    drilled = training_report(3)
    assert drilled.evicted is not None
    [run] = drilled.runs
    forgotten = tuple(
        type(one)(
            run_attempt=one.run_attempt,
            attempt=one.attempt,
            first_step=one.first_step,
            last_step=one.first_step or 0 if one.run_attempt == 2 else one.last_step,
            saved_step=one.saved_step,
            steps_lost=0,
        )
        for one in run.attempts
    )
    points = tuple(point for point in run.progress if point.attempt != 2)
    known = type(run)(
        folder=run.folder,
        finished=True,
        steps_done=run.steps_done,
        attempts=forgotten,
        saves=3,
        save_seconds=None,
        resume_seconds=None,
        progress=points,
        metrics=(),
    )

    [unknown] = step_lines(known, drilled.evicted).unknown

    assert unknown[-1][1] == forgotten[2].first_step


def test_the_clock_of_work_stops_at_a_notice_and_runs_where_none_was_heard() -> None:
    told = eviction(1, at_seconds=2.0, handling=SigtermHandling.CAUGHT)
    deaf = eviction(2, attempt=2, at_seconds=5.0, handling=SigtermHandling.IGNORED, killed=True)
    attempts = [
        attempt(1, started_seconds=0.0, ended_seconds=2.5, eviction=1, ended=AttemptEnd.EVICTED),
        attempt(2, started_seconds=3.0, ended_seconds=6.0, eviction=2, ended=AttemptEnd.EVICTED),
    ]

    periods = work_periods(job_run(attempts, [told, deaf]))

    assert [(round(one.start, 2), one.end) for one in periods] == [(0.6, 2.0), (3.6, 6.0)]
    assert periods[-1].after == pytest.approx(1.4 + 2.4)


def test_work_of_two_at_once_counts_once() -> None:
    attempts = [
        attempt(1, started_seconds=0.0, ended_seconds=4.0),
        attempt(2, started_seconds=1.0, ended_seconds=6.0),
    ]

    [period] = work_periods(job_run(attempts))

    assert period.after == pytest.approx(5.4)
    assert period.attempt is None


def test_the_figure_that_is_drawn_is_the_loss_if_there_is_one() -> None:
    def named(*names: str) -> list[ProgressPoint]:
        return [ProgressPoint(seconds=0, step=0, attempt=1, name=name, value=1.0) for name in names]

    assert chosen_name(named("accuracy", "loss")) == "loss"
    assert chosen_name(named("accuracy", "Train_Loss")) == "Train_Loss"
    assert chosen_name(named("accuracy")) == "accuracy"
    assert chosen_name([]) is None


def test_curves_are_compared_only_where_both_have_a_value() -> None:
    found = compare([(0, 1.0), (1, 0.5), (2, 0.25)], [(1, 0.5), (2, 0.375), (3, 9.0)])

    assert found is not None
    assert (found.steps, found.largest_difference) == (2, 0.125)
    assert compare([(0, 1.0)], [(1, 1.0)]) is None


def test_spot_pays_for_what_was_done_twice_and_on_demand_does_not() -> None:
    calm = job_run([attempt(1, ended_seconds=3600.0)], name="baseline")
    evicted = job_run(
        [attempt(1, ended_seconds=1800.0), attempt(2, started_seconds=1900.0, ended_seconds=4600.0)]
    )

    cost = cost_of(report(evicted, baseline=calm, figures=figures(3600.0)), EXAMPLE_PRICES)

    assert cost is not None
    assert cost.on_demand == EXAMPLE_PRICES.on_demand
    assert cost.spot == EXAMPLE_PRICES.spot * 4500 / 3600
    assert cost.stretch == 1.25
    assert cost.saved == pytest.approx(
        1 - 1.25 * float(EXAMPLE_PRICES.spot / EXAMPLE_PRICES.on_demand)
    )


def test_a_baseline_that_was_recorded_earlier_counts_for_all_workers() -> None:
    evicted = job_run([attempt(1, ended_seconds=100.0)])

    cost = cost_of(report(evicted, workers=4, figures=figures(50.0)), EXAMPLE_PRICES)

    assert cost is not None
    assert cost.baseline_seconds == 200.0


def test_without_a_baseline_there_is_no_cost_to_compare() -> None:
    assert cost_of(report(job_run([attempt(1)]), figures=None), EXAMPLE_PRICES) is None


def test_work_that_was_never_done_has_no_price() -> None:
    undone = failed("finished", "It hung.")

    assert cost_of(report(job_run([attempt(1)]), checks=(undone,)), EXAMPLE_PRICES) is None


def test_prices_of_nothing_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"Expected prices above 0, got 1 \(on demand\) and 0 \(Spot\)\."
    ):
        MachinePrices(
            machine="m",
            location="l",
            on_demand=Decimal(1),
            spot=Decimal(0),
            currency="USD",
            date=date(2026, 1, 1),
            source="s",
        )


def test_a_verdict_of_starting_over_is_what_the_bound_hangs_on() -> None:
    calm = _evicted([1.0, 3.5], notice=False, killed=True)
    over = report(calm.evicted, checks=(failed("resumed", "It did."),))

    assert str(work_lost(over)[0]) == "all of 4.4 s"
