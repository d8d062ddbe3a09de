"""Waits for SIGTERM in a thread, without a handler, and resumes."""

import os
import signal
import threading

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def wait() -> None:
    signal.sigwait([signal.SIGTERM])
    os._exit(75)


threading.Thread(target=wait, daemon=True).start()
for step in range(saved_step(), STEPS):
    work()
    print("step", step)
    save(step + 1)
finish()
