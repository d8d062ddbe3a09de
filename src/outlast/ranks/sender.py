"""The thread that makes this rank's calls and sets its heartbeat, on a connection of its own."""

import threading
import time

from outlast.ranks.calls import WantedCalls
from outlast.ranks.channel import Channel
from outlast.ranks.listener import call_key, verdict_key
from outlast.ranks.liveness import Heartbeat
from outlast.ranks.rounds import Call, CallKind, Verdict
from outlast.ranks.world import World

_RELEASE_TRIES_MAX = 50
# Ranks mostly close together. Those that wait this long are released by the first one's call.
_RELEASE_SECONDS = 0.02
_LINGER_SECONDS_MAX = 0.5


class Sender:
    """Makes calls until all ranks have heard them. `answers` counts the answers of the store."""

    def __init__(
        self,
        world: World,
        channel: Channel,
        wanted: WantedCalls,
        heartbeat: Heartbeat,
        *,
        beat_seconds: float,
    ) -> None:
        self._world = world
        self._channel = channel
        self._wanted = wanted
        self._heartbeat = heartbeat
        self._beat_seconds = beat_seconds
        self._has_called_lost = False
        self.answers = 0

    def run(self) -> None:
        """Raises `ChannelLost` if the store is gone."""
        beat_at = time.monotonic()
        while not self._wanted.is_closing:
            if time.monotonic() >= beat_at:
                self._beat()
                beat_at = time.monotonic() + self._beat_seconds
            wanted = self._wanted.next(max(0.0, beat_at - time.monotonic()))
            if wanted is not None:
                self._make(*wanted)

    def say_goodbye(self, listening_ended: threading.Event, *, may_linger: bool) -> None:
        """Leave so that no rank misses this one, and release this rank's listener.

        The listener waits for a call, so a call without meaning releases it. Rank 0 may hold the
        store, so it waits briefly until the others have left.
        """
        self._heartbeat.close(self._channel)
        self._channel.set(_bye_key(self._world.rank), b"bye")
        call = Call(kind=CallKind.CLOSE, reason="closed", rank=self._world.rank)
        for _ in range(_RELEASE_TRIES_MAX):
            if listening_ended.wait(_RELEASE_SECONDS):
                break
            self._channel.claim(call_key(self._wanted.round), call.encode())
        if self._world.rank == 0 and may_linger:
            others = [_bye_key(rank) for rank in range(1, self._world.size)]
            self._channel.wait(others, _LINGER_SECONDS_MAX)

    def _beat(self) -> None:
        reason = self._heartbeat.beat(self._channel, now=time.monotonic())
        self.answers += 1
        if reason is not None and not self._has_called_lost:
            self._has_called_lost = True
            self._wanted.add(Call(kind=CallKind.LOST, reason=reason, rank=self._world.rank))

    def _make(self, number: int, call: Call) -> None:
        winner = Call.decode(self._channel.claim(call_key(number), call.encode()))
        self.answers += 1
        if winner.kind is CallKind.SAVE and call.kind is not CallKind.SAVE:
            # A save that waits for a rank must not use up the time of a stop, which saves as well.
            why = f"rank {call.rank} called for a {call.kind}"
            verdict = Verdict(step=None, is_superseded=True, why=why)
            self._channel.claim(verdict_key(number), verdict.encode())


def _bye_key(rank: int) -> str:
    return f"bye/{rank}"
