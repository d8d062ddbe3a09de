"""The one thread of this process that hears notices and keeps the deadline.

It exists while a guard is open. Once someone outside has announced the end, it stays until the
process is gone: a program that swallows its own departure still leaves with the right code, and not
by a kill. The watcher writes nothing, so a kill leaves nothing behind.
"""

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from outlast._base.durations import format_duration
from outlast.interruption.expiry import BootExpiry, ExpiryClock, WallExpiry, is_credible
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.leaving import Departure, Exit
from outlast.interruption.notice import PREEMPTION_WINDOW_SECONDS, Announcement, Source
from outlast.interruption.signals import Arrival, SignalInbox
from outlast.interruption.standby import Standby
from outlast.interruption.watch import Watch

log = logging.getLogger(__name__)

_CLOCK_CHECK_SECONDS = 30.0
_WAIT_SECONDS_MAX = 3600.0
_SECOND_CTRL_C_SECONDS = 1.0
_TELLING_SECONDS_MAX = 0.25
_TURN_SECONDS = 0.001
_JOIN_SECONDS_MAX = 1.0


class _NoticeSource(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Member:
    watch: Watch
    derived_expiry: ExpiryClock | None
    expired: bool = False


_lock = threading.RLock()
_current: "Watcher | None" = None
_fork_hooks_are_set = False
_masks = threading.local()


def admit(watch: Watch) -> "Watcher":
    """Have this guard watched; the first one starts the watcher."""
    global _current, _fork_hooks_are_set
    with _lock:
        if not _fork_hooks_are_set:
            os.register_at_fork(
                before=_block_signals,
                after_in_parent=_unblock_signals,
                after_in_child=_forget_in_child,
            )
            _fork_hooks_are_set = True
        watcher = _current or Watcher(watch.settings.signals)
        _current = watcher
        try:
            remarks = watcher.add(watch)
        except BaseException:
            watcher.remove(watch)
            raise
    # A log may hang, so it is never written with the lock held.
    for remark in remarks:
        log.warning(remark)
    return watcher


class Watcher:
    def __init__(self, numbers: Collection[signal.Signals]) -> None:
        self._inbox = SignalInbox()
        # Taken over first: from then on no Ctrl-C can break into this and leave threads behind.
        if threading.current_thread() is threading.main_thread():
            self._inbox.listen(numbers)
        self._members: list[_Member] = []
        self._standing: list[Announcement] = []
        self._posted: deque[Announcement] = deque()
        self._unreported: list[Announcement] = []
        self._parting: Departure | None = None
        self._sources: dict[tuple[str, str], list[_NoticeSource]] = {}
        self._node_expiry: ExpiryClock | None = None
        self._first_ctrl_c: float | None = None
        self._closing = False
        self._too_late: list[Arrival] = []
        self._teller = Standby("outlast-callbacks")
        self._exit = Exit()
        self._thread = threading.Thread(target=self._run, name="outlast-watcher", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """False once it has ended, and in a forked child, which it does not watch."""
        return self is _current

    def add(self, watch: Watch) -> list[str]:
        """Watch over this guard too; returns what the user should be told. Lock held."""
        remarks = []
        derived: ExpiryClock | None = None
        if watch.settings.max_run_seconds is not None:
            derived = BootExpiry(max_run_seconds=watch.settings.max_run_seconds)
            if not is_credible(derived):
                remarks.append(_incredible(derived))
                derived = None
        self._members.append(_Member(watch, derived_expiry=derived))
        self._listen()
        if deaf := self._inbox.not_heard(watch.settings.signals):
            names = ", ".join(number.name for number in deaf)
            remarks.append(
                "This guard was opened outside the main thread, where Python lets no signal be "
                f"taken over: it does not hear {names}, only the metadata server, an expiry and "
                "interrupt(). Open a guard for these signals in the main thread as well."
            )
        self._start_sources(watch.settings)
        for announcement in self._standing:
            watch.receive(announcement)
        self._inbox.wake()
        return remarks

    def remove(self, watch: Watch) -> None:
        """Stop watching this guard. A notice from outside stands until the process is gone."""
        global _current
        with _lock:
            if not self.is_current:
                return
            self._members = [m for m in self._members if m.watch is not watch]
            if not self._members:
                self._first_ctrl_c = None
                self._standing = [a for a in self._standing if a.source.is_outside]
            if watch.notice is not None and watch.notice.source.is_outside:
                self._parting = _earliest(self._parting, watch.departure())
            try:
                # A repeated SIGTERM must not kill what the first one allowed to finish.
                if self._parting is None:
                    self._listen()
            finally:
                # Giving Ctrl-C back may raise it at once.
                self._closing = not (self._members or self._parting or self._inbox.listening)
                if self._closing:
                    _current = None
                    self._inbox.wake()
        if self._closing:
            self._thread.join()

    def announce(self, announcement: Announcement) -> None:
        """Have all guards told, and return once they are.

        Takes no lock and leaves the telling to the watcher's thread, so that a signal handler of
        the program's may call it at any moment.
        """
        self._posted.append(announcement)
        self._inbox.wake()
        give_up_at = time.monotonic() + _TELLING_SECONDS_MAX
        while announcement in self._posted and time.monotonic() < give_up_at:
            time.sleep(_TURN_SECONDS)

    def wake(self) -> None:
        """Have the watcher look at its guards again."""
        self._inbox.wake()

    def forget_in_child(self) -> None:
        """Undo in a forked child what belongs to its parent, which alone is told to stop."""
        self._inbox.listen(())
        self._inbox.close()

    def _listen(self) -> None:
        numbers = {number for m in self._members for number in m.watch.settings.signals}
        if threading.current_thread() is threading.main_thread():
            self._inbox.listen(numbers)
        self._inbox.abandoned = not numbers

    def _start_sources(self, settings: GuardSettings) -> None:
        # Imported here, because HTTP and TLS cost more than all the rest and few processes ask.
        host, node = settings.metadata_host, settings.node_name
        if host is not None and ("metadata", host) not in self._sources:
            from outlast.interruption.metadata import MAINTENANCE, PREEMPTED, MetadataPoll

            self._start(
                ("metadata", host),
                MetadataPoll(host, PREEMPTED, self._on_preempted),
                MetadataPoll(host, MAINTENANCE, self._on_maintenance),
            )
        if node is not None and settings.expires_at is None and ("node", node) not in self._sources:
            from outlast.interruption.node import NodeExpiryLookup

            self._start(("node", node), NodeExpiryLookup(node, self._on_node_expiry))

    def _start(self, key: tuple[str, str], *sources: _NoticeSource) -> None:
        started = self._sources[key] = []
        for source in sources:
            source.start()
            started.append(source)

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._look()
                except Exception:
                    # A fault of ours must not end the keeper of the deadline, nor spin.
                    self._teller.do(lambda: log.exception("The watcher stumbled."))
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
                self._tell_guards(self._posted[0])
                self._posted.popleft()
            self._check_expiry()
            unreported, self._unreported = self._unreported, []
            watches = [member.watch for member in self._members]
            departure = self._departure()
        if arrival is not None:
            self._inbox.confirm(arrival)
        self._tell(unreported, watches)
        if departure is not None and departure.at <= time.monotonic():
            last_acts = [call for watch in reversed(watches) for call in watch.last_resort()]
            self._exit.leave(departure, "The work did not end in time: leaving.", last_acts)

    def _end(self) -> None:
        """Let go of everything, in this thread, where no exception of the program's prevents it."""
        self._teller.close()
        self._exit.close()
        for sources in self._sources.values():
            for source in sources:
                source.close()
        unheard = [*self._too_late, *self._inbox.drain()]
        # These came while the guard was closing: they belong to whoever was there before it.
        for number in self._inbox.owed(unheard):
            os.kill(os.getpid(), number)
        self._inbox.close()
        self._teller.join(_JOIN_SECONDS_MAX)
        self._exit.join(_JOIN_SECONDS_MAX)

    def _tell(self, unreported: list[Announcement], watches: list[Watch]) -> None:
        """Log and call back in another thread: either may hang, and this one keeps the deadline."""
        for announcement in unreported:
            left = format_duration(min((watch.remaining() for watch in watches), default=0.0))
            self._teller.do(lambda a=announcement, left=left: _report(a, left))  # type: ignore[misc]  # defaults bind the loop's values
        for watch in watches:
            if watch.has_callbacks_due():
                self._teller.do(watch.call_back)

    def _seconds_to_next_event(self) -> float:
        with _lock:
            waits = [_WAIT_SECONDS_MAX]
            departure = self._departure()
            if departure is not None:
                waits.append(departure.at - time.monotonic())
            for member, clock in self._running_clocks():
                ahead_seconds = clock.seconds_left() - member.watch.settings.grace_seconds
                waits.append(min(ahead_seconds, _CLOCK_CHECK_SECONDS))
        return max(0.0, min(waits))

    def _departure(self) -> Departure | None:
        departure = self._parting
        for member in self._members:
            departure = _earliest(departure, member.watch.departure())
        return departure

    def _tell_guards(self, announcement: Announcement) -> None:
        self._standing.append(announcement)
        # Not `any`, which would stop at the first guard that is told something new.
        if sum(member.watch.receive(announcement) for member in self._members):
            self._unreported.append(announcement)

    def _on_arrival(self, arrival: Arrival) -> None:
        number = arrival.number
        if not any(number in member.watch.settings.signals for member in self._members):
            return
        source = Source.KEYBOARD if number == signal.SIGINT else Source.SIGNAL
        if source is Source.KEYBOARD:
            first, self._first_ctrl_c = self._first_ctrl_c, self._first_ctrl_c or arrival.moment
            departure = self._members[-1].watch.departure()
            repeated = first is not None and arrival.moment - first >= _SECOND_CTRL_C_SECONDS
            if repeated and departure is not None:
                self._exit.leave(departure, "A second Ctrl-C: leaving at once.", [])
        name = signal.Signals(number).name
        self._tell_guards(Announcement(source=source, reason=name, arrived=arrival.moment))

    def _on_preempted(self, value: str) -> None:
        if value == "TRUE":
            self.announce(
                Announcement(
                    source=Source.PREEMPTION,
                    reason="Compute Engine preempts this VM",
                    arrived=time.monotonic(),
                    window_seconds=PREEMPTION_WINDOW_SECONDS,
                )
            )

    def _on_maintenance(self, value: str) -> None:
        if value == "TERMINATE_ON_HOST_MAINTENANCE":
            self.announce(
                Announcement(source=Source.MAINTENANCE, reason=value, arrived=time.monotonic())
            )

    def _on_node_expiry(self, expires_at: datetime) -> None:
        clock = WallExpiry(expires_at=expires_at, source="the node's termination time")
        if is_credible(clock):
            with _lock:
                self._node_expiry = clock
            self._inbox.wake()
        else:
            log.warning(_incredible(clock))

    def seconds_until_expiry(self, watch: Watch) -> float | None:
        """How long the machine lives on, as far as any clock knows."""
        for member in list(self._members):
            if member.watch is watch and (clock := self._clock_of(member)) is not None:
                return clock.seconds_left()
        return None

    def _clock_of(self, member: _Member) -> ExpiryClock | None:
        return member.watch.explicit_expiry or self._node_expiry or member.derived_expiry

    def _running_clocks(self) -> list[tuple[_Member, ExpiryClock]]:
        clocks = []
        for member in self._members:
            clock = self._clock_of(member)
            if clock is not None and not member.expired:
                clocks.append((member, clock))
        return clocks

    def _check_expiry(self) -> None:
        for member, clock in self._running_clocks():
            settings = member.watch.settings
            left_seconds = clock.seconds_left()
            if left_seconds > settings.grace_seconds:
                continue
            member.expired = True
            announcement = Announcement(
                source=Source.EXPIRY,
                reason=f"the machine expires by {clock.source}",
                arrived=time.monotonic(),
            )
            # A clock too close to act on gets a full grace period: it may be somewhat wrong.
            if left_seconds > settings.reserve_seconds:
                announcement = replace(announcement, window_seconds=left_seconds)
            member.watch.receive(announcement)
            self._unreported.append(announcement)


def _block_signals() -> None:
    """Before a fork: what is sent to the child must not arrive through the parent's handlers."""
    if _current is not None:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _unblock_signals() -> None:
    before = getattr(_masks, "before", None)
    if before is not None:
        _masks.before = None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget_in_child() -> None:
    global _lock, _current
    _lock = threading.RLock()
    watcher, _current = _current, None
    if watcher is not None:
        watcher.forget_in_child()
    _unblock_signals()


def _earliest(one: Departure | None, other: Departure | None) -> Departure | None:
    return min((d for d in (one, other) if d is not None), key=lambda d: d.at, default=None)


def _incredible(clock: ExpiryClock) -> str:
    return (
        f"This machine should have gone {format_duration(-clock.seconds_left())} ago by "
        f"{clock.source}, but runs: that clock is not for this machine, and is ignored."
    )


def _report(announcement: Announcement, left: str) -> None:
    fields = {"source": announcement.source.value, "reason": announcement.reason}
    if announcement.source is Source.MAINTENANCE:
        log.warning("Maintenance of this host is announced: a save is asked for.", extra=fields)
    elif announcement.source is Source.KEYBOARD:
        log.warning(
            "Ctrl-C: the work has %s to end. Press it again to leave at once.", left, extra=fields
        )
    else:
        log.warning("Notice: %s. The work has %s to end.", announcement.reason, left, extra=fields)
