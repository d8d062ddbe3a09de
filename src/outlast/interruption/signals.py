"""Receives signals with the moment of their arrival, also while the main thread is busy.

Python runs signal handlers in the main thread, between two of its instructions: a long call into C
delays them for as long as it lasts. But the interpreter's own C handler writes the number of each
signal to a wake-up descriptor at once. Here that is a datagram socket for which the kernel stamps
every datagram with its time, so that neither a long call nor a held interpreter lock moves the
moment from which the deadline counts.
"""

import contextlib
import logging
import os
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from types import FrameType
from typing import TypeGuard, cast

log = logging.getLogger(__name__)

_Handler = Callable[[int, FrameType | None], object] | int | None

# Linux stamps with struct timespec; where the option is missing, a signal counts from its reading.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_SIGACTION_BYTES_MAX = 1024
_TURN_SECONDS = 0.001
_TURNS_MAX = 50
_SIGNALS_HELD_MAX = 64


@dataclass(frozen=True, slots=True)
class Arrival:
    """A signal, and when it came in `time.monotonic()` seconds."""

    number: int
    moment: float


class SignalInbox:
    """Takes signals over, hands each out with its moment, and puts everything back on closing."""

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
        self.abandoned = False

    @property
    def listening(self) -> bool:
        return bool(self._previous)

    def listen(self, numbers: Collection[Signals]) -> None:
        """Take exactly these signals over and give the others back. Main thread only."""
        if not numbers and self._displaced_fd is not None:
            self._give_back_wakeup_fd(self._displaced_fd)
        # Ctrl-C last: given back, it may raise at once.
        for number in sorted(self._previous, key=lambda n: n is signal.SIGINT):
            if number not in numbers:
                self._give_back(number)
        for number in sorted(numbers, key=lambda n: n is not signal.SIGINT):
            if number not in self._previous:
                self._take_over(number)
        if self._previous and self._displaced_fd is None:
            self._displaced_fd = _set_wakeup_fd(self._writer.fileno())
            self._displaced = _identity(self._displaced_fd)

    def not_heard(self, numbers: Collection[Signals]) -> list[Signals]:
        """Which of these were not taken over, though somebody wants them."""
        return [n for n in numbers if n not in self._previous and not _is_ignored_ctrl_c(n)]

    def owed(self, arrivals: Collection[Arrival]) -> list[int]:
        """Which signals that came too late still have to reach those who had them before.

        A handler of the program's was called already, by us or by Python itself.
        """
        numbers = {arrival.number for arrival in arrivals} & self._taken.keys()
        return [
            number
            for number in numbers
            if not callable(self._taken[number])
            or (number in self._kept_back and not _is_the_programs(self._taken[number]))
        ]

    def wake(self) -> None:
        """Let a waiting `receive` return."""
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

    def drain(self) -> list[Arrival]:
        """The signals that nobody has received yet."""
        received = (self.receive(0.0) for _ in range(_SIGNALS_HELD_MAX))
        return [arrival for arrival in received if arrival is not None]

    def confirm(self, arrival: Arrival) -> None:
        """Say that everyone who asks knows of this signal now."""
        self._heard.add(arrival.number)

    def close(self) -> None:
        assert not self.listening, "Signals must be given back before the inbox closes."
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

    def _give_back(self, number: Signals) -> None:
        previous = self._previous.pop(number)
        # Whoever installed a handler after us keeps it.
        if signal.getsignal(number) != self._on_signal:
            return
        signal.signal(number, signal.SIG_DFL if previous is None else previous)
        if number in self._native:
            _write_native_handler(number, self._native.pop(number))

    def _give_back_wakeup_fd(self, displaced_fd: int) -> None:
        # A descriptor that was closed meanwhile is not given back: its number may be anyone's.
        still_there = displaced_fd < 0 or self._displaced == _identity(displaced_fd)
        current = _set_wakeup_fd(displaced_fd if still_there else -1)
        if current != self._writer.fileno():
            _set_wakeup_fd(current)
        self._displaced_fd = None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.abandoned:
            # The last guard was closed in a thread that could not give the signals back.
            self.listen(())
            signal.raise_signal(number)
            return
        if self._wakeup_fd_was_taken():
            self._send(number)
        self._let_it_be_heard(number)
        previous = self._previous.get(Signals(number))
        if _is_the_programs(previous):
            _call_held_back(previous, number, frame)
        else:
            self._kept_back.add(number)

    def _let_it_be_heard(self, number: int) -> None:
        """Give the reader its turn, so that the program's very next question gets the new answer.

        Otherwise a loop whose steps hold the interpreter lock could start one more of them.
        """
        if self._waiting:
            # One handler has broken into another, which waits already.
            return
        self._waiting = True
        try:
            for _ in range(_TURNS_MAX):
                if number in self._heard:
                    return
                time.sleep(_TURN_SECONDS)
        finally:
            self._waiting = False
        # The socket was full of other signals when this one came. Twice is as good as once.
        self._send(number)

    def _wakeup_fd_was_taken(self) -> bool:
        """Whether someone, such as asyncio, replaced our descriptor; only setting it tells."""
        ours = self._writer.fileno()
        current = _set_wakeup_fd(ours)
        if current != ours:
            _set_wakeup_fd(current)
        return current != ours

    def _send(self, number: int) -> None:
        # A full socket already holds more than enough to wake the reader.
        with contextlib.suppress(OSError):
            self._writer.send(bytes([number]))

    def _forward(self, data: bytes) -> None:
        """Pass the signal's number on to the wake-up descriptor that was there before ours."""
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
        # A stamp means nothing across a step of the wall clock.
        if abs(now - time.monotonic() - self._clock_offset) > 1.0:
            return 0.0
        return max(0.0, now - (seconds + nanoseconds * 1e-9))


def _identity(fd: int) -> tuple[int, int] | None:
    """What a descriptor stands for: its number alone may long belong to another file."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _is_ignored_ctrl_c(number: Signals) -> bool:
    """A shell that starts a job in the background has it ignore Ctrl-C, and means it."""
    return number is signal.SIGINT and signal.getsignal(number) == signal.SIG_IGN


def _is_the_programs(handler: _Handler) -> TypeGuard[Callable[[int, FrameType | None], object]]:
    """Whether a handler was installed by the program, and not by Python or asyncio for it."""
    if not callable(handler) or handler is signal.default_int_handler:
        return False
    function = getattr(handler, "func", handler)
    return getattr(function, "__qualname__", "") != "Runner._on_sigint"


def _set_wakeup_fd(fd: int) -> int:
    return signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def _call_held_back(
    handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None
) -> None:
    """Call the handler that was there before, but let it not end the process.

    Many programs carry a handler that exits with 0. Raised here, that would cut off the work and
    report it as finished.
    """
    try:
        handler(number, frame)
    except (Exception, SystemExit) as error:
        log.warning(
            "The earlier handler of %s, %r, raised %r. The guard held it back: "
            "the process leaves when its work is safe.",
            Signals(number).name,
            handler,
            error,
        )


def _natively_caught() -> set[int]:
    """Signals with a handler in C, of which Python itself knows nothing. Linux only."""
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
