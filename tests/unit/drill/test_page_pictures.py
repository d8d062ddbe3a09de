"""What the pictures of the page are drawn from: scales, lanes, losses, sums, cost."""

from datetime import date
from decimal import Decimal

import pytest

from outlast.drill.evidence import Point
from outlast.drill.page import EXAMPLE, Prices
from outlast.drill.page.axes import Plot, Scale, round_ticks, time_ticks, whole_ticks
from outlast.drill.page.crowd import columns_up
from outlast.drill.page.histogram import sums_of
from outlast.drill.page.kinds import end_of, kind_of
from outlast.drill.page.lives import lives_of
from outlast.drill.page.loss import chosen_name, compare
from outlast.drill.page.losses import WorkLost, work_lost
from outlast.drill.page.money import cost_of
from outlast.drill.page.style import DARK, LIGHT
from outlast.drill.page.timeline import rows_of
from outlast.drill.page.work import climbs_of
from outlast.drill.records import Ended, Eviction, Handling, Moment, Save
from outlast.drill.report import Report
from outlast.drill.verdicts import Verdict
from tests.unit.drill.page_reports import (
    attempt,
    eviction,
    figures,
    leg,
    plain_report,
    report,
    training_report,
)


@pytest.mark.parametrize(
    ("seconds", "unit", "said"),
    [
        (0.4, "seconds", ["0.0", "0.1", "0.2", "0.3", "0.4"]),
        (12.0, "seconds", ["0", "2", "4", "6", "8", "10", "12"]),
        (147.0, "seconds", ["0", "30", "60", "90", "120"]),
        (600.0, "minutes", ["0", "2", "4", "6", "8", "10"]),
        (5 * 3600.0, "hours", ["0", "1", "2", "3", "4", "5"]),
        (20 * 86400.0, "days", ["0", "5", "10", "15", "20"]),
    ],
)
def test_times_are_told_in_round_steps_of_a_fitting_unit(
    seconds: float, unit: str, said: list[str]
) -> None:
    ticks, name = time_ticks(seconds)

    assert (name, [tick.said for tick in ticks]) == (unit, said)


def test_counts_have_no_ticks_between_whole_numbers() -> None:
    assert [tick.said for tick in whole_ticks(2)] == ["0", "1", "2"]
    assert [tick.said for tick in whole_ticks(20_000)] == [
        "0",
        "5,000",
        "10,000",
        "15,000",
        "20,000",
    ]


def test_values_that_are_all_the_same_have_a_tick() -> None:
    assert [tick.said for tick in round_ticks(3.0, 3.0)] == ["3"]


def test_small_differences_are_told_apart_by_their_ticks() -> None:
    said = [tick.said for tick in round_ticks(0.0101, 0.0109)]

    assert len(said) == len(set(said)) > 2


def test_a_place_outside_the_axes_is_drawn_at_their_end() -> None:
    plot = Plot(x=Scale(low=0, high=10), y=Scale(low=0, high=1), height=100)

    assert (plot.left(-3), plot.left(5), plot.left(99)) == ("0%", "50%", "100%")


def test_a_point_alone_is_drawn_as_a_dot() -> None:
    plot = Plot(x=Scale(low=0, high=10), y=Scale(low=0, high=1), height=100)

    assert plot.line([(5, 0.5)]) == "M500 50L500 50"
    assert plot.line([]) == ""


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

    assert rows == {"worker 0": [1, 3], "beside": [2], "worker 1": [4]}


def test_a_crowd_is_drawn_in_as_many_columns_as_a_screen_has() -> None:
    attempts = [
        attempt(number, started_seconds=number * 0.01, ended_seconds=number * 0.01 + 0.009)
        for number in range(9000)
    ]

    runs = columns_up([*attempts, attempt(9001, started_seconds=95.0, ended_seconds=100.0)], 100.0)

    assert runs == [(0, 900), (950, 1000)]


def test_amounts_are_summed_up_by_their_time() -> None:
    amounts = [(0.0, 1.0), (0.9, 2.0), (1.0, 3.0), (2.4, 4.0), (2.5, 5.0)]

    assert sums_of(amounts, 2.5, 1.0) == [3.0, 3.0, 9.0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (eviction(), "with notice"),
        (eviction(notice=False, moment=Moment.SAVE, hit=True), "without notice, in a save"),
        (eviction(moment=Moment.SAVE, hit=False), "with notice, aimed at a save"),
        (eviction(overlap=True), "with notice, replacement beside it"),
        (eviction(moment=Moment.START_UP, hit=True), "with notice, in its start-up"),
    ],
    ids=["announced", "in-a-save", "missed", "duplicate", "start-up"],
)
def test_every_kind_of_eviction_has_its_words(given: Eviction, said: str) -> None:
    assert kind_of(given) == said


def test_the_end_of_an_eviction_says_who_was_first() -> None:
    assert end_of(eviction(left_seconds=0.25)) == "left after 0.25 s"
    assert end_of(eviction(killed=True, left_seconds=3.0)) == "killed after 3.00 s"
    assert end_of(eviction(notice=False, killed=False, exit_code=0)) == "ended first, exit 0"


def _evicted(saves: list[float], **given: object) -> Report:
    one = attempt(1, ended_seconds=5.1, ended=Ended.EVICTED, eviction=1)
    last = attempt(2, started_seconds=5.2, ended_seconds=9.0)
    struck = eviction(1, at_seconds=5.0, left_seconds=0.1, work_seconds=4.4, **given)
    kept = tuple(Save(at_seconds=at, path="model.pt") for at in saves)
    return report(leg([one, last], [struck], saves=kept))


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
    one = attempt(1, ended_seconds=5.1, ended=Ended.EVICTED, eviction=1)
    struck = eviction(1, at_seconds=5.0, left_seconds=0.1, work_seconds=4.4, killed=killed)

    [lost] = work_lost(report(leg([one], [struck], saves=(save,))))

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
    one = attempt(1, ended_seconds=5.0, ended=Ended.EVICTED, eviction=1)
    beside = attempt(2, started_seconds=4.0, ended_seconds=9.0)
    saves = (Save(at_seconds=4.5, path="model.pt"),)

    [lost] = work_lost(report(leg([one, beside], [eviction(1, at_seconds=4.9)], saves=saves)))

    assert str(lost) == "not known"


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
    assert drilled.disturbed is not None
    [run] = drilled.runs

    lines = lives_of(run, drilled.disturbed)

    lost = [piece[-1][1] - piece[0][1] for piece in lines.lost]
    assert lost == [one.steps_lost for one in run.attempts if one.steps_lost]
    assert lines.unknown == ()


def test_what_a_kill_kept_from_the_journal_is_drawn_as_not_known() -> None:
    drilled = training_report(3)
    assert drilled.disturbed is not None
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

    [unknown] = lives_of(known, drilled.disturbed).unknown

    assert unknown[-1][1] == forgotten[2].first_step


def test_the_clock_of_work_stops_at_a_notice_and_runs_where_none_was_heard() -> None:
    told = eviction(1, at_seconds=2.0, handling=Handling.CAUGHT)
    deaf = eviction(2, attempt=2, at_seconds=5.0, handling=Handling.IGNORED, killed=True)
    attempts = [
        attempt(1, started_seconds=0.0, ended_seconds=2.5, eviction=1, ended=Ended.EVICTED),
        attempt(2, started_seconds=3.0, ended_seconds=6.0, eviction=2, ended=Ended.EVICTED),
    ]

    climbs = climbs_of(leg(attempts, [told, deaf]))

    assert [(round(one.start, 2), one.end) for one in climbs] == [(0.6, 2.0), (3.6, 6.0)]
    assert climbs[-1].after == pytest.approx(1.4 + 2.4)


def test_work_of_two_at_once_counts_once() -> None:
    attempts = [
        attempt(1, started_seconds=0.0, ended_seconds=4.0),
        attempt(2, started_seconds=1.0, ended_seconds=6.0),
    ]

    [climb] = climbs_of(leg(attempts))

    assert climb.after == pytest.approx(5.4)
    assert climb.attempt is None


def test_the_figure_that_is_drawn_is_the_loss_if_there_is_one() -> None:
    def named(*names: str) -> list[Point]:
        return [Point(seconds=0, step=0, attempt=1, name=name, value=1.0) for name in names]

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
    calm = leg([attempt(1, ended_seconds=3600.0)], name="baseline")
    evicted = leg(
        [attempt(1, ended_seconds=1800.0), attempt(2, started_seconds=1900.0, ended_seconds=4600.0)]
    )

    cost = cost_of(report(evicted, baseline=calm, figures=figures(3600.0)), EXAMPLE)

    assert cost is not None
    assert cost.on_demand == EXAMPLE.on_demand
    assert cost.spot == EXAMPLE.spot * 4500 / 3600
    assert cost.stretch == 1.25
    assert cost.saved == pytest.approx(1 - 1.25 * float(EXAMPLE.spot / EXAMPLE.on_demand))


def test_a_baseline_that_was_recorded_earlier_counts_for_all_workers() -> None:
    evicted = leg([attempt(1, ended_seconds=100.0)])

    cost = cost_of(report(evicted, workers=4, figures=figures(50.0)), EXAMPLE)

    assert cost is not None
    assert cost.calm_seconds == 200.0


def test_without_a_baseline_there_is_no_cost_to_compare() -> None:
    assert cost_of(report(leg([attempt(1)]), figures=None), EXAMPLE) is None


def test_work_that_was_never_done_has_no_price() -> None:
    undone = Verdict(code="not-finished", ok=False, reason="It hung.")

    assert cost_of(report(leg([attempt(1)]), verdicts=(undone,)), EXAMPLE) is None


def test_prices_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Prices are above 0; 1 and 0 are given"):
        Prices(
            machine="m",
            location="l",
            on_demand=Decimal(1),
            spot=Decimal(0),
            currency="USD",
            date=date(2026, 1, 1),
            source="s",
        )


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("name", "ground", "least"),
    [
        *((name, "page", 4.5) for name in ("ink", "quiet", "good", "bad", "work", "lost", "save")),
        ("ink", "panel", 4.5),
        ("ink", "bad-tint", 4.5),
        ("quiet", "bad-tint", 4.5),
        ("bad", "bad-tint", 4.5),
        ("page", "work", 4.5),
        ("grace", "page", 3.0),
        ("calm", "page", 3.0),
        ("start", "page", 3.0),
    ],
)
def test_colours_can_be_told_from_their_ground(
    palette: dict[str, str], name: str, ground: str, least: float
) -> None:
    assert _contrast(palette[name], palette[ground]) >= least


def _contrast(one: str, other: str) -> float:
    """As the web's accessibility guidelines define it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_verdict_of_starting_over_is_what_the_bound_hangs_on() -> None:
    calm = _evicted([1.0, 3.5], notice=False, killed=True)
    over = report(
        calm.disturbed, verdicts=(Verdict(code="started-over", ok=False, reason="It did."),)
    )

    assert str(work_lost(over)[0]) == "all of 4.4 s"
