"""The thread that receives notices and keeps the deadline, one per process.

It exists while a guard is open. After a notice from outside, it stays until the process ends: a
program that swallows the interruption still exits with the right code before it is killed. Below
`outlast exec`, it notes how the process ends; a kill leaves a note without an exit code.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from outlast._base.durations import format_duration
from outlast._base.logs import get_logger
from outlast.interruption.exit_codes import FAILED
from outlast.interruption.exit_notes import begin_note, note_exit_later
from outlast.interruption.exiting import Exit, ScheduledExit, StandbyThread, exit_by_timer
from outlast.interruption.expiry import (
    BootExpiry,
    ExpiryClock,
    is_credible,
    wrong_clock_warning,
)
from outlast.interruption.guard_state import GuardState
from outlast.interruption.lease_end import LeaseEnd
from outlast.interruption.notice import Announcement, NoticeSource
from outlast.interruption.signals import Arrival, SignalInbox
from outlast.interruption.sources import NoticeSources

log = get_logger(__name__)

_CLOCK_CHECK_SECONDS = 30.0
_WAIT_SECONDS_MAX = 3600.0
# How soon the watcher discovers that the program replaced our handler.
_HANDLER_CHECK_SECONDS = 0.25
_SECOND_CTRL_C_SECONDS = 1.0
_ANNOUNCE_SECONDS_MAX = 0.25
_TURN_SECONDS = 0.001
_JOIN_SECONDS_MAX = 1.0


@dataclass(slots=True)
class _WatchedGuard:
    state: GuardState
    derived_expiry: ExpiryClock | None
    expired: bool = False


_lock = threading.RLock()
_current: "Watcher | None" = None
_hooks_are_set = False
# Of all notices that guards of this process have received.
_interrupted_codes: frozenset[int] = frozenset()
_masks = threading.local()


def admit(state: GuardState) -> "Watcher":
    """Watch this guard; the first one starts the watcher."""
    global _current, _hooks_are_set
    with _lock:
        if not _hooks_are_set:
            os.register_at_fork(
                before=_block_signals,
                after_in_parent=_unblock_signals,
                after_in_child=_forget_in_child,
            )
            atexit.register(_hold_until_exit)
            _hooks_are_set = True
        watcher = _current or Watcher(state.settings.signals)
        _current = watcher
        try:
            warnings = watcher.add(state)
        except BaseException:
            watcher.remove(state)
            raise
    # Logging and files may hang, so they are never used with the lock held.
    for warning in warnings:
        log.warning(warning)
    begin_note()
    return watcher


class Watcher:
    def __init__(self, numbers: Collection[signal.Signals]) -> None:
        self.pid = os.getpid()
        self._inbox = SignalInbox()
        # Taken over first: from then on, Ctrl-C cannot interrupt this and leave threads running.
        if threading.current_thread() is threading.main_thread():
            self._inbox.listen(numbers)
        self._guards: list[_WatchedGuard] = []
        self._announced: list[Announcement] = []
        self._posted: deque[Announcement] = deque()
        self._unreported: list[Announcement] = []
        self._catching_up: deque[threading.Event] = deque()
        self._pending_exit: ScheduledExit | None = None
        self._sources = NoticeSources(self.announce, self._set_node_expiry)
        self._node_expiry: ExpiryClock | None = None
        self._first_ctrl_c: float | None = None
        self._has_signal = False
        self._lease_end: LeaseEnd | None = None
        self._closing = False
        self._too_late: list[Arrival] = []
        self._callback_thread = StandbyThread("outlast-callbacks")
        self._exit = Exit()
        self._thread = threading.Thread(target=self._run, name="outlast-watcher", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """False once it has ended, and in a forked child."""
        return self is _current

    def add(self, state: GuardState) -> list[str]:
        """Watch this guard too. Returns warnings for the user. The lock must be held."""
        warnings = []
        derived: ExpiryClock | None = None
        if state.settings.max_run_seconds is not None:
            derived = BootExpiry(max_run_seconds=state.settings.max_run_seconds)
            if not is_credible(derived):
                warnings.append(wrong_clock_warning(derived))
                derived = None
        self._guards.append(_WatchedGuard(state, derived_expiry=derived))
        self._listen()
        if deaf := self._inbox.not_heard(state.settings.signals):
            names = ", ".join(number.name for number in deaf)
            warnings.append(
                "This guard was opened outside the main thread, where Python cannot handle "
                f"signals. It does not receive {names}, only notices from the metadata server, an "
                "expiry and interrupt(). Open another guard for these signals in the main thread."
            )
        self._sources.start(state.settings)
        for announcement in self._announced:
            state.receive(announcement)
        self._inbox.wake()
        return warnings

    def remove(self, state: GuardState) -> None:
        """Stop watching this guard. A notice from outside stays in effect."""
        global _current, _interrupted_codes
        with _lock:
            if not self.is_current:
                return
            _interrupted_codes |= state.interrupted_codes()
            self._guards = [m for m in self._guards if m.state is not state]
            if not self._guards:
                self._first_ctrl_c = None
                self._announced = [a for a in self._announced if a.source.is_outside]
            if state.is_ended_from_outside:
                self._pending_exit = _earliest(self._pending_exit, state.scheduled_exit())
            try:
                # A repeated SIGTERM must not kill a process that is still finishing.
                if self._pending_exit is None:
                    self._listen()
            finally:
                # Restoring Ctrl-C may raise it immediately.
                self._closing = not (self._guards or self._pending_exit or self._inbox.listening)
                if self._closing:
                    _current = None
                    self._inbox.wake()
        if self._closing:
            self._thread.join()

    def stay_until_shutdown(self, state: GuardState) -> None:
        """Have this process wait for its node to go before it exits, if its lease is ending.

        Not after a signal, which says that the node, or the Pod, is going already.
        """
        with _lock:
            clock = next((self._clock_of(g) for g in self._guards if g.state is state), None)
            scheduled, notice = state.scheduled_exit(), state.notice
            if clock is None or scheduled is None or notice is None or self._has_signal:
                return
            grace_seconds, reserve_seconds = state.settings[:2]
            is_ending = clock.seconds_left() <= grace_seconds
            if notice.source in (NoticeSource.EXPIRY, NoticeSource.PEER) and is_ending:
                self._lease_end = LeaseEnd(
                    clock=clock, exit=scheduled, budget_seconds=grace_seconds - reserve_seconds
                )

    def wait_for_shutdown(self) -> None:
        """At the end of a lease, return once the node is going. Called by the interpreter."""
        lease_end = self._lease_end
        if lease_end is None:
            return
        seconds = format_duration(max(0.0, lease_end.seconds_max()))
        log.warning(
            "The lease of this node ends. Everything is saved; waiting for the node to be shut "
            "down, for at most %s, so that no new Pod starts on it.",
            seconds,
        )
        if not lease_end.wait():
            log.warning("The node was not shut down when its lease ended; exiting.")
        with _lock:
            self._lease_end, self._pending_exit = None, lease_end.final_exit()

    def announce(self, announcement: Announcement) -> None:
        """Notify all guards, and return once they are notified.

        Takes no lock and leaves the work to the watcher's thread, so that a signal handler of the
        program may call it at any time.
        """
        self._posted.append(announcement)
        self._inbox.wake()
        give_up_at = time.monotonic() + _ANNOUNCE_SECONDS_MAX
        while announcement in self._posted and time.monotonic() < give_up_at:
            time.sleep(_TURN_SECONDS)

    def catch_up(self) -> None:
        """Return once every signal that has arrived so far has reached the guards.

        A handler of the program may run, and exit, before this thread has had its turn.
        """
        done = threading.Event()
        self._catching_up.append(done)
        self._inbox.wake()
        done.wait(_JOIN_SECONDS_MAX)

    def wake(self) -> None:
        """Have the watcher check its guards again."""
        self._inbox.wake()

    def hold_until_exit(self) -> ScheduledExit | None:
        """Keep the exit code and the deadline while the interpreter shuts down.

        Called by the interpreter before it stops our thread. Without a notice, there is no
        exit, and this does nothing.
        """
        scheduled_exit = self._scheduled_exit()
        if scheduled_exit is None:
            return None
        exit_by_timer(scheduled_exit)
        if self._pending_exit or any(guard.state.is_ended_from_outside for guard in self._guards):
            # Fails only if the interpreter is shut down outside the main thread.
            with contextlib.suppress(ValueError):
                self._inbox.ignore()
        return scheduled_exit

    def interrupted_codes(self) -> frozenset[int]:
        """The exit codes after the notices that open guards have received."""
        return frozenset().union(*(guard.state.interrupted_codes() for guard in self._guards))

    def forget_in_child(self) -> None:
        """Undo in a forked child what belongs to its parent; only the parent receives notices."""
        self._inbox.listen(())
        self._inbox.close()

    def _listen(self) -> None:
        numbers = {number for m in self._guards for number in m.state.settings.signals}
        if threading.current_thread() is threading.main_thread():
            self._inbox.listen(numbers)
        self._inbox.abandoned = not numbers

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._look()
                except Exception as error:
                    # A bug must not end the thread that keeps the deadline, nor make it spin.
                    report = partial(log.error, "The watcher failed and continues.", exc_info=error)
                    self._callback_thread.do(report)
                    time.sleep(_CLOCK_CHECK_SECONDS / 100)
        finally:
            self._end()

    def _look(self) -> None:
        arrival = self._inbox.receive(self._seconds_to_next_event())
        with _lock:
            if self._closing:
                self._too_late += [arrival] if arrival is not None else []
                return
            if arrival is not None:
                self._on_arrival(arrival)
            while self._posted:
                self._notify_guards(self._posted[0])
                self._posted.popleft()
            self._check_expiry()
            caught_up = self._caught_up()
            warnings = [*self._inbox.take_warnings(), *self._inbox.keep_hearing()]
            unreported, self._unreported = self._unreported, []
            states = [guard.state for guard in self._guards]
            scheduled_exit = self._scheduled_exit()
        if arrival is not None:
            self._inbox.confirm(arrival)
        for done in caught_up:
            done.set()
        self._report(unreported, states)
        for warning in warnings:
            self._callback_thread.do(partial(log.warning, warning))
        if scheduled_exit is not None and scheduled_exit.at <= time.monotonic():
            last_acts = [call for state in reversed(states) for call in state.last_resort()]
            self._exit.end_process(
                scheduled_exit, "The program did not exit in time; exiting now.", last_acts
            )

    def _caught_up(self) -> list[threading.Event]:
        """Those who wait in `catch_up`, if there is nothing left to receive."""
        if not self._catching_up or self._inbox.has_more():
            return []
        return [self._catching_up.popleft() for _ in range(len(self._catching_up))]

    def _end(self) -> None:
        """Release everything, in this thread, where no exception of the program can prevent it."""
        for warning in self._inbox.take_warnings():
            self._callback_thread.do(partial(log.warning, warning))
        self._callback_thread.close()
        self._exit.close()
        self._sources.close()
        unheard = [*self._too_late, *self._inbox.drain()]
        # These arrived while the guard was closing, so they go to the previous handlers.
        for number in self._inbox.owed(unheard):
            os.kill(os.getpid(), number)
        self._inbox.close()
        self._callback_thread.join(_JOIN_SECONDS_MAX)
        self._exit.join(_JOIN_SECONDS_MAX)

    def _report(self, unreported: list[Announcement], states: list[GuardState]) -> None:
        """Log and run callbacks in another thread, because they may hang."""
        for announcement in unreported:
            left = format_duration(min((state.remaining() for state in states), default=0.0))
            self._callback_thread.do(lambda a=announcement, left=left: _log_notice(a, left))  # type: ignore[misc]  # defaults bind the loop's values
        for state in states:
            if state.has_callbacks_due():
                self._callback_thread.do(state.call_back)

    def _seconds_to_next_event(self) -> float:
        with _lock:
            waits = [_HANDLER_CHECK_SECONDS if self._inbox.listening else _WAIT_SECONDS_MAX]
            scheduled_exit = self._scheduled_exit()
            if scheduled_exit is not None:
                waits.append(scheduled_exit.at - time.monotonic())
            for guard, clock in self._running_clocks():
                ahead_seconds = clock.seconds_left() - guard.state.settings.grace_seconds
                waits.append(min(ahead_seconds, _CLOCK_CHECK_SECONDS))
        return max(0.0, min(waits))

    def _scheduled_exit(self) -> ScheduledExit | None:
        if self._lease_end is not None and not self._guards:
            return self._lease_end.scheduled_exit()
        scheduled_exit = self._pending_exit
        for guard in self._guards:
            scheduled_exit = _earliest(scheduled_exit, guard.state.scheduled_exit())
        return scheduled_exit

    def _notify_guards(self, announcement: Announcement) -> None:
        self._announced.append(announcement)
        # Not `any`, which would stop at the first guard for which this is new.
        if sum(guard.state.receive(announcement) for guard in self._guards):
            self._unreported.append(announcement)

    def _on_arrival(self, arrival: Arrival) -> None:
        number = arrival.number
        self._has_signal = True
        if self._lease_end is not None:
            self._lease_end.on_shutdown(arrival.moment)
        if not any(number in guard.state.settings.signals for guard in self._guards):
            return
        source = NoticeSource.KEYBOARD if number == signal.SIGINT else NoticeSource.SIGNAL
        if source is NoticeSource.KEYBOARD:
            first, self._first_ctrl_c = self._first_ctrl_c, self._first_ctrl_c or arrival.moment
            scheduled_exit = self._guards[-1].state.scheduled_exit()
            repeated = first is not None and arrival.moment - first >= _SECOND_CTRL_C_SECONDS
            if repeated and scheduled_exit is not None:
                self._exit.end_process(scheduled_exit, "Received a second Ctrl-C; exiting now.", [])
        name = signal.Signals(number).name
        self._notify_guards(Announcement(source=source, reason=name, arrived=arrival.moment))

    def _set_node_expiry(self, clock: ExpiryClock) -> None:
        with _lock:
            self._node_expiry = clock
        self._inbox.wake()

    def seconds_until_expiry(self, state: GuardState) -> float | None:
        """Seconds until the machine is taken away, if a clock knows."""
        for guard in list(self._guards):
            if guard.state is state and (clock := self._clock_of(guard)) is not None:
                return clock.seconds_left()
        return None

    def _clock_of(self, guard: _WatchedGuard) -> ExpiryClock | None:
        return guard.state.explicit_expiry or self._node_expiry or guard.derived_expiry

    def _running_clocks(self) -> list[tuple[_WatchedGuard, ExpiryClock]]:
        clocks = []
        for guard in self._guards:
            clock = self._clock_of(guard)
            if clock is not None and not guard.expired:
                clocks.append((guard, clock))
        return clocks

    def _check_expiry(self) -> None:
        for guard, clock in self._running_clocks():
            settings = guard.state.settings
            left_seconds = clock.seconds_left()
            if left_seconds > settings.grace_seconds:
                continue
            guard.expired = True
            announcement = Announcement(
                source=NoticeSource.EXPIRY,
                reason=f"the machine expires according to {clock.source}",
                arrived=time.monotonic(),
            )
            # If too little time is left to act, assume a full grace period: the clock may be off.
            if left_seconds > settings.reserve_seconds:
                announcement = replace(announcement, window_seconds=left_seconds)
            guard.state.receive(announcement)
            self._unreported.append(announcement)


def _hold_until_exit() -> None:
    scheduled, codes = None, _interrupted_codes
    # Not after a failure, which happened after the guard was closed.
    if _current is not None and not hasattr(sys, "last_value"):
        _current.wait_for_shutdown()
    with _lock:
        if _current is not None:
            scheduled = _current.hold_until_exit()
            codes |= _current.interrupted_codes()
    note_exit_later(codes, expected=_expected_code(scheduled, codes))


def _expected_code(scheduled: ScheduledExit | None, codes: Collection[int]) -> int | None:
    """The exit code if this process is ended while the interpreter shuts down; None if unknown."""
    if hasattr(sys, "last_value"):
        return FAILED
    if scheduled is not None:
        return scheduled.code
    return max(codes, default=None)


def _block_signals() -> None:
    """Before a fork: signals for the child must not reach the parent's handlers in it."""
    if _current is not None:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _unblock_signals() -> None:
    before = getattr(_masks, "before", None)
    if before is not None:
        _masks.before = None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget_in_child() -> None:
    global _lock, _current, _interrupted_codes
    _lock = threading.RLock()
    _interrupted_codes = frozenset()
    watcher, _current = _current, None
    if watcher is not None:
        watcher.forget_in_child()
    _unblock_signals()


def _earliest(one: ScheduledExit | None, other: ScheduledExit | None) -> ScheduledExit | None:
    return min((d for d in (one, other) if d is not None), key=lambda d: d.at, default=None)


def _log_notice(announcement: Announcement, left: str) -> None:
    fields = {"source": announcement.source.value, "reason": announcement.reason}
    if announcement.source is NoticeSource.MAINTENANCE:
        log.warning("Host maintenance was announced: requesting a save.", extra=fields)
        return
    what, more = f"Notice: {announcement.reason}.", ""
    if announcement.source is NoticeSource.PEER:
        what = f"Notice from another rank: {announcement.reason.rstrip('.')}."
    if announcement.source is NoticeSource.SIGNAL:
        what = f"Received {announcement.reason}:"
    elif announcement.source is NoticeSource.KEYBOARD:
        what, more = "Received Ctrl-C:", " Press it again to exit now."
    log.warning("%s %s left to save and exit.%s", what, left, more, extra=fields)
