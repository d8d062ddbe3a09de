"""The gate at every boundary of a loop."""

import math
import threading
import time

from outlast.ranks.gate import StepGate
from outlast.ranks.rounds import Call, CallKind, Order, OrderKind
from tests.patience import PATIENCE_SECONDS, eventually


def call(kind: CallKind = CallKind.STOP) -> Call:
    return Call(kind=kind, reason="SIGTERM", rank=1)


def order(kind: OrderKind, step: int) -> Order:
    return Order(kind=kind, step=step, is_full=True, reason="SIGTERM", rank=1)


class Loop:
    """A loop in a thread, which passes one boundary after the other when it is told to."""

    def __init__(self, gate: StepGate, step: int) -> None:
        self.results: list[Order | None] = []
        self._thread = threading.Thread(target=lambda: self.results.append(gate.boundary(step)))
        self._thread.start()

    def result(self) -> Order | None:
        self._thread.join(PATIENCE_SECONDS)
        return self.results[0]


def test_an_open_gate_lets_everything_pass() -> None:
    gate = StepGate()

    assert [gate.boundary(step) for step in range(100)] == [None] * 100


def test_a_loop_inside_a_step_reports_the_boundary_that_it_reaches_next() -> None:
    gate = StepGate()
    gate.boundary(7)

    gate.freeze(call(), until=math.inf)

    assert gate.reported_step() == 8


def test_a_loop_that_waits_at_a_boundary_reports_that_one() -> None:
    gate = StepGate()
    gate.boundary(7)
    gate.freeze(call(), until=math.inf)
    loop = Loop(gate, 8)
    eventually(lambda: gate._is_waiting, "the loop waits")

    assert gate.reported_step() == 8

    gate.thaw(order(OrderKind.STOP, 8))
    assert loop.result() == order(OrderKind.STOP, 8)


def test_a_loop_before_its_first_boundary_agrees_to_any_step() -> None:
    gate = StepGate()
    gate.freeze(call(), until=math.inf)

    assert gate.reported_step() == 0

    loop = Loop(gate, 7)
    eventually(lambda: gate._is_waiting, "the loop waits")
    gate.thaw(order(OrderKind.STOP, 8))
    assert loop.result() is None
    assert gate.boundary(8) == order(OrderKind.STOP, 8)


def test_a_thawed_loop_goes_on_to_the_agreed_step() -> None:
    gate = StepGate()
    gate.boundary(7)
    gate.freeze(call(CallKind.SAVE), until=math.inf)
    gate.thaw(order(OrderKind.SAVE, 9))

    results = [gate.boundary(step) for step in (8, 9, 10)]

    assert results == [None, order(OrderKind.SAVE, 9), None]
    assert not gate.has_pending(OrderKind.SAVE)


def test_a_loop_waits_only_until_its_own_deadline() -> None:
    gate = StepGate()
    gate.freeze(call(), until=time.monotonic() + 0.01)

    given = gate.boundary(3)

    assert given is not None
    assert (given.kind, given.step, given.is_full) == (OrderKind.STOP, 3, False)


def test_a_save_that_is_decided_too_late_is_abandoned() -> None:
    gate = StepGate()
    gate.freeze(call(CallKind.SAVE), until=time.monotonic())
    assert gate.boundary(3) is None

    gate.thaw(order(OrderKind.SAVE, 3))

    assert gate.boundary(4) is None


def test_an_order_for_now_releases_a_loop_that_waits() -> None:
    gate = StepGate()
    gate.freeze(call(CallKind.SAVE), until=math.inf)
    loop = Loop(gate, 5)

    gate.order_now(order(OrderKind.STOP, 0))

    assert loop.result() == order(OrderKind.STOP, 5)


def test_a_closed_gate_holds_nobody() -> None:
    gate = StepGate()
    gate.freeze(call(), until=math.inf)
    loop = Loop(gate, 5)

    gate.close()
    gate.freeze(call(), until=math.inf)

    assert loop.result() is None
    assert gate.boundary(6) is None


def test_a_loop_whose_own_call_is_undecided_passes_no_boundary() -> None:
    gate = StepGate()
    gate.boundary(7)
    gate.hold_for(call())
    loop = Loop(gate, 8)
    eventually(lambda: gate._is_waiting, "the loop waits")

    gate.freeze(call(CallKind.SAVE), until=math.inf)
    gate.thaw(order(OrderKind.SAVE, 9))
    assert gate.reported_step() == 8, "A save that was decided before does not release the loop."
    assert loop.results == []

    gate.freeze(call(), until=math.inf)
    gate.thaw(order(OrderKind.STOP, 9))
    assert loop.result() is None
    assert gate.boundary(9) == order(OrderKind.STOP, 9)


def test_a_call_after_an_order_to_end_does_not_hold_the_loop() -> None:
    gate = StepGate()
    gate.freeze(call(), until=math.inf)
    gate.thaw(order(OrderKind.STOP, 9))

    gate.hold_for(call())

    assert gate.boundary(8) is None
    assert gate.boundary(9) == order(OrderKind.STOP, 9)


def test_a_loop_does_not_wait_for_its_own_call_after_its_time_is_over() -> None:
    gate = StepGate()
    gate.hold_for(Call(kind=CallKind.STOP, reason="SIGTERM", rank=1, seconds_left=0.0))

    given = gate.boundary(3)

    assert given is not None
    assert (given.kind, given.step, given.is_full) == (OrderKind.STOP, 3, False)


def test_a_save_that_nobody_decides_does_not_release_a_loop_with_an_undecided_call() -> None:
    gate = StepGate()
    gate.hold_for(call())
    gate.freeze(call(CallKind.SAVE), until=time.monotonic())
    loop = Loop(gate, 3)
    eventually(lambda: gate._frozen_by == call(), "the save is abandoned")

    assert loop.results == []

    gate.thaw(order(OrderKind.STOP, 3))
    assert loop.result() == order(OrderKind.STOP, 3)
