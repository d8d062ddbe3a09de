"""A guard within this process. What ends processes is in tests/drill/."""

import logging
import math
import os
import signal
import threading
import time

import pytest

from outlast import Guard, Notice, NoticeSource
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("ample_grace")


def test_without_a_notice_nothing_ends() -> None:
    with Guard() as guard:
        assert not guard.interrupted
        assert guard.notice is None
        assert guard.remaining() == math.inf
        assert guard.exit_code == 0
        assert not guard.wait(timeout_seconds=0.01)


def test_the_program_can_give_notice_itself() -> None:
    with Guard(grace_seconds=2000, reserve_seconds=300) as guard:
        guard.interrupt("the loss is not a number")

        assert guard.interrupted
        assert guard.notice is not None
        assert (guard.notice.source, guard.notice.reason) == (
            NoticeSource.PROGRAM,
            "the loss is not a number",
        )
        assert guard.remaining() == pytest.approx(1700, abs=100)
        assert guard.wait(timeout_seconds=0)


def test_what_was_heard_can_still_be_asked_after_closing() -> None:
    with Guard(exit_code=42) as guard:
        guard.interrupt("enough")

    assert guard.interrupted
    assert guard.exit_code == 42


def test_a_guard_can_be_used_again() -> None:
    guard = Guard()
    with guard:
        guard.interrupt("first")
    with guard:
        assert not guard.interrupted
        assert guard.exit_code == 0


def test_a_guard_that_is_used_again_keeps_its_callbacks() -> None:
    seen: list[str] = []
    guard = Guard()
    guard.on_notice(lambda notice: seen.append(notice.reason))
    for reason in ("first", "second"):
        with guard:
            guard.interrupt(reason)

    assert seen == ["first", "second"]


def test_waiting_for_as_long_as_there_is_time_is_possible() -> None:
    with Guard() as guard:
        threading.Timer(0.05, guard.interrupt, ["now"]).start()

        assert guard.wait(guard.remaining())


def test_an_open_guard_cannot_be_opened_again() -> None:
    guard = Guard()
    with guard, pytest.raises(RuntimeError, match="already open"), guard:
        pass


def test_a_closed_guard_cannot_be_interrupted() -> None:
    with pytest.raises(RuntimeError, match="Only an open guard"):
        Guard().interrupt("too early")


def test_nested_guards_all_hear_of_it_with_their_own_grace() -> None:
    with Guard(grace_seconds=3002) as outer, Guard(grace_seconds=1002) as inner:
        inner.interrupt("both")

        assert outer.interrupted
        assert inner.remaining() == pytest.approx(1000, abs=100)
        assert outer.remaining() == pytest.approx(3000, abs=100)


def test_a_guard_opened_after_the_notice_is_told_at_once() -> None:
    with Guard() as outer:
        outer.interrupt("leaving")

        with Guard() as inner:
            assert inner.interrupted


def test_callbacks_run_in_order_outside_the_signal_with_what_is_left() -> None:
    seen: list[tuple[str, str, bool]] = []
    with Guard() as guard:
        for name in ("first", "second", "third"):

            @guard.on_notice
            def note(notice: Notice, name: str = name) -> None:
                in_time = 0 < guard.remaining() <= 3598
                seen.append((name, threading.current_thread().name, in_time))

        guard.interrupt("go")

    assert seen == [(name, "outlast-callbacks", True) for name in ("first", "second", "third")]


def test_a_callback_that_fails_does_not_keep_the_next_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Notice] = []
    with Guard() as guard:

        @guard.on_notice
        def fail(notice: Notice) -> None:
            raise OSError("the disk is gone")

        guard.on_notice(seen.append)
        guard.interrupt("go")

    assert [notice.reason for notice in seen] == ["go"]
    assert "the disk is gone" in caplog.text


def test_a_callback_registered_after_the_notice_still_runs() -> None:
    ran = threading.Event()
    with Guard() as guard:
        guard.interrupt("go")
        assert guard.wait(0)

        guard.on_notice(lambda notice: ran.set())

        assert ran.wait(PATIENCE_SECONDS)


def test_closing_waits_for_callbacks_under_way() -> None:
    done = threading.Event()
    with Guard() as guard:

        @guard.on_notice
        def slow(notice: Notice) -> None:
            time.sleep(0.2)
            done.set()

        guard.interrupt("go")

    assert done.is_set()


def test_the_handlers_from_before_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    wakeup_fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup_fd)

    with Guard(), Guard(signals=["SIGTERM", "SIGUSR1"]):
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]

    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.set_wakeup_fd(wakeup_fd) == wakeup_fd


def test_a_handler_installed_later_keeps_its_place() -> None:
    def theirs(number: int, frame: object) -> None: ...

    before = signal.getsignal(signal.SIGUSR2)
    try:
        with Guard(signals=["SIGUSR2"]):
            signal.signal(signal.SIGUSR2, theirs)

        assert signal.getsignal(signal.SIGUSR2) is theirs
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_outside_the_main_thread_it_says_what_it_cannot_hear(
    caplog: pytest.LogCaptureFixture,
) -> None:
    interrupted: list[bool] = []

    def work() -> None:
        with Guard() as guard:
            guard.interrupt("from a thread")
            interrupted.append(guard.interrupted)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert interrupted == [True]
    assert "outside the main thread" in caplog.text


def test_a_signal_that_a_thread_s_guard_cannot_take_over_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work() -> None:
        with Guard(signals=["SIGTERM", "SIGUSR1"]):
            pass

    with Guard():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert "It does not receive SIGUSR1," in caplog.text


def test_a_guard_in_a_thread_shares_the_signals_of_one_in_the_main_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    heard: list[bool] = []

    def work() -> None:
        with Guard() as guard:
            ready.set()
            heard.append(guard.wait(PATIENCE_SECONDS))

    ready = threading.Event()
    with Guard() as guard:
        thread = threading.Thread(target=work)
        thread.start()
        assert ready.wait(PATIENCE_SECONDS)
        os.kill(os.getpid(), signal.SIGINT)
        assert guard.wait(PATIENCE_SECONDS)
        thread.join()

    assert heard == [True]
    assert guard.exit_code == 130
    assert "outside the main thread" not in caplog.text


def test_an_expiry_gives_notice_one_grace_period_ahead() -> None:
    from datetime import UTC, datetime, timedelta

    expires_at = datetime.now(UTC) + timedelta(seconds=3600)
    with Guard(grace_seconds=3300, expires_at=expires_at) as guard:
        assert not guard.interrupted
        assert not guard.wait(0.05)
