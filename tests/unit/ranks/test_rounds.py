"""What the ranks decide from which values: no threads, no store, no clock."""

import math

import pytest

from outlast.ranks.rounds import (
    Call,
    CallKind,
    Order,
    OrderKind,
    PendingOrders,
    Report,
    Verdict,
    give_up_seconds,
    order_from,
    second_turn_seconds,
    verdict_on,
    wait_seconds,
)


def call(kind: CallKind = CallKind.STOP, *, seconds_left: float = 13.0) -> Call:
    return Call(kind=kind, reason="SIGTERM", rank=1, seconds_left=seconds_left)


def report(step: int, *, needed: float = 1.0, left: float = math.inf) -> Report:
    return Report(step=step, needed_seconds=needed, seconds_left=left)


def order(kind: OrderKind, step: int) -> Order:
    return Order(kind=kind, step=step, is_full=True, reason="", rank=0)


@pytest.mark.parametrize(
    "value",
    [
        call(),
        Call(kind=CallKind.SAVE, reason='a "quoted" reason', rank=3),
        report(7),
        Verdict(step=None, why="rank 2 did not answer"),
        Verdict(step=0, is_full=True, seconds_left=3.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_arrives_as_it_was_sent(value: Call | Report | Verdict) -> None:
    assert type(value).decode(value.encode()) == value


def test_the_step_is_the_largest_which_no_rank_has_passed() -> None:
    verdict = verdict_on(call(), {0: report(7), 1: report(8), 2: report(7)}, 3)

    assert verdict == Verdict(step=8, is_full=True, seconds_left=13.0)


def test_a_stop_is_full_only_if_the_slowest_save_fits_the_shortest_time() -> None:
    reports = {0: report(7, needed=9.0), 1: report(7, left=8.0)}

    verdict = verdict_on(call(), reports, 2)

    assert (verdict.is_full, verdict.seconds_left) == (False, 8.0)


@pytest.mark.parametrize(
    ("present", "why"),
    [
        ([0, 1], "rank 2 did not answer"),
        ([1], "ranks 0, 2 did not answer"),
    ],
)
def test_a_missing_rank_is_named(present: list[int], why: str) -> None:
    verdict = verdict_on(call(), {rank: report(7) for rank in present}, 3)

    assert (verdict.step, verdict.why) == (None, why)


def test_of_many_missing_ranks_only_some_are_named() -> None:
    verdict = verdict_on(call(), {}, 512)

    assert verdict.why == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 504 more did not answer"


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (call(seconds_left=13.0), 2.0),
        (call(seconds_left=6.0), 1.0),
        (call(seconds_left=0.0), 0.0),
        (call(seconds_left=math.inf), 2.0),
        (call(CallKind.SAVE, seconds_left=math.inf), 10.0),
    ],
)
def test_waits_fit_the_time_that_is_left(made: Call, seconds: float) -> None:
    assert wait_seconds(made) == seconds
    assert wait_seconds(made) <= second_turn_seconds(made) <= give_up_seconds(made) < 25.0
    assert made.kind is CallKind.SAVE or give_up_seconds(made) <= made.seconds_left / 2


def test_a_save_without_an_agreed_step_is_abandoned() -> None:
    assert order_from(call(CallKind.SAVE), Verdict(step=None)) is None


@pytest.mark.parametrize(
    ("kind", "ordered"), [(CallKind.STOP, OrderKind.STOP), (CallKind.RAISE, OrderKind.RAISE)]
)
def test_what_ends_the_loop_needs_no_agreed_step(kind: CallKind, ordered: OrderKind) -> None:
    pending = PendingOrders()
    given = order_from(call(kind), Verdict(step=None))
    assert given is not None

    pending.add(given)

    taken = pending.take(41)
    assert taken is not None
    assert (taken.kind, taken.step, taken.is_full) == (ordered, 41, False)
    assert (taken.reason, taken.rank) == ("SIGTERM", 1)


def test_orders_are_due_at_their_steps() -> None:
    pending = PendingOrders()
    pending.add(order(OrderKind.SAVE, 7))
    pending.add(order(OrderKind.STOP, 9))

    taken = {step: pending.take(step) for step in range(5, 10)}

    assert {step: one.kind for step, one in taken.items() if one is not None} == {
        7: OrderKind.SAVE,
        9: OrderKind.STOP,
    }
    assert not pending


def test_an_order_between_two_boundaries_is_due_at_the_second() -> None:
    pending = PendingOrders()
    pending.add(order(OrderKind.SAVE, 9))

    assert pending.take(8) is None
    taken = pending.take(12)

    assert taken is not None
    assert taken.step == 12


def test_an_error_comes_before_a_stop_and_a_stop_before_a_save() -> None:
    pending = PendingOrders()
    for kind in (OrderKind.SAVE, OrderKind.RAISE, OrderKind.STOP):
        pending.add(order(kind, 7))

    taken = pending.take(7)

    assert taken is not None
    assert taken.kind is OrderKind.RAISE
    assert not pending
