"""What a guard costs: per step, at import, to open, and until its notice is seen."""

import hashlib
import os
import signal
import sys
import threading
import time

import outlast
from bench.measure import Row, interleaved, seconds_of, table

STEPS = 1_000_000


def report() -> str:
    return table("The guard", rows())


def rows() -> list[Row]:
    return [per_step(), at_import(), open_and_close(), until_seen()]


def per_step() -> Row:
    with outlast.Guard() as guard:

        def empty() -> float:
            started = time.perf_counter()
            for _ in range(STEPS):
                pass
            return time.perf_counter() - started

        def asking() -> float:
            started = time.perf_counter()
            for _ in range(STEPS):
                if guard.interrupted:
                    break
            return time.perf_counter() - started

        medians = interleaved({"empty": empty, "asking": asking}, rounds=15)
    nanoseconds = {name: seconds / STEPS * 1e9 for name, seconds in medians.items()}
    return Row(
        "asking `guard.interrupted` at every step",
        f"{nanoseconds['asking'] - nanoseconds['empty']:.0f} ns more",
        f"an empty loop, {nanoseconds['empty']:.0f} ns",
        "≤ 100 ns more",
    )


def at_import() -> Row:
    medians = interleaved(
        {
            "bare": seconds_of([sys.executable, "-c", "pass"]),
            "import": seconds_of([sys.executable, "-c", "import outlast"]),
        },
        rounds=25,
    )
    return Row(
        "`import outlast`",
        f"{(medians['import'] - medians['bare']) * 1000:.1f} ms more",
        f"bare Python, {medians['bare'] * 1000:.1f} ms",
        "≤ 40 ms more",
    )


def open_and_close() -> Row:
    def guard() -> float:
        started = time.perf_counter()
        with outlast.Guard():
            pass
        return time.perf_counter() - started

    def thread() -> float:
        started = time.perf_counter()
        one = threading.Thread(target=lambda: None)
        one.start()
        one.join()
        return time.perf_counter() - started

    medians = interleaved({"guard": guard, "thread": thread}, rounds=300)
    return Row(
        "opening and closing a guard",
        f"{medians['guard'] * 1e6:.0f} µs",
        f"starting and joining a thread, {medians['thread'] * 1e6:.0f} µs",
    )


def until_seen() -> Row:
    """From the signal to another thread, while the main thread is inside a call into C."""
    pid = os.getpid()

    def measure() -> float:
        sent = 0.0

        def send() -> None:
            nonlocal sent
            time.sleep(0.05)
            sent = time.perf_counter()
            os.kill(pid, signal.SIGINT)

        seen: list[float] = []

        def watch() -> None:
            guard.wait()
            seen.append(time.perf_counter())

        with outlast.Guard() as guard:
            threads = [threading.Thread(target=send), threading.Thread(target=watch)]
            for thread in threads:
                thread.start()
            hashlib.pbkdf2_hmac("sha512", b"x", b"y", 400_000)
            for thread in threads:
                thread.join()
        return seen[0] - sent

    median = interleaved({"seen": measure}, rounds=11)["seen"]
    return Row(
        "a notice seen by another thread, main thread inside a C call",
        f"{median * 1000:.2f} ms",
        "the signal's arrival",
        "≤ 50 ms",
    )
