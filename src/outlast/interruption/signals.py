"""Receive signals with their time of arrival, also while the main thread is busy.

Python runs signal handlers in the main thread, between two of its instructions, so a long call into
C delays them. But the interpreter's own C handler immediately writes the number of each signal to a
wake-up descriptor. Here that is a datagram socket, and the kernel adds a timestamp to every
datagram. So neither a long call nor a held interpreter lock delays the start of the deadline.
"""

import contextlib
import os
import re
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from types import FrameType
from typing import TypeGuard, cast

_Handler = Callable[[int, FrameType | None], object] | int | None

# Linux uses struct timespec; without this option, a signal counts from when it is read.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_SIGACTION_BYTES_MAX = 1024
_TURN_SECONDS = 0.001
_TURNS_UNTIL_SENT_AGAIN = 50
_TURNS_MAX = 200
_SIGNALS_HELD_MAX = 64


_RESET = (
    "{name} was reset to its default action while a guard was open. The guard handles it again. "
    "To restore the default, close the guard first."
)
_IGNORED = (
    "{name} was set to SIG_IGN while a guard was open, so the guard cannot receive it. "
    "Do not ignore it while a guard is open."
)
_NOT_HEARD = (
    "The handler of {name} was replaced while a guard was open, so the guard may not receive it. "
    "Install the handler before you open the guard."
)


_OVERTAKEN = (
    "An event loop installed a handler for {name} while a guard was open. Until the loop next "
    "runs, {name} may reach only the loop, and not the guard. Call add_signal_handler before you "
    "open the guard."
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A signal, and when it arrived in `time.monotonic()` seconds."""

    number: int
    moment: float


class SignalInbox:
    """Takes over signals, delivers each with its time of arrival, and restores them when closed."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._writer.setblocking(False)
        if sys.platform == "linux":
            self._reader.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._clock_offset = 0.0
        self._previous: dict[Signals, _Handler] = {}
        self._native: dict[Signals, bytes] = {}
        self._displaced_fd: int | None = None
        self._displaced: tuple[int, int] | None = None
        self._heard: set[int] = set()
        self._kept_back: set[int] = set()
        self._waiting = False
        self._taken: dict[int, _Handler] = {}
        self._ignored = False
        self._warned: set[Signals] = set()
        self._unreported: deque[str] = deque()
        self.abandoned = False

    @property
    def listening(self) -> bool:
        return bool(self._previous)

    def listen(self, numbers: Collection[Signals]) -> None:
        """Take over exactly these signals and restore the others. Main thread only."""
        if not numbers and self._displaced_fd is not None:
            self._give_back_wakeup_fd(self._displaced_fd)
        # Ctrl-C last: once restored, it may raise immediately.
        for number in sorted(self._previous, key=lambda n: n is signal.SIGINT):
            if number not in numbers:
                self._give_back(number)
        for number in sorted(numbers, key=lambda n: n is not signal.SIGINT):
            if number not in self._previous:
                self._take_over(number)
        if self._previous and self._displaced_fd is None:
            self._displaced_fd = _set_wakeup_fd(self._writer.fileno())
            self._displaced = _identity(self._displaced_fd)

    def take_warnings(self) -> list[str]:
        """What happened in signal handlers and has not been logged yet.

        A handler must not log: it interrupts its thread anywhere, and a log may wait for that.
        """
        return [self._unreported.popleft() for _ in range(len(self._unreported))]

    def keep_hearing(self) -> list[str]:
        """Find handlers that replaced ours, and hear their signals anyway. Any thread.

        Returns warnings for the user. A handler installed by the program stays in place: Python
        calls it, and the wake-up descriptor reports it. asyncio replaces both, and only its own
        thread can give us the descriptor back.
        """
        replaced = {
            number: handler
            for number in list(self._previous)
            if (handler := signal.getsignal(number)) != self._on_signal
        }
        if not replaced or self._ignored or self.abandoned:
            return []
        try:
            from outlast.interruption.interpreter import call_in_main_thread
        except ImportError:
            return self._warn_once(replaced, _NOT_HEARD)
        call_in_main_thread(self._hear_again)
        reset = [number for number in replaced if replaced[number] == signal.SIG_DFL]
        ignored = [number for number in replaced if replaced[number] == signal.SIG_IGN]
        overtaken = [number for number in replaced if _is_event_loops(replaced[number])]
        return [
            *self._warn_once(reset, _RESET),
            *self._warn_once(ignored, _IGNORED),
            *self._warn_once(overtaken, _OVERTAKEN),
        ]

    def not_heard(self, numbers: Collection[Signals]) -> list[Signals]:
        """Which of these were requested but not taken over."""
        return [n for n in numbers if n not in self._previous and not _is_ignored_ctrl_c(n)]

    def owed(self, arrivals: Collection[Arrival]) -> list[int]:
        """Which late signals still have to be sent to their previous handlers.

        A handler installed by the program has been called already, by us or by Python itself.
        """
        numbers = {arrival.number for arrival in arrivals} & self._taken.keys()
        return [
            number
            for number in numbers
            if not callable(self._taken[number])
            or (number in self._kept_back and not _is_program_handler(self._taken[number]))
        ]

    def wake(self) -> None:
        """Make a waiting `receive` return."""
        self._send(0)

    def receive(self, timeout_seconds: float) -> Arrival | None:
        """The next signal; None after the timeout or when woken."""
        self._reader.settimeout(timeout_seconds)
        self._clock_offset = time.time() - time.monotonic()
        try:
            data, ancillary, _, _ = self._reader.recvmsg(1, _ANCILLARY_BYTES)
        except (TimeoutError, BlockingIOError):
            return None
        if data == b"\0":
            return None
        self._forward(data)
        return Arrival(data[0], time.monotonic() - self._age_seconds(ancillary))

    def has_more(self) -> bool:
        """Whether a signal, or a call to `wake`, waits to be received."""
        self._reader.settimeout(0.0)
        try:
            return bool(self._reader.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def drain(self) -> list[Arrival]:
        """The signals that have not been received yet."""
        received = (self.receive(0.0) for _ in range(_SIGNALS_HELD_MAX))
        return [arrival for arrival in received if arrival is not None]

    def confirm(self, arrival: Arrival) -> None:
        """Note that all guards know of this signal now."""
        self._heard.add(arrival.number)

    def ignore(self) -> None:
        """Ignore these signals for the rest of this process. Main thread only.

        During shutdown the interpreter restores the default action of signals with Python handlers,
        which would kill the process. Ignored signals stay ignored.
        """
        self._ignored = True
        for number in self._previous:
            signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        assert not self.listening, "Signals must be restored before the inbox closes."
        self._reader.close()
        self._writer.close()

    def _take_over(self, number: Signals) -> None:
        previous = signal.getsignal(number)
        if _is_ignored_ctrl_c(number):
            return
        if not callable(previous) and number in _natively_caught():
            self._native[number] = _read_native_handler(number)
        signal.signal(number, self._on_signal)
        self._previous[number] = self._taken[number] = previous

    def _hear_again(self) -> None:
        """Take the wake-up descriptor back, and what was reset to its default action.

        Runs in the main thread, perhaps after all signals were given back.
        """
        if not self._previous or self._ignored or self.abandoned:
            return
        current = _set_wakeup_fd(self._writer.fileno())
        if current != self._writer.fileno():
            self._displaced_fd, self._displaced = current, _identity(current)
        for number in list(self._previous):
            if signal.getsignal(number) == signal.SIG_DFL:
                self._take_over(number)

    def _warn_once(self, numbers: Collection[Signals], warning: str) -> list[str]:
        new = [number for number in numbers if number not in self._warned]
        self._warned.update(new)
        return [warning.format(name=number.name) for number in new]

    def _give_back(self, number: Signals) -> None:
        previous = self._previous.pop(number)
        # A handler that was installed after ours stays.
        if signal.getsignal(number) != self._on_signal:
            return
        signal.signal(number, signal.SIG_DFL if previous is None else previous)
        if number in self._native:
            _write_native_handler(number, self._native.pop(number))

    def _give_back_wakeup_fd(self, displaced_fd: int) -> None:
        # A descriptor that was closed is not restored: its number may belong to another file.
        still_there = displaced_fd < 0 or self._displaced == _identity(displaced_fd)
        current = _set_wakeup_fd(displaced_fd if still_there else -1)
        if current != self._writer.fileno():
            _set_wakeup_fd(current)
        self._displaced_fd = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.abandoned:
            # The last guard was closed in a thread that could not restore the signals.
            self.listen(())
            signal.raise_signal(number)
            return
        if self._wakeup_fd_was_taken():
            self._send(number)
        self._wait_until_heard(number)
        previous = self._previous.get(Signals(number))
        if _is_program_handler(previous):
            if (warning := _call_contained(previous, number, frame)) is not None:
                self._unreported.append(warning)
                self.wake()
        else:
            self._kept_back.add(number)

    def _wait_until_heard(self, number: int) -> None:
        """Let the reader run, so that the program sees the notice at its next check.

        Otherwise a loop whose steps hold the interpreter lock could start another step.
        """
        if self._waiting:
            # This handler interrupted another one, which is already waiting.
            return
        self._waiting = True
        try:
            for turn in range(1, _TURNS_MAX + 1):
                if number in self._heard:
                    return
                if turn % _TURNS_UNTIL_SENT_AGAIN == 0:
                    # The socket was full of other signals. Sending this one twice does no harm.
                    self._send(number)
                time.sleep(_TURN_SECONDS)
        finally:
            self._waiting = False

    def _wakeup_fd_was_taken(self) -> bool:
        """Whether asyncio, for example, replaced our descriptor. Only setting it shows that."""
        ours = self._writer.fileno()
        current = _set_wakeup_fd(ours)
        if current != ours:
            _set_wakeup_fd(current)
        return current != ours

    def _send(self, number: int) -> None:
        # A full socket wakes the reader anyway.
        with contextlib.suppress(OSError):
            self._writer.send(bytes([number]))

    def _forward(self, data: bytes) -> None:
        """Pass the signal number on to the wake-up descriptor that ours replaced."""
        fd = self._displaced_fd
        if fd is None or fd < 0 or self._displaced != _identity(fd):
            return
        with contextlib.suppress(OSError):
            os.write(fd, data)

    def _age_seconds(self, ancillary: list[tuple[int, int, bytes]]) -> float:
        if not ancillary:
            return 0.0
        seconds, nanoseconds = cast("tuple[int, int]", _TIMESPEC.unpack(ancillary[0][2]))
        now = time.time()
        # A timestamp is useless if the wall clock was changed in between.
        if abs(now - time.monotonic() - self._clock_offset) > 1.0:
            return 0.0
        return max(0.0, now - (seconds + nanoseconds * 1e-9))


def _identity(fd: int) -> tuple[int, int] | None:
    """The file that a descriptor refers to: its number alone may be reused for another file."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _is_ignored_ctrl_c(number: Signals) -> bool:
    """A shell deliberately makes a background job ignore Ctrl-C."""
    return number is signal.SIGINT and signal.getsignal(number) == signal.SIG_IGN


def _is_program_handler(handler: _Handler) -> TypeGuard[Callable[[int, FrameType | None], object]]:
    """Whether a handler was installed by the program, and not by Python or asyncio."""
    if not callable(handler) or handler is signal.default_int_handler:
        return False
    function = getattr(handler, "func", handler)
    return getattr(function, "__qualname__", "") != "Runner._on_sigint"


def _is_event_loops(handler: _Handler) -> bool:
    """Whether asyncio handles this signal; it has then replaced the wake-up descriptor too."""
    return getattr(handler, "__name__", "") == "_sighandler_noop"


def _set_wakeup_fd(fd: int) -> int:
    return signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def _call_contained(
    handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None
) -> str | None:
    """Call the previous handler, but do not let it end the process. Returns a warning if it tried.

    Many programs have a handler that exits with 0. Here that would cut off the work and report it
    as finished.
    """
    try:
        handler(number, frame)
    except (Exception, SystemExit) as error:
        return (
            f"The previous handler of {Signals(number).name}, {handler!r}, raised {error!r}. The "
            "guard suppressed it; the process exits once its work is saved."
        )
    return None


def _natively_caught() -> set[int]:
    """Signals with a handler in C that Python does not know of. Linux only."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return set()
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    mask = int(found[1], 16) if found else 0
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def _read_native_handler(number: Signals) -> bytes:
    """The C handler that native code installed, as an opaque `struct sigaction`."""
    import ctypes

    action = ctypes.create_string_buffer(_SIGACTION_BYTES_MAX)
    ctypes.CDLL(None).sigaction(int(number), None, action)
    return action.raw


def _write_native_handler(number: Signals, action: bytes) -> None:
    import ctypes

    ctypes.CDLL(None).sigaction(int(number), ctypes.create_string_buffer(action), None)
