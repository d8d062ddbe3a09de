"""One rank among several: what they decide together, raise together, and what ends all of them.

Joins the agreement between the ranks with the guard of this process: a notice of one is announced
to all, and a rank that is gone ends the others before they wait for it for long.
"""

import math
import time
from collections.abc import Callable

from outlast.checkpoint.errors import CheckpointError, RanksLost
from outlast.checkpoint.ranks import RankGroup, ranks_lost
from outlast.interruption.guard import Guard
from outlast.ranks.agreement import Agreement, Order, OrderKind
from outlast.ranks.collectives import is_collective_failure
from outlast.ranks.errors import ChannelLost
from outlast.ranks.settings import JOIN, LOST

# For a rank whose peers are lost: enough to reach a boundary, if it is not stuck.
LOST_EXIT_SECONDS = 5.0
# How long the ranks have to answer when a collective has failed, and how often to look.
_ANSWER_SECONDS = 10.0
_ANSWER_CHECK_SECONDS = 0.05


class RankTeam:
    """This process as one of the ranks of a run. `seconds_needed` is for a full final save."""

    def __init__(
        self, group: RankGroup, guard: Guard | None, seconds_needed: Callable[[], float]
    ) -> None:
        self._group = group
        self._guard = guard
        self._step = 0
        self._held_error: BaseException | None = None
        self._raised_error: BaseException | None = None
        try:
            self._agreement = Agreement(
                group.world,
                group.channel,
                seconds_left=guard.remaining if guard is not None else lambda: math.inf,
                seconds_needed=seconds_needed,
                on_stop_call=guard.announce_peer if guard is not None else lambda *_: None,
                on_lost=self._lose_peers,
                lost_seconds=LOST.read().value,
                join_seconds=JOIN.read().value,
            )
        except ChannelLost as error:
            raise ranks_lost(error) from error

    def start(self) -> None:
        """Start to hear the other ranks, and to pass on the notices of the guard."""
        self._agreement.start()
        if (guard := self._guard) is not None:
            guard.on_notice(lambda _: self._announce(guard))

    def close(self) -> None:
        """Leave the other ranks. Takes a bounded time, even if they are dead."""
        self._agreement.close()
        self._group.close()

    def boundary(self, step: int) -> Order | None:
        """Pass the boundary after `step` steps; returns the order to save or to stop there.

        Raises once the ranks have agreed to raise.
        """
        self._step = step
        if self._guard is not None and self._guard.interrupted:
            # The guard's callback may not have had its turn yet.
            self._announce(self._guard)
        order = self._agreement.boundary(step)
        if order is None or order.kind is OrderKind.SAVE:
            return order
        if order.kind is OrderKind.RAISE:
            self._raised_error = self._held_error or CheckpointError(
                f"Rank {order.rank} cannot continue: {order.reason}"
            )
            raise self._raised_error
        if self._guard is None:
            raise CheckpointError(f"The ranks stopped: {order.reason}")
        return order

    def call_save(self) -> None:
        """Have all ranks save at the next step that each of them can still reach."""
        self._agreement.call_save()

    def hold(self, error: BaseException) -> bool:
        """Keep an error until all ranks raise at one step; False if one is already kept.

        A rank that raises alone would leave the others waiting for it.
        """
        if self._held_error is not None:
            return False
        self._held_error = error
        self._agreement.call_raise(str(error))
        return True

    def report_failure(self, error: BaseException) -> None:
        """Let the other ranks know that this one has failed, so that they do not wait for it."""
        if error is not self._raised_error:
            rank = self._group.rank
            self._agreement.call_lost(f"rank {rank} failed: {type(error).__name__}: {error}")

    def is_ended_by_peers(self, error: BaseException) -> bool:
        """Whether an error comes from another rank that is gone, not from this one.

        A collective fails as soon as a rank in it dies. So all ranks are asked for an answer, and
        the guard gets a notice if one does not give any.
        """
        guard = self._guard
        may_be = isinstance(error, RanksLost) or is_collective_failure(error)
        if guard is None or not may_be:
            return False
        self._agreement.call_stop("a collective failed", guard.budget_seconds)
        give_up_at = time.monotonic() + max(_ANSWER_SECONDS, guard.budget_seconds / 6)
        while not guard.wait(_ANSWER_CHECK_SECONDS):
            order = self._agreement.boundary(self._step)
            if order is not None and not order.is_full:
                guard.announce_peer(order.reason, LOST_EXIT_SECONDS)
            elif time.monotonic() >= give_up_at:
                return False
        return True

    def _announce(self, guard: Guard) -> None:
        """Let all ranks know of the notice of this one. Repeating it has no effect."""
        if (notice := guard.notice) is not None:
            self._agreement.call_stop(notice.reason, guard.remaining())

    def _lose_peers(self, reason: str) -> None:
        """Exit soon: a rank is gone, and this one may wait for it, in a collective for example."""
        if self._guard is not None:
            self._guard.announce_peer(reason, LOST_EXIT_SECONDS)
        # A rank that waits for the others while they start waits no longer.
        self._group.close()
