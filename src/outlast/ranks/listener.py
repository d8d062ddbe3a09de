"""The thread that hears the calls of all ranks, and takes part in the decision on each.

It waits on a connection of its own for the call of the next round, so that hearing takes a
millisecond and costs nothing in between.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from outlast._base.logs import get_logger
from outlast.ranks.calls import WantedCalls
from outlast.ranks.channel import Channel
from outlast.ranks.gate import StepGate
from outlast.ranks.rounds import (
    Call,
    CallKind,
    Report,
    Verdict,
    give_up_seconds,
    order_from,
    second_turn_seconds,
    verdict_on,
    wait_seconds,
)
from outlast.ranks.world import World

log = get_logger(__name__)

_LOOK_SECONDS = 0.5
_CLOSER_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RankState:
    """What a rank knows about itself and wants to hear. All may be called in any thread."""

    seconds_left: Callable[[], float]
    seconds_needed: Callable[[], float]
    on_stop_call: Callable[[str, float], object]
    on_peer_lost: Callable[[str], object]


def call_key(number: int) -> str:
    return f"call/{number}"


def verdict_key(number: int) -> str:
    return f"verdict/{number}"


def report_key(number: int, rank: int) -> str:
    return f"at/{number}/{rank}"


class Listener:
    """Goes through the rounds, one after the other, until the agreement closes.

    `is_ending` becomes true once all loops are to end; then nothing more is decided.
    `has_closed_peers` means that a rank has left properly, so that its store may end as well.
    """

    def __init__(
        self, world: World, channel: Channel, gate: StepGate, wanted: WantedCalls, state: RankState
    ) -> None:
        self._world = world
        self._channel = channel
        self._gate = gate
        self._wanted = wanted
        self._state = state
        self.is_ending = False
        self.has_closed_peers = False

    def run(self) -> None:
        """Raises `ChannelLost` if the store is gone."""
        while True:
            number = self._wanted.round
            if not self._channel.wait([call_key(number)], math.inf) or self._wanted.is_closing:
                return
            data = self._channel.get(call_key(number))
            assert data is not None, "A key that is set is never deleted."
            call = Call.decode(data)
            self._answer(number, call)
            self._wanted.end_round(call)

    def _answer(self, number: int, call: Call) -> None:
        if call.kind is CallKind.CLOSE:
            self.has_closed_peers = True
        elif call.kind is CallKind.LOST:
            self.is_ending = True
            self._state.on_peer_lost(call.reason)
        elif not self.is_ending:
            self._decide(number, call)
            self.is_ending = call.kind is not CallKind.SAVE
        elif call.kind is CallKind.STOP:
            self._pass_on(call, call.seconds_left)

    def _decide(self, number: int, call: Call) -> None:
        heard_at = time.monotonic()
        self._gate.freeze(call, until=heard_at + give_up_seconds(call))
        self._report(number)
        if call.rank != self._world.rank:
            self._pass_on(call, call.seconds_left)
        verdict = self._verdict(number, call)
        self._gate.thaw(order_from(call, verdict))
        took_seconds = time.monotonic() - heard_at
        _log(call, verdict, took_seconds)
        if verdict.seconds_left < call.seconds_left - _CLOSER_SECONDS:
            self._pass_on(call, verdict.seconds_left - took_seconds)

    def _report(self, number: int) -> None:
        report = Report(
            step=self._gate.reported_step(),
            needed_seconds=self._state.seconds_needed(),
            seconds_left=self._state.seconds_left(),
        )
        self._channel.set(report_key(number, self._world.rank), report.encode())

    def _verdict(self, number: int, call: Call) -> Verdict:
        """The verdict of the caller, if it gives one in time; else that of the first other rank."""
        key = verdict_key(number)
        if call.rank == self._world.rank:
            self._wait_for_reports(number, wait_seconds(call))
        else:
            self._channel.wait([key], second_turn_seconds(call))
        data = self._channel.get(key)
        if data is None:
            verdict = verdict_on(call, self._reports(number), self._world.size)
            data = self._channel.claim(key, verdict.encode())
        return Verdict.decode(data)

    def _wait_for_reports(self, number: int, seconds: float) -> None:
        """Wait for all reports, or for a verdict by a rank that could not wait any longer."""
        keys = [report_key(number, rank) for rank in range(self._world.size)]
        while seconds > 0:
            if self._channel.wait(keys, min(seconds, _LOOK_SECONDS)):
                return
            seconds -= _LOOK_SECONDS
            if self._channel.get(verdict_key(number)) is not None:
                return

    def _reports(self, number: int) -> dict[int, Report]:
        found = {
            rank: self._channel.get(report_key(number, rank)) for rank in range(self._world.size)
        }
        return {rank: Report.decode(data) for rank, data in found.items() if data is not None}

    def _pass_on(self, call: Call, seconds_left: float) -> None:
        """Report a peer's stop to this rank's guard, so that its deadline holds here too."""
        if call.kind is CallKind.STOP:
            reason = f"{call.reason} on rank {call.rank}"
            self._state.on_stop_call(reason, max(0.0, seconds_left))


def _log(call: Call, verdict: Verdict, took_seconds: float) -> None:
    if verdict.step is None:
        level = logging.DEBUG if verdict.is_superseded else logging.WARNING
        log.log(level, "The ranks did not agree on a step for a %s: %s.", call.kind, verdict.why)
    else:
        log.debug("Agreed on step %d for a %s in %.4f s.", verdict.step, call.kind, took_seconds)
