"""The calls that this rank wants to make, until all ranks have heard them or another took over."""

import threading
import time
from dataclasses import dataclass

from outlast.ranks.rounds import Call, CallKind, give_up_seconds

# Which calls a heard call makes superfluous. A stop saves as well; an error ends all loops.
_SETTLES = {
    CallKind.SAVE: {CallKind.SAVE},
    CallKind.STOP: {CallKind.STOP, CallKind.SAVE},
    CallKind.RAISE: {CallKind.RAISE, CallKind.STOP, CallKind.SAVE},
    CallKind.LOST: {CallKind.LOST, CallKind.RAISE, CallKind.STOP, CallKind.SAVE},
    CallKind.CLOSE: set[CallKind](),
}
_PRECEDENCE = tuple(CallKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    call: Call
    overdue_at: float


class WantedCalls:
    """What this rank still wants to call for, and the number of the current round.

    A call that loses its round to a call of another kind is made again in the next one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._wanted: dict[CallKind, _Wanted] = {}
        self._round = 0
        self._tried_round = -1
        self._is_closing = False

    @property
    def round(self) -> int:
        return self._round

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def add(self, call: Call) -> None:
        overdue_at = time.monotonic() + give_up_seconds(call)
        with self._changed:
            self._wanted[call.kind] = _Wanted(call=call, overdue_at=overdue_at)
            # It may take precedence over what was already tried in this round.
            self._tried_round = -1
            self._changed.notify_all()

    def has(self, kind: CallKind) -> bool:
        with self._changed:
            return kind in self._wanted

    def next(self, seconds: float) -> tuple[int, Call] | None:
        """The call to make, and in which round. None after this time, or if it is closing."""
        with self._changed:
            if not self._changed.wait_for(self._has_something_to_do, seconds):
                return None
            if self._is_closing or not self._wanted:
                return None
            self._tried_round = self._round
            return self._round, self._wanted[min(self._wanted, key=_PRECEDENCE.index)].call

    def end_round(self, heard: Call) -> None:
        """Begin the next round, after all that this call asked for was decided."""
        with self._changed:
            for kind in _SETTLES[heard.kind]:
                self._wanted.pop(kind, None)
            self._round += 1
            self._changed.notify_all()

    def overdue(self, now: float) -> Call | None:
        """A call that has been wanted for so long that the store cannot be answering."""
        with self._changed:
            late = [wanted.call for wanted in self._wanted.values() if wanted.overdue_at <= now]
            return min(late, key=lambda call: _PRECEDENCE.index(call.kind), default=None)

    def wait_until_settled(self, kind: CallKind, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: kind not in self._wanted, seconds)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def _has_something_to_do(self) -> bool:
        return self._is_closing or (bool(self._wanted) and self._tried_round != self._round)
