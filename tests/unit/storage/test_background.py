"""A process that used an object store can come to its end at any moment."""

import os
import threading
import time

import pytest

from outlast.storage.objects.background import _Loop, _settle
from tests.patience import PATIENCE_SECONDS


def test_the_end_waits_for_a_thread_that_hands_an_answer_over() -> None:
    """It lets go of the interpreter in there, and must not want it back when that is gone."""
    loop = _Loop()
    inside, may_leave = threading.Event(), threading.Event()

    def write_to_self() -> None:
        inside.set()
        may_leave.wait(PATIENCE_SECONDS)

    loop._write_to_self = write_to_self  # type: ignore[attr-defined]  # it is how the loop is woken
    caller = threading.Thread(target=loop.call_soon_threadsafe, args=(print,))
    caller.start()
    inside.wait(PATIENCE_SECONDS)
    threading.Timer(0.2, may_leave.set).start()
    started = time.monotonic()

    _settle(loop, os.getpid())

    assert not loop.callers
    assert time.monotonic() - started >= 0.15
    caller.join()
    loop.close()


def test_the_end_does_not_wait_for_ever() -> None:
    loop = _Loop()
    loop.callers.add(1)
    started = time.monotonic()

    _settle(loop, os.getpid())

    assert time.monotonic() - started >= 0.9
    loop.close()


def test_the_end_does_not_wait_for_a_parents_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.storage.objects.background._SETTLE_SECONDS_MAX", 3600.0)
    loop = _Loop()
    loop.callers.add(1)

    _settle(loop, os.getpid() + 1)

    loop.close()
