"""Agree on the step at which all ranks stop, save or raise, without any cost per step.

A rank that has something to call sets a key in the store between the ranks. Every rank hears it in
a thread, holds its loop at the next boundary and reports where that is; the largest step counts for
all. Every wait has a limit, so a rank that is frozen or dead cannot keep the others. If killed:
nothing is left behind, and the other ranks notice.
"""

import atexit
import math
import os
import threading
import time
from collections.abc import Callable
from functools import partial

from outlast._base.logs import get_logger
from outlast.ranks.calls import WantedCalls
from outlast.ranks.channel import Channel
from outlast.ranks.errors import ChannelLost
from outlast.ranks.gate import StepGate
from outlast.ranks.listener import Listener, RankState
from outlast.ranks.liveness import BeatWatch, Heartbeat, Pulse
from outlast.ranks.rounds import Call, CallKind, Order, OrderKind
from outlast.ranks.sender import Sender
from outlast.ranks.world import World

__all__ = ["Agreement", "Order", "OrderKind"]

log = get_logger(__name__)

_CLOSE_SECONDS_MAX = 2.0
_LOST_CLOSE_SECONDS_MAX = 0.5
# A call on a connection that was cut ends by itself, but on a busy machine torch may take seconds
# to describe the error. If the interpreter ended before that, C++ would abort the process. Where
# there is a deadline, the guard keeps it.
_CUT_SECONDS_MAX = 10.0
_LAST_CALL_SECONDS_MAX = 1.0
_WATCH_SECONDS = 0.25
# A second stop call is made only if it leaves clearly less time than the first.
_CLOSER_SECONDS = 1.0
_STOP_CALLS_MAX = 3


class Agreement:
    """What the ranks of one world decide together, as one rank sees it.

    The loop calls `boundary(s)` when `s` steps are complete, also once before its first step. After
    a result of None or a save, it is inside step `s + 1`.

    `seconds_left` and `seconds_needed` are asked for this rank's time for work, infinite without a
    notice, and for the duration of a full final save. `on_stop_call` is called with the reason and
    the seconds left when another rank calls for a stop; `on_lost` with the reason when a rank or
    the store is lost. Both run in a background thread.
    """

    def __init__(
        self,
        world: World,
        channel: Channel,
        *,
        seconds_left: Callable[[], float],
        seconds_needed: Callable[[], float],
        on_stop_call: Callable[[str, float], object],
        on_lost: Callable[[str], object],
        beat_seconds: float = 2.0,
        lost_seconds: float = 30.0,
        join_seconds: float = 600.0,
    ) -> None:
        self._world = world
        self._pid = os.getpid()
        self._on_stop_call = on_stop_call
        self._on_lost = on_lost
        self._lost_seconds = lost_seconds
        self._gate = StepGate()
        self._wanted = WantedCalls()
        self._lock = threading.Lock()
        self._is_lost = False
        self._is_failing = False
        self._has_finished_peers = False
        self._stop_deadline = math.inf
        self._stop_calls = 0
        self._listening_ended = threading.Event()
        state = RankState(
            seconds_left=seconds_left,
            seconds_needed=seconds_needed,
            on_stop_call=self._hear_stop,
            on_peer_lost=self._lose,
        )
        watch = BeatWatch(
            world, beat_seconds=beat_seconds, lost_seconds=lost_seconds, join_seconds=join_seconds
        )
        self._channels = (channel.connect(), channel.connect())
        self._listener = Listener(world, self._channels[0], self._gate, self._wanted, state)
        self._sender = Sender(
            world,
            self._channels[1],
            self._wanted,
            Heartbeat(world, watch),
            beat_seconds=beat_seconds,
        )
        self._watch_ended = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"outlast-ranks-{name}", daemon=True)
            for name, work in (
                ("listener", self._listen),
                ("sender", self._send),
                ("watch", self._watch),
            )
        ]

    def start(self) -> None:
        """Start to hear the other ranks."""
        # No thread may come back from a wait in C++ while the interpreter shuts down.
        atexit.register(self.close)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Leave the agreement. Takes a bounded time, even if the store or other ranks are dead."""
        if os.getpid() != self._pid or self._wanted.is_closing:
            return
        if not self._is_lost:
            self._wanted.wait_until_settled(CallKind.LOST, _LAST_CALL_SECONDS_MAX)
        self._wanted.close()
        self._gate.close()
        self._watch_ended.set()
        self._join(_LOST_CLOSE_SECONDS_MAX if self._is_lost else _CLOSE_SECONDS_MAX)
        for channel in self._channels:
            # Ends a call that the store does not answer.
            channel.close()
        self._join(_CUT_SECONDS_MAX)
        atexit.unregister(self.close)

    def boundary(self, step: int) -> Order | None:
        """Pass the boundary after `step` completed steps. Returns the order that is due there.

        Waits while a call is being decided.
        """
        return self._gate.boundary(step)

    def call_stop(self, reason: str, seconds_left: float) -> None:
        """Have all ranks stop at one step. Repeating it has no effect, unless much less is left.

        This rank's own loop passes no further boundary until that step is known.
        """
        deadline = time.monotonic() + seconds_left
        with self._lock:
            is_closer = deadline < self._stop_deadline - _CLOSER_SECONDS
            if (self._stop_calls and not is_closer) or self._stop_calls == _STOP_CALLS_MAX:
                return
            self._stop_deadline = min(self._stop_deadline, deadline)
            self._stop_calls += 1
        self._call(CallKind.STOP, reason, seconds_left)

    def call_save(self) -> None:
        """Have all ranks save at one step. Without effect while such a save is pending."""
        if self._wanted.has(CallKind.SAVE) or self._gate.has_pending(OrderKind.SAVE):
            return
        self._call(CallKind.SAVE, "a checkpoint is due")

    def call_raise(self, message: str) -> None:
        """Have all ranks raise an error at one step."""
        self._call(CallKind.RAISE, message)

    def call_lost(self, reason: str) -> None:
        """Tell all other ranks that this one cannot continue, so that they do not wait for it.

        Call it before `close` when the loop has failed.
        """
        self._is_failing = True
        self._call(CallKind.LOST, reason)

    def _call(self, kind: CallKind, reason: str, seconds_left: float = math.inf) -> None:
        is_needless = self._listener.is_ending and kind in (CallKind.SAVE, CallKind.RAISE)
        if not is_needless:
            call = Call(kind=kind, reason=reason, rank=self._world.rank, seconds_left=seconds_left)
            if kind is CallKind.STOP and not self._listener.is_ending:
                self._gate.hold_for(call)
            self._wanted.add(call)

    def _hear_stop(self, reason: str, seconds_left: float) -> None:
        with self._lock:
            self._stop_deadline = min(self._stop_deadline, time.monotonic() + seconds_left)
            self._stop_calls = max(1, self._stop_calls)
        _report(partial(self._on_stop_call, reason, seconds_left))

    def _listen(self) -> None:
        try:
            self._keep_running(self._listener.run)
        finally:
            self._listening_ended.set()

    def _send(self) -> None:
        self._keep_running(self._sender.run)
        if self._wanted.is_closing:
            may_linger = not self._is_lost
            try:
                self._sender.say_goodbye(self._listening_ended, may_linger=may_linger)
            except ChannelLost as error:
                log.debug("Could not tell the other ranks about the end: %s", error)

    def _keep_running(self, work: Callable[[], object]) -> None:
        try:
            work()
        except ChannelLost as error:
            if self._listener.has_closed_peers:
                # The store has ended with the process that held it, which had finished.
                log.debug("The other ranks have finished: %s", error)
                self._has_finished_peers = True
                self._gate.close()
            else:
                self._lose(str(error))
        except Exception as error:
            log.exception("Unexpected error in the agreement between the ranks.")
            self._lose(f"unexpected {type(error).__name__}")

    def _watch(self) -> None:
        """Notice that the store answers nothing at all, which no thread that asks it can notice."""
        pulse = Pulse(2 * _WATCH_SECONDS)
        while not self._watch_ended.wait(_WATCH_SECONDS):
            now = time.monotonic()
            silent_seconds = pulse.note(self._sender.answers, now=now)
            if 0 < self._lost_seconds <= silent_seconds and not self._has_finished_peers:
                self._lose(f"the store between the ranks was silent for {silent_seconds:.0f} s")
            call = self._wanted.overdue(now)
            if call is not None and call.kind is not CallKind.SAVE:
                self._lose(f"the store between the ranks did not answer a call: {call.reason}")
            if self._is_lost:
                return

    def _lose(self, reason: str) -> None:
        """End this rank's loop at its next boundary, and report why. Once only."""
        with self._lock:
            if self._is_lost or self._wanted.is_closing:
                return
            self._is_lost = True
        log.error("Lost the connection to the other ranks: %s.", reason.rstrip("."))
        stop = Order(
            kind=OrderKind.STOP, step=0, is_full=False, reason=reason, rank=self._world.rank
        )
        self._gate.order_now(stop)
        if not self._is_failing:
            _report(partial(self._on_lost, reason))

    def _join(self, seconds: float) -> None:
        give_up_at = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, give_up_at - time.monotonic()))


def _report(call_back: Callable[[], object]) -> None:
    try:
        call_back()
    except Exception:
        log.exception("The callback %r failed.", call_back)
