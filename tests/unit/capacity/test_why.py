"""Where the time went: it adds up, money follows the paid time, and the advice fits the waste."""

from dataclasses import replace
from decimal import Decimal

import pytest

from outlast._base.durations import format_duration
from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.capacity.planning.why import TimeBreakdown, best_change, cost_breakdown, total_amount

HOUR = 3600.0
QUIET = TimeBreakdown(
    total_seconds=10 * HOUR,
    work_seconds=9.5 * HOUR,
    redone_seconds=0.1 * HOUR,
    saving_seconds=0.1 * HOUR,
    starting_seconds=120,
    waiting_seconds=120,
    leaving_seconds=20,
    interruptions=2,
    losses=1,
    saves=60,
    save_seconds=6.0,
)


def test_the_parts_add_up_to_the_whole() -> None:
    parts = cost_breakdown(QUIET)

    assert sum(part.seconds for part in parts) == pytest.approx(10 * HOUR)
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    assert {part.name: round(part.seconds) for part in parts}["unexplained"] == 820


def test_waiting_is_not_paid_for() -> None:
    parts = cost_breakdown(QUIET, price=Decimal("2.00"), nodes=3)

    by_name = {part.name: part.amount for part in parts}
    assert by_name["waiting"] == Decimal("0.00")
    assert by_name["work"] == Decimal("57.00")
    paid_hours = Decimal(10 * 3600 - 120) / 3600
    assert total_amount(parts) == pytest.approx(paid_hours * 6, abs=Decimal("0.03"))


def test_without_a_price_there_is_no_amount() -> None:
    assert total_amount(cost_breakdown(QUIET)) is None


@pytest.mark.parametrize("save_seconds", [5e-324, 1e-320, 1e-300, 1e-100])
@pytest.mark.parametrize("losses", [0, 1])
def test_saves_too_short_to_measure_suggest_no_interval(save_seconds: float, losses: int) -> None:
    redone = replace(QUIET, redone_seconds=3 * HOUR, save_seconds=save_seconds, losses=losses)

    change = best_change(redone)

    assert change is None or not change.text.startswith("Save ")


def test_a_run_that_went_well_gets_no_advice() -> None:
    assert best_change(QUIET) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"redone_seconds": 3 * HOUR, "losses": 8, "interruptions": 8}, "Save more often"),
        ({"saving_seconds": 4 * HOUR, "saves": 2400}, "Save less often"),
        ({"saving_seconds": 4 * HOUR, "saves": 2400, "losses": 0}, "Save less often"),
        ({"missed_seconds": 2 * HOUR, "redone_seconds": 2 * HOUR}, "Make the final save fit"),
        ({"starting_seconds": 3 * HOUR}, "Start faster"),
        ({"waiting_seconds": 5 * HOUR, "interruptions": 12}, "Wait less for machines"),
    ],
    ids=["redone", "saves", "saves alone", "missed", "starting", "waiting"],
)
def test_the_advice_is_about_what_cost_most(changes: dict[str, float], words: str) -> None:
    spent = replace(QUIET, total_seconds=15 * HOUR, **changes)  # type: ignore[arg-type]

    change = best_change(spent)

    assert change is not None
    assert change.text.startswith(words)
    assert 0 < change.seconds < spent.total_seconds


def test_without_a_loss_the_advice_is_the_interval_of_the_runtime() -> None:
    spent = replace(
        QUIET, saving_seconds=9000.0, redone_seconds=0.0, saves=300, save_seconds=30.0, losses=0
    )
    cost = SaveCost(stall_seconds=30.0, durable_seconds=30.0)
    observed = Observed(running_seconds=spent.running_seconds)

    change = best_change(spent)

    interval = choose_interval(IntervalPolicy(), cost=cost, observed=observed).seconds
    assert change is not None and interval is not None
    assert f"after every {format_duration(interval)} of work" in change.text
    assert change.text.endswith("no work was lost in 10.0 h.")


def test_a_loss_in_nearly_every_save_is_no_division_by_zero() -> None:
    spent = replace(QUIET, save_seconds=3000.0, saves=12, losses=30_000)

    assert best_change(spent) is None


def test_nothing_done_yet_is_no_division_by_zero() -> None:
    nothing = replace(
        QUIET,
        total_seconds=0.0,
        work_seconds=0.0,
        redone_seconds=0.0,
        saving_seconds=0.0,
        starting_seconds=0.0,
        waiting_seconds=0.0,
        leaving_seconds=0.0,
        interruptions=0,
        losses=0,
        saves=0,
    )

    assert [part.share for part in cost_breakdown(nothing)] == [0.0] * 7
    assert best_change(nothing) is None
