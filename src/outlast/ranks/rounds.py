"""What the ranks decide in one round, and from which values. Pure: no threads, no store, no clock.

A round has three kinds of values: one call, which says what is wanted; one report per rank, which
says where its loop is; and one verdict. The first call and the first verdict count for all ranks,
so they agree without a leader.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from outlast._base.strict_json import strict_json

_STOP_SECONDS_MAX = 2.0
_STOP_SHARE = 6
_OTHER_SECONDS = 10.0
# A rank that is not the caller decides only if the caller has not, so it waits longer.
_SECOND_TURN = 1.25
_GIVE_UP_SECONDS_MAX = 10.0
_RANKS_NAMED_MAX = 8


class CallKind(StrEnum):
    """What a rank calls for. The order is the order of precedence."""

    LOST = "lost"
    RAISE = "raise"
    STOP = "stop"
    SAVE = "save"
    CLOSE = "close"


class OrderKind(StrEnum):
    """What a loop has to do at a boundary."""

    STOP = "stop"
    SAVE = "save"
    RAISE = "raise"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What all ranks do at the same boundary.

    `step` is the number of steps completed at that boundary. `is_full` says, for a stop, whether
    every rank has time for a final save; if not, the last checkpoint has to do. `rank` is the rank
    that called for it, and `reason` says why.
    """

    kind: OrderKind
    step: int
    is_full: bool
    reason: str
    rank: int


class _Value:
    """A value that travels between ranks as JSON."""

    __slots__ = ()

    def encode(self) -> bytes:
        fields = asdict(self)  # type: ignore[call-overload]  # every subclass is a data class
        return json.dumps({name: _finite(value) for name, value in fields.items()}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls(**{name: _number(name, value) for name, value in strict_json(data).items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(_Value):
    """What one rank wants. `seconds_left` is the time for work that a stop leaves it."""

    kind: CallKind
    reason: str
    rank: int
    seconds_left: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", CallKind(self.kind))


@dataclass(frozen=True, kw_only=True, slots=True)
class Report(_Value):
    """Where a rank's loop is: the number of steps completed at the boundary that it reaches next.

    `needed_seconds` is what a full final save takes there, `seconds_left` what remains for it.
    """

    step: int
    needed_seconds: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(_Value):
    """What counts for all ranks: the step of the order, or None with the reason why there is none.

    `seconds_left` is the shortest time that any rank has. `is_superseded` means that a graver call
    follows, which needs no warning.
    """

    step: int | None
    is_full: bool = False
    is_superseded: bool = False
    seconds_left: float = math.inf
    why: str = ""


def wait_seconds(call: Call) -> float:
    """How long the caller waits for the reports of all ranks."""
    if call.kind is CallKind.STOP:
        return min(_STOP_SECONDS_MAX, max(0.0, call.seconds_left) / _STOP_SHARE)
    return _OTHER_SECONDS


def second_turn_seconds(call: Call) -> float:
    """How long the other ranks wait for the caller's verdict before they decide themselves."""
    return wait_seconds(call) * _SECOND_TURN


def give_up_seconds(call: Call) -> float:
    """How long a loop waits at a boundary for the verdict, if not even the store answers."""
    extra_seconds = min(_GIVE_UP_SECONDS_MAX, max(0.0, call.seconds_left) / 4)
    return second_turn_seconds(call) + extra_seconds


def verdict_on(call: Call, reports: Mapping[int, Report], size: int) -> Verdict:
    """The verdict that these reports lead to. The step is one that no rank has passed."""
    if missing := [rank for rank in range(size) if rank not in reports]:
        return Verdict(step=None, why=f"{_ranks(missing)} did not answer")
    needed_seconds = max(report.needed_seconds for report in reports.values())
    left_seconds = min(call.seconds_left, *(report.seconds_left for report in reports.values()))
    return Verdict(
        step=max(report.step for report in reports.values()),
        is_full=needed_seconds <= left_seconds,
        seconds_left=left_seconds,
    )


def order_from(call: Call, verdict: Verdict) -> Order | None:
    """What the loop has to do; None if a save was abandoned.

    A stop or an error without an agreed step is due at each rank's next boundary: a rank that does
    not answer must not keep the others.
    """
    if verdict.step is None and call.kind is CallKind.SAVE:
        return None
    return Order(
        kind=_ORDER_OF.get(call.kind, OrderKind.STOP),
        step=verdict.step or 0,
        is_full=verdict.step is not None and verdict.is_full,
        reason=call.reason,
        rank=call.rank,
    )


class PendingOrders:
    """The orders that a loop has not reached yet."""

    def __init__(self) -> None:
        self._pending: list[Order] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, order: Order) -> None:
        self._pending.append(order)

    def has(self, kind: OrderKind) -> bool:
        return any(order.kind is kind for order in self._pending)

    def take(self, step: int) -> Order | None:
        """The order that is due after `step` steps. It replaces lesser ones of that boundary.

        An error ends the loop, so it comes before a stop; a stop saves, so it comes before a save.
        """
        due = [order for order in self._pending if order.step <= step]
        self._pending = [order for order in self._pending if order.step > step]
        if not due:
            return None
        return replace(min(due, key=lambda order: _PRECEDENCE.index(order.kind)), step=step)


_ORDER_OF = {CallKind.SAVE: OrderKind.SAVE, CallKind.RAISE: OrderKind.RAISE}
_PRECEDENCE = (OrderKind.RAISE, OrderKind.STOP, OrderKind.SAVE)


def _ranks(numbers: list[int]) -> str:
    names = ", ".join(map(str, numbers[:_RANKS_NAMED_MAX]))
    more = len(numbers) - _RANKS_NAMED_MAX
    names += f" and {more} more" if more > 0 else ""
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {names}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: None is for times without a limit."""
    return None if value == math.inf else value


def _number(name: str, value: Any) -> Any:
    return math.inf if value is None and name.endswith(_TIMES) else value


_TIMES = ("_seconds", "seconds_left")
