"""The one thread of this process that hears notices and keeps the deadline.

It exists while a guard is open. Once someone outside has announced the end, it stays until the
process is gone: a program that swallows its own departure still leaves with the right code, and not
by a kill. The watcher writes nothing, so a kill leaves nothing behind.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from outlast._base.durations import format_duration
from outlast.interruption.expiry import ExpiryClock, WallExpiry, derived_expiry, is_credible
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.leaving import Departure, leave
from outlast.interruption.notice import PREEMPTION_WINDOW_SECONDS, Announcement, Source
from outlast.interruption.signals import Arrival, SignalInbox
from outlast.interruption.watch import Watch

log = logging.getLogger(__name__)

_CLOCK_CHECK_SECONDS = 30.0
_SECOND_CTRL_C_SECONDS = 1.0
_TELLING_SECONDS_MAX = 0.25
_TURN_SECONDS = 0.001


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
_fork_hook_is_set = False


def admit(watch: Watch) -> "Watcher":
    """Have this guard watched; the first one starts the watcher."""
    global _current, _fork_hook_is_set
    with _lock:
        if not _fork_hook_is_set:
            os.register_at_fork(after_in_child=_forget_in_child)
            _fork_hook_is_set = True
        if _current is None:
            _current = Watcher()
        _current.add(watch)
        return _current


class Watcher:
    def __init__(self) -> None:
        self._inbox = SignalInbox()
        self._members: list[_Member] = []
        self._standing: list[Announcement] = []
        self._posted: deque[Announcement] = deque()
        self._unreported: list[Announcement] = []
        self._parting: Departure | None = None
        self._sources: list[_NoticeSource] | None = None
        self._node_expiry: ExpiryClock | None = None
        self._first_ctrl_c: float | None = None
        self._closing = False
        self._too_late: Arrival | None = None
        self._thread = threading.Thread(target=self._run, name="outlast-watcher", daemon=True)
        self._thread.start()

    def add(self, watch: Watch) -> None:
        with _lock:
            derived = _if_credible(derived_expiry(watch.settings))
            self._members.append(_Member(watch, derived_expiry=derived))
            self._listen()
            if watch.settings.signals and not self._inbox.listening:
                log.warning(
                    "This guard was opened outside the main thread, where Python delivers no "
                    "signals: it hears the metadata server, an expiry and interrupt(), but no "
                    "SIGTERM. Open a guard in the main thread as well."
                )
            self._start_sources(watch.settings)
            for announcement in self._standing:
                watch.receive(announcement)
        self._inbox.wake()

    def remove(self, watch: Watch) -> None:
        """Stop watching this guard. A notice from outside stands until the process is gone."""
        global _current
        with _lock:
            if self is not _current:
                return
            self._members = [m for m in self._members if m.watch is not watch]
            if not self._members:
                self._standing = [a for a in self._standing if a.source.is_outside]
            if watch.notice is not None and watch.notice.source.is_outside:
                self._parting = _earliest(self._parting, watch.departure(cut_off=False))
            # A repeated SIGTERM must not kill what the first one allowed to finish.
            if self._parting is None:
                self._listen()
            if self._members or self._parting is not None or self._inbox.listening:
                return
            self._closing = True
            _current = None
        self._close()

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

    def _close(self) -> None:
        for source in self._sources or ():
            source.close()
        self._inbox.wake()
        self._thread.join()
        unheard = [self._too_late, *self._inbox.drain()]
        self._inbox.close()
        # These came while the guard was closing: they belong to whoever was there before it.
        for arrival in unheard:
            if arrival is not None:
                signal.raise_signal(arrival.number)

    def _listen(self) -> None:
        numbers = {number for m in self._members for number in m.watch.settings.signals}
        if threading.current_thread() is threading.main_thread():
            self._inbox.listen(numbers)
        self._inbox.abandoned = not numbers

    def _start_sources(self, settings: GuardSettings) -> None:
        if self._sources is not None:
            return
        self._sources = []
        # Imported here, because HTTP and TLS cost more than all the rest and few processes ask.
        if settings.metadata_host is not None:
            from outlast.interruption.metadata import MAINTENANCE, PREEMPTED, MetadataPoll

            self._sources += [
                MetadataPoll(settings.metadata_host, PREEMPTED, self._on_preempted),
                MetadataPoll(settings.metadata_host, MAINTENANCE, self._on_maintenance),
            ]
        if settings.node_name is not None and settings.expires_at is None:
            from outlast.interruption.node import NodeExpiryLookup

            self._sources.append(NodeExpiryLookup(settings.node_name, self._on_node_expiry))
        for source in self._sources:
            source.start()

    def _run(self) -> None:
        while True:
            arrival = self._inbox.receive(self._seconds_to_next_event())
            with _lock:
                if self._closing:
                    self._too_late = arrival
                    return
                if arrival is not None:
                    self._on_arrival(arrival)
                while self._posted:
                    self._tell_guards(self._posted[0])
                    self._posted.popleft()
                self._check_expiry()
                unreported, self._unreported = self._unreported, []
                members = list(self._members)
                departure = self._departure()
            if arrival is not None:
                self._inbox.confirm(arrival)
            self._tell(unreported, [m.watch for m in members])
            if departure is not None and departure.at <= time.monotonic():
                last_acts = [call for m in reversed(members) for call in m.watch.last_resort()]
                leave(departure, "The work did not end in time: leaving.", last_acts)

    def _tell(self, unreported: list[Announcement], watches: list[Watch]) -> None:
        """Log and call back in another thread: either may hang, and this one keeps the deadline."""
        waiting = [watch for watch in watches if watch.has_callbacks_due()]
        if not unreported and not waiting:
            return
        thread = threading.Thread(
            target=_report_and_call_back,
            args=(unreported, watches, waiting),
            name="outlast-callbacks",
            daemon=True,
        )
        # Without memory for a thread, the notice stands all the same and the deadline is kept.
        with contextlib.suppress(RuntimeError):
            thread.start()

    def _seconds_to_next_event(self) -> float | None:
        with _lock:
            waits = []
            departure = self._departure()
            if departure is not None:
                waits.append(departure.at - time.monotonic())
            for member, clock in self._running_clocks():
                ahead_seconds = clock.seconds_left() - member.watch.settings.grace_seconds
                waits.append(min(ahead_seconds, _CLOCK_CHECK_SECONDS))
        return max(0.0, min(waits)) if waits else None

    def _departure(self) -> Departure | None:
        departure = self._parting
        for member in self._members:
            departure = _earliest(departure, member.watch.departure(cut_off=True))
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
        if number != signal.SIGINT:
            name = signal.Signals(number).name
            self._tell_guards(
                Announcement(source=Source.SIGNAL, reason=name, arrived=arrival.moment)
            )
            return
        if self._first_ctrl_c is None:
            self._first_ctrl_c = arrival.moment
        elif arrival.moment - self._first_ctrl_c >= _SECOND_CTRL_C_SECONDS:
            innermost = self._members[-1].watch.departure(cut_off=True)
            assert innermost is not None, "The first Ctrl-C gave every guard a notice."
            leave(innermost, "A second Ctrl-C: leaving at once.", [])
        self._tell_guards(
            Announcement(source=Source.KEYBOARD, reason="SIGINT", arrived=arrival.moment)
        )

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
        with _lock:
            self._node_expiry = _if_credible(clock)
        self._inbox.wake()

    def _running_clocks(self) -> list[tuple[_Member, ExpiryClock]]:
        clocks = []
        for member in self._members:
            clock = member.watch.explicit_expiry or self._node_expiry or member.derived_expiry
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


def _forget_in_child() -> None:
    global _lock, _current
    _lock = threading.RLock()
    watcher, _current = _current, None
    if watcher is not None:
        watcher.forget_in_child()


def _earliest(one: Departure | None, other: Departure | None) -> Departure | None:
    return min((d for d in (one, other) if d is not None), key=lambda d: d.at, default=None)


def _if_credible(clock: ExpiryClock | None) -> ExpiryClock | None:
    if clock is None or is_credible(clock):
        return clock
    log.warning(
        "This machine should have gone %s ago by %s, but runs: that clock is not for this "
        "machine, and is ignored.",
        format_duration(-clock.seconds_left()),
        clock.source,
    )
    return None


def _report_and_call_back(
    unreported: list[Announcement], watches: list[Watch], waiting: list[Watch]
) -> None:
    for announcement in unreported:
        _report(announcement, watches)
    for watch in waiting:
        watch.call_back()


def _report(announcement: Announcement, watches: list[Watch]) -> None:
    fields = {"source": announcement.source.value, "reason": announcement.reason}
    ends = [end.at for watch in watches if (end := watch.departure(cut_off=True)) is not None]
    left = format_duration(max(0.0, min(ends, default=0.0) - time.monotonic()))
    if announcement.source is Source.MAINTENANCE:
        log.warning("Maintenance of this host is announced: a save is asked for.", extra=fields)
    elif announcement.source is Source.KEYBOARD:
        log.warning(
            "Ctrl-C: the work has %s to end. Press it again to leave at once.", left, extra=fields
        )
    else:
        log.warning("Notice: %s. The work has %s to end.", announcement.reason, left, extra=fields)
