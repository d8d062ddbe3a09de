"""Which call a rank makes in which round."""

import math
import time

import pytest

from outlast.ranks.calls import WantedCalls
from outlast.ranks.rounds import Call, CallKind
from tests.patience import PATIENCE_SECONDS


def call(kind: CallKind, *, seconds_left: float = math.inf) -> Call:
    return Call(kind=kind, reason=kind, rank=0, seconds_left=seconds_left)


def test_a_call_is_made_once_per_round() -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.STOP))

    assert wanted.next(0.0) == (0, call(CallKind.STOP))
    assert wanted.next(0.0) is None


def test_a_stop_that_lost_its_round_to_a_save_is_called_again() -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.STOP))
    wanted.next(0.0)

    wanted.end_round(call(CallKind.SAVE))

    assert wanted.next(0.0) == (1, call(CallKind.STOP))


@pytest.mark.parametrize("heard", [CallKind.STOP, CallKind.LOST, CallKind.RAISE])
def test_what_ends_all_loops_settles_a_stop(heard: CallKind) -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.STOP))

    wanted.end_round(call(heard))

    assert wanted.next(0.0) is None


def test_a_closing_rank_settles_nothing() -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.SAVE))

    wanted.end_round(call(CallKind.CLOSE))

    assert wanted.next(0.0) == (1, call(CallKind.SAVE))


def test_the_gravest_call_is_made_first() -> None:
    wanted = WantedCalls()
    for kind in (CallKind.SAVE, CallKind.STOP, CallKind.LOST, CallKind.RAISE):
        wanted.add(call(kind))

    made = []
    while (following := wanted.next(0.0)) is not None:
        made.append(following[1].kind)
        wanted.end_round(call(CallKind.SAVE) if len(made) == 1 else following[1])

    assert made == [CallKind.LOST, CallKind.LOST]


def test_a_call_that_nobody_hears_is_overdue() -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.STOP, seconds_left=12.0))

    assert wanted.overdue(time.monotonic()) is None
    assert wanted.overdue(time.monotonic() + 12.0) == call(CallKind.STOP, seconds_left=12.0)


def test_a_closed_list_gives_no_call() -> None:
    wanted = WantedCalls()
    wanted.add(call(CallKind.STOP))

    wanted.close()

    assert wanted.is_closing
    assert wanted.next(PATIENCE_SECONDS) is None
