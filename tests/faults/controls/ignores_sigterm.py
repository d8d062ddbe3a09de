"""Fault: it ignores SIGTERM."""

import signal

from tests.faults.controls.training import SAVE_EVERY, STEPS, Training

signal.signal(signal.SIGTERM, signal.SIG_IGN)
training = Training()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.step % SAVE_EVERY == 0:
        training.save()
training.finish()
