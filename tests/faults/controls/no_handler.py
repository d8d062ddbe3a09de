"""Fault: nothing handles SIGTERM, so that process 1 never sees it."""

from tests.faults.controls.training import SAVE_EVERY, STEPS, Training

training = Training()
training.resume()
while training.step < STEPS:
    training.advance()
    if training.step % SAVE_EVERY == 0:
        training.save()
training.finish()
