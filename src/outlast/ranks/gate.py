"""The gate at every boundary of the loop: open as long as no rank calls for anything.

An open gate costs one lock. It never reaches the store, so a loop cannot hang there: it waits for
a verdict only until a deadline of its own.
"""

import threading
import time

from outlast._base.logs import get_logger
from outlast.ranks.rounds import (
    Call,
    CallKind,
    Order,
    OrderKind,
    PendingOrders,
    Verdict,
    give_up_seconds,
    order_from,
)

log = get_logger(__name__)


class StepGate:
    """Where this rank's loop is, and what it has to do at which boundary.

    The loop calls `boundary`. Another thread freezes the gate while a call is being decided: the
    loop then waits at its next boundary, so that the step which is reported stays true.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_open = True
        self._is_closed = False
        self._at: int | None = None
        self._is_waiting = False
        self._frozen_by: Call | None = None
        self._frozen_until = 0.0
        self._own_call: Call | None = None
        self._is_ending = False
        self._orders = PendingOrders()

    def boundary(self, step: int) -> Order | None:
        """Pass the boundary after `step` completed steps. Returns the order that is due there."""
        with self._lock:
            if self._is_open:
                self._at = step
                return None
        return self._wait_at(step)

    def hold_for(self, call: Call) -> None:
        """Hold the loop at its next boundary until this rank's own call to end is decided.

        Otherwise a loop with short steps could finish before the ranks have heard the call.
        Without effect once an order to end has been given.
        """
        with self._lock:
            if not self._is_closed and not self._is_ending:
                self._own_call = call
                if self._frozen_by is None:
                    self._freeze_for_own_call()

    def freeze(self, call: Call, *, until: float) -> None:
        """Hold the loop at its next boundary until `thaw`, or until this time at the latest."""
        with self._lock:
            if not self._is_closed:
                self._frozen_by, self._frozen_until = call, until
                self._is_open = False

    def reported_step(self) -> int:
        """The steps completed at the boundary where a frozen loop waits, or that it reaches next.

        0 for a loop that has not reached its first boundary: it holds there, and no rank has passed
        a boundary that this one does not reach.
        """
        with self._lock:
            if self._at is None:
                return 0
            return self._at if self._is_waiting else self._at + 1

    def thaw(self, order: Order | None) -> None:
        """Let the loop go on, with an order if there is one.

        Without effect if the loop did not wait for it: it may be past the agreed step.
        """
        with self._changed:
            if self._frozen_by is None:
                return
            self._frozen_by = None
            if order is not None:
                self._add(order)
            self._freeze_for_own_call()
            self._update()

    def order_now(self, order: Order) -> None:
        """Give an order for the next boundary, and let a loop that waits there have it."""
        with self._changed:
            self._frozen_by = None
            self._add(order)
            self._update()

    def has_pending(self, kind: OrderKind) -> bool:
        with self._lock:
            return self._orders.has(kind)

    def close(self) -> None:
        """Hold the loop no more."""
        with self._changed:
            self._is_closed = True
            self._frozen_by = self._own_call = None
            self._update()

    def _wait_at(self, step: int) -> Order | None:
        with self._changed:
            self._at, self._is_waiting = step, True
            self._changed.notify_all()
            while self._frozen_by is not None:
                left_seconds = self._frozen_until - time.monotonic()
                if left_seconds <= 0:
                    self._give_up(self._frozen_by)
                else:
                    self._changed.wait(min(left_seconds, threading.TIMEOUT_MAX))
            self._is_waiting = False
            order = self._orders.take(step)
            self._update()
            return order

    def _give_up(self, call: Call) -> None:
        self._frozen_by = None
        why = "the store between the ranks does not answer"
        order = order_from(call, Verdict(step=None, why=why))
        if order is not None:
            self._add(order)
        if call.kind is CallKind.SAVE:
            log.warning("No checkpoint at this step: %s.", why)
        self._freeze_for_own_call()

    def _freeze_for_own_call(self) -> None:
        """Hold the loop if this rank's call is still undecided, perhaps after an earlier save."""
        if self._own_call is not None:
            self._frozen_by = self._own_call
            self._frozen_until = time.monotonic() + give_up_seconds(self._own_call)
            self._is_open = False

    def _add(self, order: Order) -> None:
        self._orders.add(order)
        if order.kind is not OrderKind.SAVE:
            self._is_ending, self._own_call = True, None

    def _update(self) -> None:
        self._is_open = self._frozen_by is None and not self._orders
        self._changed.notify_all()
