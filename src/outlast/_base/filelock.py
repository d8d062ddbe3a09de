"""A lock between processes, on a file. The kernel frees it when its holder dies.

The kernel's own queue makes those who wait about equally lucky, but it knows no timeout. So a wait
goes on in a thread of its own, which is left behind if it takes too long: a holder that is stopped
or hangs delays the others, and does not hang them.
"""

import fcntl
import os
import threading
from pathlib import Path

_LOCKS = Path("/proc/locks")


class FileLock:
    """Held by one of its instances at a time, in whichever process. Not for several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = _opened(path)
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
        """The process that holds it, where the system tells."""
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
            self._waiter = _Waiter(self._path)
        if self._waiter.acquire(timeout_seconds):
            self._held_fd = self._waiter.fd
            return True
        self._waiter = None
        return False


class _Waiter:
    """A thread that waits for the lock whenever it is told to, until it is given up."""

    def __init__(self, path: Path) -> None:
        # A lock belongs to an opening of the file; one that is given up must not be the owner's.
        self.fd = _opened(path)
        # Locks that another thread opens: the quickest way to hand something over.
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


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
