"""A thread that does one job after the other."""

import gc
import threading
import weakref

import pytest

from outlast.checkpoint.threads import BackgroundThread
from tests.patience import PATIENCE_SECONDS


class Work:
    """A job that ends when it is allowed to."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        assert self.may_end.wait(PATIENCE_SECONDS)


def done(background: BackgroundThread) -> threading.Thread:
    """Do a job; returns the thread that did it."""
    work = Work()
    work.may_end.set()
    background.do(work)
    assert background.wait(PATIENCE_SECONDS)
    assert work.thread is not None
    return work.thread


def test_all_jobs_are_done_by_one_thread() -> None:
    background = BackgroundThread("test")

    assert done(background) is done(background)

    background.close()


def test_it_is_busy_until_the_job_is_done() -> None:
    background = BackgroundThread("test")
    work = Work()
    assert not background.is_busy

    background.do(work)

    assert background.is_busy
    assert not background.wait(0.0)
    work.may_end.set()
    assert background.wait(PATIENCE_SECONDS)
    assert not background.is_busy
    background.close()


def test_closing_it_waits_for_the_job() -> None:
    background = BackgroundThread("test")
    thread = done(background)
    work = Work()
    background.do(work)
    work.may_end.set()

    background.close()

    assert work.thread is thread
    assert not thread.is_alive()


def test_the_thread_ends_with_the_last_reference() -> None:
    background = BackgroundThread("test")
    thread = done(background)

    del background
    gc.collect()

    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_job_is_not_kept_until_the_next_one() -> None:
    background = BackgroundThread("test")
    work = Work()
    work.may_end.set()
    reference = weakref.ref(work)
    background.do(work)
    assert background.wait(PATIENCE_SECONDS)

    del work

    assert reference() is None
    background.close()


def test_a_job_that_raises_is_reported_and_the_next_one_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    background = BackgroundThread("test")
    thread = done(background)

    def fail() -> None:
        raise SystemExit

    background.do(fail)
    assert background.wait(PATIENCE_SECONDS)

    assert "Unexpected error in a background thread." in caplog.text
    assert done(background) is thread
    background.close()
