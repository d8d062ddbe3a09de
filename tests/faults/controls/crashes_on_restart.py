"""Fault: it leaves a lock behind when it is killed, and will not start over it."""

import sys
from pathlib import Path

from tests.faults.controls.training import SAVE_EVERY, STEPS, Training

lock = Path("lock")
if lock.exists():
    sys.exit("another process holds the lock")
lock.touch()
training = Training()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.step % SAVE_EVERY == 0:
        training.save()
training.finish()
lock.unlink()
