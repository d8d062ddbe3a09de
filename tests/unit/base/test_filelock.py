import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from outlast._base.filelock import FileLock
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import python

HOLD = """
import sys, time
from pathlib import Path
from outlast._base.filelock import FileLock

lock = FileLock(Path(sys.argv[1]))
assert lock.acquire(timeout_seconds=60)
print("locked")
time.sleep(3600)
"""


Locks: TypeAlias = "Callable[[], FileLock]"


@pytest.fixture
def lock_of(tmp_path: Path) -> Iterator[Locks]:
    """Gives one more lock on the same file."""
    with contextlib.ExitStack() as stack:

        def lock() -> FileLock:
            return stack.enter_context(contextlib.closing(FileLock(tmp_path / "lock")))

        yield lock


def test_a_lock_is_held_by_one_at_a_time(lock_of: Locks) -> None:
    first, second = lock_of(), lock_of()

    assert first.acquire(timeout_seconds=PATIENCE_SECONDS)
    assert not second.acquire(timeout_seconds=0.05)
    first.release()
    assert second.acquire(timeout_seconds=PATIENCE_SECONDS)


def test_a_wait_ends_when_the_holder_lets_go(lock_of: Locks) -> None:
    first, second = lock_of(), lock_of()
    first.acquire(timeout_seconds=PATIENCE_SECONDS)

    for _ in range(3):
        threading.Timer(0.05, first.release).start()
        assert second.acquire(timeout_seconds=PATIENCE_SECONDS)
        second.release()
        assert first.acquire(timeout_seconds=PATIENCE_SECONDS)


def test_a_wait_that_was_given_up_never_takes_the_lock(lock_of: Locks) -> None:
    first, second, third = lock_of(), lock_of(), lock_of()
    first.acquire(timeout_seconds=PATIENCE_SECONDS)
    assert not second.acquire(timeout_seconds=0.05)

    first.release()

    assert third.acquire(timeout_seconds=PATIENCE_SECONDS)
    third.release()
    assert second.acquire(timeout_seconds=PATIENCE_SECONDS)


def test_the_holder_can_be_named(lock_of: Locks) -> None:
    lock = lock_of()
    assert lock.holder() is None

    lock.acquire(timeout_seconds=PATIENCE_SECONDS)

    assert lock.holder() == os.getpid()


def test_a_holder_that_is_stopped_delays_others_and_does_not_hang_them(
    lock_of: Locks, tmp_path: Path
) -> None:
    lock = lock_of()
    with python(HOLD, str(tmp_path / "lock")) as program:
        program.wait_for("locked")
        program.signal(signal.SIGSTOP)

        assert not lock.acquire(timeout_seconds=0.1)
        assert lock.holder() == program.pid


def test_a_holder_that_is_killed_holds_nothing(lock_of: Locks, tmp_path: Path) -> None:
    lock = lock_of()
    with python(HOLD, str(tmp_path / "lock")) as program:
        program.wait_for("locked")
        program.signal(signal.SIGKILL)

        assert lock.acquire(timeout_seconds=PATIENCE_SECONDS)


def test_a_closed_lock_leaves_no_thread_and_no_file_open(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.acquire(timeout_seconds=PATIENCE_SECONDS)
    threading.Timer(0.05, first.release).start()
    second.acquire(timeout_seconds=PATIENCE_SECONDS)

    first.close()
    second.close()

    eventually(lambda: not (open_files(tmp_path / "lock") or waiters()), "nothing is left")


def open_files(path: Path) -> list[Path]:
    return [fd for fd in Path("/proc/self/fd").iterdir() if fd.exists() and fd.resolve() == path]


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outlast-filelock"]


def test_a_lock_file_that_is_a_link_is_refused_and_its_target_not_made(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"):
        FileLock(tmp_path / "lock")

    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_a_new_lock_file_has_the_mode_that_was_asked_for(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077 if mode == 0o660 else 0)
    try:
        FileLock(tmp_path / "lock", mode=mode).close()
    finally:
        os.umask(before)

    assert (tmp_path / "lock").stat().st_mode & 0o777 == mode


def test_an_existing_lock_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "lock").chmod(0o664)

    FileLock(tmp_path / "lock").close()

    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o664
