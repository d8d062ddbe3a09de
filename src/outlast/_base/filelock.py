"""A lock between processes, on a file. The kernel releases it when its holder dies.

The kernel's own queue is fair, but has no timeout. So a separate thread waits for the lock, and is
abandoned after the timeout: a holder that is stopped or hangs delays the others, but does not block
them forever.
"""

import contextlib
import fcntl
import os
import threading
from pathlib import Path

_LOCKS = Path("/proc/locks")


class FileLock:
    """Held by one instance at a time, across all processes. Not thread-safe.

    Links are not followed. A new file gets exactly `mode`; an existing one keeps its own.
    """

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self._path = path
        self._mode = mode
        self._fd = _opened(path, mode)
        self._held_fd = -1
        self._waiter: _Waiter | None = None

    def acquire(self, *, timeout_seconds: float) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait(timeout_seconds)
        self._held_fd = self._fd
        return True

    def release(self) -> None:
        fcntl.flock(self._held_fd, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The process that holds it, if the system reports that."""
        try:
            text = _LOCKS.read_text()
        except OSError:
            return None
        status = os.fstat(self._fd)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in text.splitlines():
            fields = line.split()
            if "FLOCK" in fields and "->" not in fields and place in fields:
                return int(fields[4])
        return None

    def close(self) -> None:
        os.close(self._fd)
        if self._waiter is not None:
            self._waiter.close()

    def _wait(self, timeout_seconds: float) -> bool:
        if self._waiter is None:
            self._waiter = _Waiter(self._path, self._mode)
        if self._waiter.acquire(timeout_seconds):
            self._held_fd = self._waiter.fd
            return True
        self._waiter = None
        return False


class _Waiter:
    """A thread that waits for the lock on request, until it is abandoned."""

    def __init__(self, path: Path, mode: int) -> None:
        # A lock belongs to an open file description, so an abandoned wait needs its own.
        self.fd = _opened(path, mode)
        # Locks that another thread releases: the fastest way to signal it.
        self._go = threading.Lock()
        self._got = threading.Lock()
        self._go.acquire()
        self._got.acquire()
        self._mutex = threading.Lock()
        self._is_over = False
        threading.Thread(target=self._run, name="outlast-filelock", daemon=True).start()

    def acquire(self, timeout_seconds: float) -> bool:
        self._go.release()
        if self._got.acquire(timeout=timeout_seconds):
            return True
        with self._mutex:
            self._is_over = not self._got.acquire(blocking=False)
            return not self._is_over

    def close(self) -> None:
        with self._mutex:
            self._is_over = True
        self._go.release()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if not self._is_over:
                fcntl.flock(self.fd, fcntl.LOCK_EX)
            with self._mutex:
                if self._is_over:
                    os.close(self.fd)
                    return
                self._got.release()


def _opened(path: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            # If it is removed at the same time, try again to create it.
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, flags)
        else:
            # Set exactly, because the umask might keep the group from opening it.
            with contextlib.suppress(OSError):
                os.fchmod(fd, mode)
            return fd
